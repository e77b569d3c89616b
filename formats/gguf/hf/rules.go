package hf

import (
	"encoding/json"
	"fmt"
	"strings"
)

// preOrder lists the names that PreTokenizer returns; of names with equal rules, only the first.
var preOrder = []string{"llama-bpe", "smaug-bpe", "qwen2", "gpt-4o", "tekken", "smollm", "gpt-2", "hunyuan",
	"deepseek-v3"}

// PreTokenizer returns llama.cpp's name for the rules of a tokenizer.json; "" = none. It serves vocabularies whose
// fingerprint is unknown.
func PreTokenizer(normalizer, preTokenizer json.RawMessage, wholeWords bool) string {
	want := rules(normalizer) + " " + rules(preTokenizer)
	for _, name := range preOrder {
		p := preTokenizers[name]
		n, err1 := json.Marshal(p.normalizer())
		s, err2 := json.Marshal(p.splitter())
		if err1 == nil && err2 == nil && p.wholeWords == wholeWords && rules(n)+" "+rules(s) == want {
			return name
		}
	}
	return ""
}

// part is a component of tokenizer.json, with the fields that affect splitting.
type part struct {
	Type             string
	Pretokenizers    []json.RawMessage
	Normalizers      []json.RawMessage
	Pattern          struct{ Regex, String string }
	Behavior         string
	Invert           bool
	IndividualDigits bool  `json:"individual_digits"`
	AddPrefixSpace   *bool `json:"add_prefix_space"`
	UseRegex         *bool `json:"use_regex"`
}

// rules returns a canonical form of normalizers and pre-tokenizers.
func rules(text json.RawMessage) string {
	var p *part
	if len(text) == 0 || json.Unmarshal(text, &p) != nil {
		return "none"
	}
	if p == nil {
		return ""
	}
	if p.Type == "Sequence" {
		var list []string
		for _, x := range append(p.Pretokenizers, p.Normalizers...) {
			list = append(list, rules(x))
		}
		return strings.Join(list, " ")
	}
	on := func(b *bool) bool { return b == nil || *b }
	return fmt.Sprintf("%s(%q %q %s %v %v %v %v)", p.Type, p.Pattern.Regex, p.Pattern.String, p.Behavior, p.Invert,
		p.IndividualDigits, on(p.AddPrefixSpace), on(p.UseRegex))
}
