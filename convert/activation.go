package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// ActivationAuto derives the activations from the weights.
const ActivationAuto = "auto"

// Activations lists the values of Recipe.Activation; the first is the default, for which the field is empty.
func Activations() []string {
	list := []string{ActivationAuto}
	for _, a := range packed.Activations() {
		list = append(list, a.String())
	}
	return list
}

// completeActivation refuses a word that names no activations.
func completeActivation(r *packed.Recipe) error {
	if r.Activation == ActivationAuto {
		r.Activation = ""
	}
	if list := Activations(); r.Activation != "" && !slices.Contains(list, r.Activation) {
		return fmt.Errorf("%w: activation %q; it is one of %s", pack.ErrUnsupported, r.Activation,
			strings.Join(list, ", "))
	}
	return nil
}

// activationOf chooses the activations of a file with these weights (FORMAT F22). The recipe has priority. Otherwise
// they have 8 bits: models trained with int8 activations keep their per-token scale. All other models get
// group-wise scales, which lose least: 32 columns per group, or 64 if no weights have smaller groups, because weight
// groups already split the sums there. ofVocabulary tells embedding and head by their names.
func activationOf(r *packed.Recipe, entries []packed.Entry, ofVocabulary func(string) bool) packed.Activation {
	for _, a := range packed.Activations() {
		if a.String() == r.Activation {
			return a
		}
	}
	linear := slices.DeleteFunc(slices.Clone(entries), func(e packed.Entry) bool { return e.Name == packed.ScreenName })
	if len(linear) == 0 || slices.ContainsFunc(linear, trainedPerToken) {
		return packed.Activation{Kind: packed.ActivationToken}
	}
	return packed.Activation{Kind: packed.ActivationGroup, Size: activationGroup(linear, ofVocabulary)}
}

// activationGroup is 64 if weights have groups, all of 64 columns or more, else 32. Groups of the embedding and the
// head alone do not widen those of layers that have none.
func activationGroup(entries []packed.Entry, ofVocabulary func(string) bool) int {
	grouped := func(e packed.Entry) bool { return e.Scale.Group > 0 }
	layers := slices.DeleteFunc(slices.Clone(entries), func(e packed.Entry) bool { return ofVocabulary(e.Name) })
	if len(layers) == 0 {
		layers = entries
	}
	narrow := slices.ContainsFunc(entries, func(e packed.Entry) bool { return grouped(e) && e.Scale.Group < 64 })
	if narrow || !slices.ContainsFunc(layers, grouped) {
		return 32
	}
	return 64
}

// trainedPerToken reports whether the weights come from a model trained with quantization and one activation scale per
// token (BitNet, ParetoQ): identified by their quantizer, or as imported codes of at most three values, which no
// post-training quantization produces.
func trainedPerToken(e packed.Entry) bool {
	switch e.Quantizer {
	case quantize.ImportU8, "absmean", "sign":
		return true
	case importCodes:
		return e.Layout.Alphabet == pack.Ternary.Name || e.Layout.Alphabet == pack.Int1.Name
	}
	return strings.HasSuffix(e.Quantizer, "-values") || strings.HasSuffix(e.Quantizer, "-elastic")
}
