package hostile

import "strings"

// tokenized is the base model with a changed tokenizer.json.
func tokenized(change func(t, model map[string]any, tokens map[string]int)) func(dir string) (string, error) {
	return func(dir string) (string, error) {
		t := baseTokenizer()
		m := t["model"].(map[string]any)
		change(t, m, m["vocab"].(map[string]int))
		return model(dir, map[string][]byte{"tokenizer.json": encode(t)})
	}
}

// split is a pre-tokenizer that cuts text with a regular expression.
func split(pattern string) map[string]any {
	return map[string]any{"type": "Sequence", "pretokenizers": []any{
		map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated",
			"invert": false},
		map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
	}}
}

// fallback is the tokenizer of the other kind: characters, and bytes as <0x00> … <0xFF>, and one that is misspelled.
func fallback(misspelled string) func(dir string) (string, error) {
	return tokenized(func(t, m map[string]any, tokens map[string]int) {
		clear(tokens)
		const hex = "0123456789ABCDEF"
		for b := range 256 {
			tokens["<0x"+string(hex[b>>4])+string(hex[b&15])+">"] = b
		}
		tokens[misspelled] = 256
		tokens["<unk>"] = 257
		m["byte_fallback"], m["unk_token"], m["merges"] = true, "<unk>", []string{}
		t["pre_tokenizer"] = nil
		t["normalizer"] = map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"}
		t["decoder"] = map[string]any{"type": "Sequence", "decoders": []any{
			map[string]any{"type": "Replace", "pattern": map[string]any{"String": "▁"}, "content": " "},
			map[string]any{"type": "ByteFallback"}, map[string]any{"type": "Fuse"},
		}}
	})
}

// nested is a normalizer of sequences in sequences.
func nested(depth int) func(dir string) (string, error) {
	return func(dir string) (string, error) {
		t := baseTokenizer()
		t["normalizer"] = "REPLACED"
		text := strings.Replace(string(encode(t)), `"REPLACED"`,
			strings.Repeat(`{"type":"Sequence","normalizers":[`, depth)+`{"type":"NFC"}`+strings.Repeat(`]}`, depth), 1)
		return model(dir, map[string][]byte{"tokenizer.json": []byte(text)})
	}
}

// whole is the base model with another tokenizer.json.
func whole(text string) func(dir string) (string, error) {
	return func(dir string) (string, error) {
		return model(dir, map[string][]byte{"tokenizer.json": []byte(text)})
	}
}

func tokenizers() []Case {
	type m = map[string]any
	type ids = map[string]int
	cases := []Case{
		{ID: "T01", Class: Structure, Note: "token id 2³¹−1 among 260 tokens",
			build: tokenized(func(_, _ m, v ids) { v["the"] = 1<<31 - 1 })},
		{ID: "T02a", Class: Structure, Note: "a negative token id",
			build: tokenized(func(_, _ m, v ids) { v["the"] = -1 })},
		{ID: "T02b", Class: Structure, Note: "two tokens with one id",
			build: tokenized(func(_, _ m, v ids) { v["the"] = v["he"] })},
		{ID: "T03", Class: Structure, Note: "a merge whose result is not a token",
			build: tokenized(func(_, b m, _ ids) { b["merges"] = []string{"h e", "t he", "the the"} })},
		{ID: "T04", Class: Structure, Note: "a merge of parts that are not tokens",
			build: tokenized(func(_, b m, _ ids) { b["merges"] = []string{"h e", "t he", "qq zz"} })},
		{ID: "T05", Class: Accept, Note: "a byte without a token, which a text loses",
			build: tokenized(func(_, _ m, v ids) { delete(v, "x") })},
		{ID: "T06a", Class: Accept, Note: "(a+)+ is harmless to an engine of linear time",
			build: tokenized(func(t, _ m, _ ids) { t["pre_tokenizer"] = split(`(a+)+|[^a]+`) })},
		{ID: "T06b", Class: Unsupported, Note: "a look-behind that no known tokenizer has",
			build: tokenized(func(t, _ m, _ ids) { t["pre_tokenizer"] = split(`(?<=(a+)+b)c`) })},
		{ID: "T07a", Class: Limit, Note: "a million normalizers", Big: true, build: tokenized(func(t, _ m, _ ids) {
			list := make([]any, 1000000)
			for i := range list {
				list[i] = m{"type": "NFC"}
			}
			t["normalizer"] = m{"type": "Sequence", "normalizers": list}
		})},
		{ID: "T07b", Class: Limit, Note: "normalizers nested 5,000 deep", Big: true, build: nested(5000)},
		{ID: "T08", Class: Structure, Note: "an empty added token",
			build: tokenized(func(t, _ m, _ ids) {
				t["added_tokens"] = []any{special(258, ""), special(259, "<|begin|>")}
			})},
		{ID: "T09a", Class: Accept, Note: "<0x-1>, which is no byte token but text", build: fallback("<0x-1>")},
		{ID: "T10a", Class: Structure, Note: "an empty object", build: whole(`{}`)},
		{ID: "T10b", Class: Syntax, Note: "a Git LFS pointer instead of the file",
			build: whole("version https://git-lfs.github.com/spec/v1\noid " +
				"sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 9085657\n")},
		{ID: "T09b", Class: Accept, Note: "<0xZZ>, which is no byte token but text", build: fallback("<0xZZ>")},
	}
	for i := range cases {
		cases[i].Group = Tokenizer
	}
	return cases
}
