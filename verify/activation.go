package verify

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// checkActivation compares the activation scales with the recipe, or else with what the weights ask for (F22).
func (o *origin) checkActivation() error {
	return o.one(Source, "checkpoint", "F22", "activation scales", func() error {
		m := o.file.Manifest()
		if got, want := m.Activation.String(), cmp.Or(m.Recipe.Activation, activationOf(m.Packed)); got != want {
			return broken("F22", "activations %s; recipe and weights give %s", got, want)
		}
		return nil
	})
}

// activationOf is the default choice of a conversion, by the definition in F22.
func activationOf(entries []packed.Entry) string {
	const token, group = string(packed.ActivationToken), string(packed.ActivationGroup)
	least, linear := 0, 0
	for i := range entries {
		e := &entries[i]
		if e.Name == packed.ScreenName {
			continue
		}
		if perToken(e) {
			return token
		}
		linear++
		if g := e.Scale.Group; g > 0 {
			least = min(cmp.Or(least, g), g)
		}
	}
	switch {
	case linear == 0:
		return token
	case least >= 64:
		return group + ":64"
	}
	return group + ":32"
}

// perToken reports whether the weights come from training with one activation scale per token.
func perToken(e *packed.Entry) bool {
	if e.Quantizer == importCodes {
		return e.Layout.Alphabet == pack.Ternary.Name || e.Layout.Alphabet == pack.Int1.Name
	}
	return slices.Contains([]string{importU8, "absmean", "sign"}, e.Quantizer) ||
		strings.HasSuffix(e.Quantizer, "-values") || strings.HasSuffix(e.Quantizer, "-elastic")
}
