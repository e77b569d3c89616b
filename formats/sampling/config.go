package sampling

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

const file = "generation_config.json"

// Parse reads the settings of a model's generation_config.json; nil stands for a model without one. They take effect
// only if do_sample is true: otherwise a model is meant to be decoded greedily. Errors name file and key, and wrap
// pack.ErrCorrupt for a value of the wrong type, or pack.ErrUnsupported for an invalid one.
func Parse(data []byte) (Settings, error) {
	if data == nil {
		return Settings{}, nil
	}
	v, err := jsonread.Parse(data, int(modelfile.Limit(file)))
	if err != nil {
		return Settings{}, fmt.Errorf("%s: %w", file, err)
	}
	s, err := read(v)
	if err == nil {
		err = s.Check()
	}
	if err != nil {
		return Settings{}, fmt.Errorf("%s: %w; correct or remove it", file, err)
	}
	return s, nil
}

// read uses the defaults of transformers for absent keys.
func read(v *jsonread.Value) (s Settings, err error) {
	if v.Kind != jsonread.Object {
		return s, fmt.Errorf("%w: %s where an object is expected", pack.ErrCorrupt, v.Kind)
	}
	all := Settings{Temperature: 1, TopK: 50}
	sample := false
	for _, key := range []struct {
		name string
		want string
		set  func(v *jsonread.Value) bool
	}{
		{"do_sample", "true or false",
			func(v *jsonread.Value) bool { sample = v.Bool; return v.Kind == jsonread.Bool }},
		{"temperature", "a number", number(&all.Temperature)},
		{"top_k", "an integer", integer(&all.TopK)},
		{"top_p", "a number", number(&all.TopP)},
		{"min_p", "a number", number(&all.MinP)},
		{"repetition_penalty", "a number", number(&all.RepetitionPenalty)},
	} {
		if value := v.Get(key.name); value != nil && !key.set(value) {
			return s, fmt.Errorf("%w: %s is %s, not %s", pack.ErrCorrupt, key.name, show(value), key.want)
		}
	}
	if sample {
		return all, nil
	}
	return Settings{RepetitionPenalty: all.RepetitionPenalty}, nil
}

func number(to *float32) func(*jsonread.Value) bool {
	return func(v *jsonread.Value) bool {
		f, ok := v.Float()
		*to = float32(f)
		return ok
	}
}

func integer(to *int) func(*jsonread.Value) bool {
	return func(v *jsonread.Value) bool {
		n, ok := v.Int()
		*to = int(n)
		return ok && int64(*to) == n
	}
}

func show(v *jsonread.Value) string {
	if v.Kind == jsonread.Number || v.Kind == jsonread.String {
		return fmt.Sprintf("%.40q", v.Text)
	}
	return v.Kind.String()
}
