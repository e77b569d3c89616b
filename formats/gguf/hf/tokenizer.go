package hf

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

// Token types (tokenizer.ggml.token_type), the same as SentencePiece's piece types.
const (
	NormalToken  = 1
	UnknownToken = 2
	ControlToken = 3
	UserToken    = 4
	UnusedToken  = 5
	ByteToken    = 6
)

// vocabulary holds the tokens and their properties.
type vocabulary struct {
	tokens []string
	types  []int64 // of each token
	roles  map[string]string
	bos    bool // add the BOS token
	eos    bool // add the EOS token
}

// roleKeys maps keys to the roles of tokens.
var roleKeys = map[string]string{
	"tokenizer.ggml.bos_token_id": "bos_token", "tokenizer.ggml.eos_token_id": "eos_token",
	"tokenizer.ggml.unknown_token_id": "unk_token", "tokenizer.ggml.padding_token_id": "pad_token",
}

// tokenizerTexts rebuilds the tokenizer files: tokenizer.json for byte-level BPE, tokenizer.model for SentencePiece;
// none if the file has no tokenizer.
func tokenizerTexts(k *keys, texts map[string][]byte) error {
	kind := k.text("tokenizer.ggml.model")
	if kind == "" || kind == "no_vocab" || kind == "none" {
		return k.err
	}
	v, err := readVocabulary(k, kind)
	if err != nil {
		return err
	}
	class := "PreTrainedTokenizerFast"
	switch whole := k.text("tokenizer.huggingface.json"); {
	case whole != "":
		texts["tokenizer.json"] = []byte(whole)
	case kind == "gpt2":
		texts["tokenizer.json"], err = v.byteLevel(k)
	case kind == "llama":
		class = "LlamaTokenizer"
		texts["tokenizer.model"], err = v.sentencePiece(k)
	default:
		err = fmt.Errorf("%w: tokenizer.ggml.model is %q; supported are gpt2 and llama", pack.ErrUnsupported, kind)
	}
	if err != nil {
		return err
	}
	config := map[string]any{"tokenizer_class": class, "add_bos_token": v.bos, "add_eos_token": v.eos}
	for role, token := range v.roles {
		config[role] = token
	}
	if template := k.text("tokenizer.chat_template"); template != "" {
		texts["chat_template.jinja"] = []byte(template)
	}
	texts["tokenizer_config.json"], err = marshal(config)
	return err
}

func readVocabulary(k *keys, kind string) (*vocabulary, error) {
	list, _ := k.get("tokenizer.ggml.tokens")
	tokens, ok := list.Texts()
	if !ok || len(tokens) == 0 {
		return nil, fmt.Errorf("%w: key %q is missing, or not a list of strings", pack.ErrCorrupt,
			"tokenizer.ggml.tokens")
	}
	v := &vocabulary{tokens: tokens, roles: map[string]string{}}
	if i := slices.IndexFunc(tokens, func(s string) bool { return !utf8.ValidString(s) }); i >= 0 {
		return nil, fmt.Errorf("%w: token %d is not UTF-8", pack.ErrUnsupported, i)
	}
	kinds, there := k.get("tokenizer.ggml.token_type")
	v.types, ok = kinds.Ints()
	switch {
	case !there:
		v.types = slices.Repeat([]int64{NormalToken}, len(tokens))
	case !ok || len(v.types) != len(tokens):
		return nil, fmt.Errorf("%w: key %q must be a list of %d integers", pack.ErrCorrupt, "tokenizer.ggml.token_type",
			len(tokens))
	}
	for key, role := range roleKeys {
		id, ok := k.count(key)
		switch {
		case ok && id >= int64(len(tokens)):
			return nil, fmt.Errorf("%w: key %q is %d, with %d tokens", pack.ErrCorrupt, key, id, len(tokens))
		case ok:
			v.roles[role] = tokens[id]
		}
	}
	pre := k.text("tokenizer.ggml.pre")
	v.bos = k.flag("tokenizer.ggml.add_bos_token", kind == "llama" || preTokenizers[pre].bos) &&
		v.roles["bos_token"] != ""
	v.eos = k.flag("tokenizer.ggml.add_eos_token", false) && v.roles["eos_token"] != ""
	return v, k.err
}

// byteLevel builds the tokenizer.json of byte-level BPE.
func (v *vocabulary) byteLevel(k *keys) ([]byte, error) {
	name := k.text("tokenizer.ggml.pre")
	pre, ok := preTokenizers[name]
	if !ok {
		return nil, fmt.Errorf("%w: tokenizer.ggml.pre is %q: must be one of %s; another pre-tokenizer would change "+
			"token ids", pack.ErrUnsupported, name, preNames())
	}
	list, _ := k.get("tokenizer.ggml.merges")
	merges, ok := list.Texts()
	if !ok {
		return nil, fmt.Errorf("%w: key %q is missing, or not a list of strings", pack.ErrCorrupt,
			"tokenizer.ggml.merges")
	}
	ids := make(map[string]int, len(v.tokens))
	for id, token := range v.tokens {
		if other, twice := ids[token]; twice {
			return nil, fmt.Errorf("%w: tokens %d and %d are both %q", pack.ErrCorrupt, other, id, token)
		}
		ids[token] = id
	}
	return marshal(map[string]any{
		"version": "1.0", "added_tokens": v.added(), "normalizer": pre.normalizer(), "pre_tokenizer": pre.splitter(),
		"post_processor": v.around(ids), "decoder": byteLevelPart(false),
		"model": map[string]any{"type": "BPE", "vocab": ids, "merges": merges, "ignore_merges": pre.wholeWords,
			"byte_fallback": false, "fuse_unk": false},
	})
}

// added lists the tokens that are matched verbatim in text.
func (v *vocabulary) added() []map[string]any {
	list := []map[string]any{}
	for id, kind := range v.types {
		if kind == ControlToken || kind == UserToken || kind == UnknownToken {
			list = append(list, map[string]any{
				"id": id, "content": v.tokens[id], "special": kind != UserToken,
				"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
			})
		}
	}
	return list
}

// around builds the post-processor, which adds BOS and EOS.
func (v *vocabulary) around(ids map[string]int) any {
	if !v.bos && !v.eos {
		return nil
	}
	special := map[string]any{}
	token := func(role string) map[string]any {
		text := v.roles[role]
		special[text] = map[string]any{"id": text, "ids": []int{ids[text]}, "tokens": []string{text}}
		return map[string]any{"SpecialToken": map[string]any{"id": text, "type_id": 0}}
	}
	sequence := func(id string) map[string]any {
		return map[string]any{"Sequence": map[string]any{"id": id, "type_id": 0}}
	}
	one, two := []any{sequence("A")}, []any{sequence("A"), sequence("B")}
	if v.bos {
		one, two = slices.Insert(one, 0, any(token("bos_token"))), []any{token("bos_token"), sequence("A"),
			token("bos_token"), sequence("B")}
	}
	if v.eos {
		one, two = append(one, token("eos_token")), append(two, token("eos_token"))
	}
	return map[string]any{"type": "TemplateProcessing", "single": one, "pair": two, "special_tokens": special}
}

func preNames() string {
	var names []string
	for name := range preTokenizers {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
