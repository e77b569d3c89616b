package openvino

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// vocabulary is a tokenizer in the form required by the operators of openvino_tokenizers.
type vocabulary struct {
	tokenizerJSON
	loaded        *tokenizer.Tokenizer
	bytewise      bool // byte-level BPE; else SentencePiece BPE, with a prefix before each part of a text
	tokens        [][]byte
	before, after []int32 // the tokens around a text
	form          string  // of Unicode, "" = any
	splits        []split
}

// split divides a text at the matches of a pattern.
type split struct {
	pattern, behavior string
	invert            bool
}

// tokenizerJSON holds the vocabulary and pre-tokenization of tokenizer.json.
type tokenizerJSON struct {
	Added        []addedToken `json:"added_tokens"`
	Normalizer   *step
	PreTokenizer *step `json:"pre_tokenizer"`
	Model        struct {
		Type         string
		Vocab        map[string]int
		Merges       []pair
		Unk          *string `json:"unk_token"`
		Prefix       string  `json:"continuing_subword_prefix"`
		Suffix       string  `json:"end_of_word_suffix"`
		FuseUnk      bool    `json:"fuse_unk"`
		ByteFallback bool    `json:"byte_fallback"`
	}
}

type addedToken struct {
	ID         int
	Content    string
	Special    bool
	Left       bool `json:"lstrip"`
	Right      bool `json:"rstrip"`
	SingleWord bool `json:"single_word"`
}

// pair is a merge: two tokens, in JSON also one text with a space between them.
type pair [2]string

func (p *pair) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return json.Unmarshal(b, (*[2]string)(p))
	}
	p[0], p[1], _ = strings.Cut(text, " ")
	return nil
}

// step is a normalizer or a pre-tokenizer, or a list of them.
type step struct {
	Type             string
	Normalizers      []step
	Pretokenizers    []step
	Pattern          struct{ Regex, String string }
	Content, Prepend string
	Behavior         string
	Invert           bool
	Individual       bool   `json:"individual_digits"`
	PrefixSpace      *bool  `json:"add_prefix_space"`
	Regex            *bool  `json:"use_regex"`
	Scheme           string `json:"prepend_scheme"`
	Replacement      string
}

// flat is the list of steps.
func (s *step) flat() (list []step) {
	if s == nil {
		return nil
	}
	if s.Type != "Sequence" {
		return []step{*s}
	}
	for _, inner := range append(s.Normalizers, s.Pretokenizers...) {
		list = append(list, inner.flat()...)
	}
	return list
}

// readVocabulary reads the tokenizer of a model with a number of tokens. Features without operators are refused by
// name, with pack.ErrUnsupported.
func readVocabulary(files tokenizer.Files) (*vocabulary, error) {
	v := &vocabulary{}
	text, ok := files("tokenizer.json")
	if !ok {
		return nil, fmt.Errorf("%w: there is no tokenizer.json", pack.ErrUnsupported)
	}
	var err error
	if v.loaded, err = tokenizer.Load(files); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &v.tokenizerJSON); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w: %v", pack.ErrCorrupt, err)
	}
	m := &v.Model
	if kind := v.loaded.Kind(); kind == "Unigram" || m.Prefix != "" || m.Suffix != "" {
		return nil, v.unsupported("a model of kind %s with prefix %q and suffix %q of words", kind, m.Prefix, m.Suffix)
	}
	v.bytewise = v.loaded.Kind() == "byte-level BPE"
	for _, a := range v.Added {
		if a.SingleWord {
			return nil, v.unsupported("the added token %q of whole words", a.Content)
		}
	}
	if err := v.steps(); err != nil {
		return nil, err
	}
	v.list()
	return v, v.around()
}

func (v *vocabulary) unsupported(format string, args ...any) error {
	return fmt.Errorf("tokenizer.json: %w: OpenVINO has no operators for %s", pack.ErrUnsupported,
		fmt.Sprintf(format, args...))
}

// steps reads normalizers and pre-tokenizers.
func (v *vocabulary) steps() error {
	normalizers, cuts := v.Normalizer.flat(), v.PreTokenizer.flat()
	if !v.bytewise {
		return v.sentencePiece(normalizers, cuts)
	}
	for _, n := range normalizers {
		if !slices.Contains([]string{"NFC", "NFD", "NFKC", "NFKD"}, n.Type) || v.form != "" {
			return v.unsupported("the normalizer %s", n.Type)
		}
		v.form = strings.ToLower(n.Type)
	}
	for _, c := range cuts {
		if err := v.cut(&c); err != nil {
			return err
		}
	}
	return nil
}

// gpt2 is the pattern of a ByteLevel.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func isTrue(b *bool) bool { return b == nil || *b }

// behaviors of splits, by their names in tokenizer.json.
var behaviors = map[string]string{
	"Isolated":           "isolate",
	"Removed":            "remove",
	"MergedWithPrevious": "mergedwithprevious",
	"MergedWithNext":     "mergedwithnext",
	"Contiguous":         "contiguous",
}

// cut reads a pre-tokenizer of byte-level BPE.
func (v *vocabulary) cut(c *step) error {
	switch {
	case c.Type == "ByteLevel" && !isTrue(c.PrefixSpace):
		if isTrue(c.Regex) {
			v.splits = append(v.splits, split{pattern: gpt2, behavior: "isolate"})
		}
		return nil
	case c.Type == "Digits" && c.Individual:
		v.splits = append(v.splits, split{pattern: `\p{N}`, behavior: "isolate"})
		return nil
	case c.Type == "Digits":
		v.splits = append(v.splits, split{pattern: `\p{N}+`, behavior: "isolate"})
		return nil
	case c.Type == "Split" && behaviors[c.Behavior] != "":
		pattern := c.Pattern.Regex
		if pattern == "" {
			pattern = quoted(c.Pattern.String)
		}
		v.splits = append(v.splits, split{pattern, behaviors[c.Behavior], c.Invert})
		return nil
	}
	return v.unsupported("the pre-tokenizer %s with these settings", c.Type)
}

// sentencePiece accepts the two ways to declare that spaces become marks and that a mark is prepended.
func (v *vocabulary) sentencePiece(normalizers, cuts []step) error {
	if !v.Model.ByteFallback {
		return v.unsupported("BPE of characters without bytes for unknown ones")
	}
	switch {
	case len(normalizers) == 2 && len(cuts) == 0 && normalizers[0].Type == "Prepend" &&
		normalizers[0].Prepend == mark &&
		normalizers[1].Type == "Replace" && normalizers[1].Pattern.String == " " && normalizers[1].Content == mark:
		return nil
	case len(normalizers) == 0 && len(cuts) == 1 && cuts[0].Type == "Metaspace" && cuts[0].Scheme == "always" &&
		cuts[0].Replacement == mark:
		return nil
	}
	return v.unsupported("BPE of characters with other steps than a mark in front of each part of a text, and marks " +
		"for spaces")
}

// mark replaces a space in SentencePiece.
const mark = "▁"

// list fills in the bytes of all tokens by their ids: unchanged for byte-level BPE, else with marks.
func (v *vocabulary) list() {
	v.tokens = make([][]byte, v.loaded.Size())
	for token, id := range v.Model.Vocab {
		v.tokens[id] = v.bytes(token)
	}
	for _, a := range v.Added {
		v.tokens[a.ID] = []byte(a.Content)
	}
}

// bytes of a token that is in the vocabulary.
func (v *vocabulary) bytes(token string) []byte {
	if !v.bytewise {
		return []byte(token)
	}
	return v.loaded.TokenBytes(v.Model.Vocab[token])
}

// around finds the special tokens added around a text.
func (v *vocabulary) around() error {
	bare, err := v.loaded.Encode("a", false)
	if err != nil {
		return err
	}
	ids, err := v.loaded.Encode("a", true)
	if err != nil {
		return err
	}
	for at := range len(ids) - len(bare) + 1 {
		if slices.Equal(ids[at:][:len(bare)], bare) {
			v.before, v.after = int32s(ids[:at]), int32s(ids[at+len(bare):])
			return nil
		}
	}
	return v.unsupported("the tokens around a text")
}

func int32s(list []int) (out []int32) {
	for _, x := range list {
		out = append(out, int32(x))
	}
	return out
}

// quoted is a text as a pattern.
func quoted(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 && !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '_') {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// specials returns the pattern of added tokens, longer ones first, including the white space that some of them strip.
func (v *vocabulary) specials() string {
	list := slices.Clone(v.Added)
	slices.SortFunc(list, func(a, b addedToken) int { return strings.Compare(b.Content, a.Content) })
	var parts []string
	for _, a := range list {
		part := "(" + quoted(a.Content) + ")"
		if a.Left {
			part = `(?:\s*)` + part
		}
		if a.Right {
			part += `(?:\s*)`
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "|")
}
