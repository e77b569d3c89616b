package modules

import (
	"slices"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// Length is the most tokens of a text.
type Length int

// ReadTokenizer reads the length at which the tokenizer of a checkpoint cuts texts; a number that no text reaches says
// that it does not.
func (l *Length) ReadTokenizer(v *jsonread.Value) error {
	if n, ok := v.Get("model_max_length").Int(); ok && n > 0 && n <= MostTokens {
		*l = Length(n)
	}
	return nil
}

// ReadTransformer reads a key of the transformer's file, and reports whether it is one that every model may have, with
// a value as it should be.
func (l *Length) ReadTransformer(key string, v *jsonread.Value) bool {
	switch key {
	case "max_seq_length":
		n, ok := v.Int()
		if ok {
			*l = Length(n)
		}
		return v.Kind == jsonread.Null || ok && n > 0 && n <= MostTokens
	case "do_lower_case":
		return v.Kind == jsonread.Bool && !v.Bool
	case "unpad_inputs": // how a batch lies in memory
		return true
	}
	return false
}

// Within returns the length, or 0 where it is no less than what the model was made for.
func (l Length) Within(positions int) int {
	if int(l) >= positions {
		return 0
	}
	return int(l)
}

// Prompts are texts in front of a text.
type Prompts struct {
	Names []string          // of those that are not empty, in the order of the file
	Texts map[string]string // of all, by name
	Usual string            // name of the prompt of a text by default; "" = none
}

// Read reads a key of the settings, and reports whether it is one of prompts with a value as it should be.
func (p *Prompts) Read(key string, v *jsonread.Value) bool {
	switch key {
	case "default_prompt_name":
		p.Usual = v.Text
		return v.Kind == jsonread.Null || v.Kind == jsonread.String
	case "prompts":
		p.Texts = map[string]string{}
		for _, m := range v.Members {
			if p.Texts[m.Key] = m.Value.Text; m.Value.Text != "" {
				p.Names = append(p.Names, m.Key)
			}
		}
		return v.Kind == jsonread.Object && !slices.ContainsFunc(v.Members, func(m jsonread.Member) bool {
			return m.Value.Kind != jsonread.Null && m.Value.Kind != jsonread.String
		})
	}
	return false
}
