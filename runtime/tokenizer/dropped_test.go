package tokenizer

import (
	"encoding/json"
	"slices"
	"testing"
)

// smolLM2Lacks are the bytes that the vocabulary of SmolLM2 does not have (huggingface/smollm#81).
var smolLM2Lacks = []byte("\x04\x06\x13\x14\x16\x1d\xc0\xc1\xf1\xf2\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff")

// smolLM2Bytes is a byte-level tokenizer.json with SmolLM2's ids of single bytes: 17 special tokens, then the byte
// alphabet in its own order without the missing bytes.
func smolLM2Bytes(t *testing.T) []byte {
	type char struct{ r, b rune }
	var chars []char
	for b, r := range byteRune {
		if !slices.Contains(smolLM2Lacks, byte(b)) {
			chars = append(chars, char{r, rune(b)})
		}
	}
	slices.SortFunc(chars, func(a, b char) int { return int(a.r - b.r) })
	vocab := map[string]int{toRunes(" x"): 1792}
	for i, c := range chars {
		vocab[string(c.r)] = 17 + i
	}
	data, err := json.Marshal(vocab)
	if err != nil {
		t.Fatal(err)
	}
	level := `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`
	return small{pre: level, decoder: level, vocab: string(data), merges: `["Ġ x"]`}.json()
}

// TestDroppedBytes: bytes without a token are dropped, as in the library that defines the format; the encodings are
// from the real SmolLM2.
func TestDroppedBytes(t *testing.T) {
	tok := fromJSON(t, smolLM2Bytes(t))
	for text, want := range map[string][]int{"a\x04b": {81, 82}, "\x04": {}, "\U000468ff x": {224, 113, 140, 1792}} {
		if got := encode(t, tok, text, false); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := tok.Dropped(); !slices.Equal(got, smolLM2Lacks) {
		t.Errorf("dropped % x, want % x", got, smolLM2Lacks)
	}
}
