package synth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// vocabulary is a byte-level BPE of exactly the size given by config.json: the special tokens under their own ids, then
// from the lowest free id the 256 bytes, the merges, and unused entries for the rest.
type vocabulary struct {
	tokens  []string // by id, in the printable form of bytes
	merges  [][2]string
	special []int
}

// hasVocabulary reports whether all bytes fit; a model with fewer tokens works with token ids only.
func hasVocabulary(size int, special []int) bool { return size >= 256+len(special) && size <= maxVocab }

// maxVocab is four times the largest vocabulary of a published model.
const maxVocab = 1 << 20

func newVocabulary(size int, special []int) *vocabulary {
	v := &vocabulary{tokens: make([]string, size), special: special}
	for i, id := range special {
		v.tokens[id] = specialName(i)
	}
	next := 0
	add := func(token string) bool {
		for next < size && v.tokens[next] != "" {
			next++
		}
		if next < size {
			v.tokens[next] = token
		}
		return next < size
	}
	for b := range 256 {
		add(printable(byte(b)))
	}
	for _, m := range merges() {
		if !add(m[0] + m[1]) {
			break
		}
		v.merges = append(v.merges, m)
	}
	for n := 0; add(fmt.Sprintf("<unused_%d>", n)); n++ {
	}
	return v
}

func specialName(i int) string { return fmt.Sprintf("<|special_%d|>", i) }

// merges pairs letters, and a space with letters and pairs, so that text has about the same number of tokens as with a
// trained vocabulary of its size.
func merges() (list [][2]string) {
	const letters = "etaoinshrdlucmfwypvbgkjqxz" // by frequency in English
	space := printable(' ')
	for _, a := range letters {
		list = append(list, [2]string{space, string(a)})
	}
	for _, a := range letters {
		for _, b := range letters {
			list = append(list, [2]string{string(a), string(b)})
		}
	}
	for _, a := range letters {
		for _, b := range letters {
			list = append(list, [2]string{space + string(a), string(b)})
		}
	}
	return list
}

// printable returns the character that stands for a byte in byte-level vocabularies (GPT-2): the byte itself if it is
// printable, else the next character from U+0100 on.
func printable(b byte) string {
	visible := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE }
	if visible(int(b)) {
		return string(rune(b))
	}
	n := rune(0x100)
	for i := range int(b) {
		if !visible(i) {
			n++
		}
	}
	return string(n)
}

// json returns the tokenizer.json.
func (v *vocabulary) json(bos int) []byte {
	var b strings.Builder
	b.WriteString("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": ")
	b.Write(indented(v.added()))
	b.WriteString(",\n  \"normalizer\": null,\n  \"pre_tokenizer\": ")
	b.Write(indented(byteLevel))
	b.WriteString(",\n  \"post_processor\": ")
	b.Write(indented(v.template(bos)))
	b.WriteString(",\n  \"decoder\": ")
	b.Write(indented(byteLevel))
	b.WriteString(",\n  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, " +
		"\"continuing_subword_prefix\": null, " +
		"\"end_of_word_suffix\": null, \"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false,\n    " +
		"\"vocab\": {")
	comma := "\n"
	for id, token := range v.tokens {
		if !slices.Contains(v.special, id) {
			fmt.Fprintf(&b, "%s      %s: %d", comma, quote(token), id)
			comma = ",\n"
		}
	}
	b.WriteString("\n    },\n    \"merges\": [")
	for i, m := range v.merges {
		fmt.Fprintf(&b, "%s      %s", [2]string{"\n", ",\n"}[min(i, 1)], quote(m[0]+" "+m[1]))
	}
	b.WriteString("\n    ]\n  }\n}\n")
	return []byte(b.String())
}

var byteLevel = map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}

func (v *vocabulary) added() []map[string]any {
	list := []map[string]any{}
	for _, id := range v.special {
		list = append(list, map[string]any{"id": id, "content": v.tokens[id], "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false, "special": true})
	}
	return list
}

// template adds the bos token before a text, if there is one.
func (v *vocabulary) template(bos int) any {
	if bos < 0 {
		return nil
	}
	type object = map[string]any
	name := v.tokens[bos]
	sequence := func(id string, n int) []any {
		special, words := object{"id": name, "type_id": n}, object{"id": id, "type_id": n}
		return []any{object{"SpecialToken": special}, object{"Sequence": words}}
	}
	return object{"type": "TemplateProcessing", "single": sequence("A", 0),
		"pair":           append(sequence("A", 0), sequence("B", 1)...),
		"special_tokens": object{name: object{"id": name, "ids": []int{bos}, "tokens": []string{name}}}}
}

// chatTemplate names the role before each message.
const chatTemplate = `{{ bos_token }}{% for message in messages %}` +
	`{{ message['role'] | capitalize + ': ' + message['content'] | trim + eos_token }}` +
	`{% endfor %}{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}`

// config returns the tokenizer_config.json.
func (v *vocabulary) config(bos int, stop []int, positions int) []byte {
	keys := map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
		"model_max_length": positions, "bos_token": nil, "eos_token": nil}
	decoder := map[string]any{}
	for _, t := range v.added() {
		decoder[fmt.Sprint(t["id"])] = t
		delete(t, "id")
	}
	keys["added_tokens_decoder"] = decoder
	if bos >= 0 {
		keys["bos_token"] = v.tokens[bos]
	}
	if len(stop) > 0 {
		keys["eos_token"] = v.tokens[stop[0]]
		keys["chat_template"] = chatTemplate
		if bos < 0 {
			keys["chat_template"] = strings.TrimPrefix(chatTemplate, "{{ bos_token }}")
		}
	}
	return encode(keys)
}

func indented(v any) []byte {
	text := encode(v)
	return []byte(strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n  "))
}

func quote(s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return text
}
