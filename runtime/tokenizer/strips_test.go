package tokenizer

import (
	"slices"
	"testing"
)

// TestStrips: added tokens that include adjacent white space, together with one of spaces; the ids are from tokenizers
// 0.23.3.
func TestStrips(t *testing.T) {
	tok := fromJSON(t, small{vocab: `{"a":0,"b":1,"ab":2," ":3}`,
		added: `[{"id":4,"content":"[M]","rstrip":true,"special":true},{"id":5,"content":"  ","normalized":false},{"id":6,"content":"[L]","lstrip":true,"special":true}]`}.json())
	for text, want := range map[string][]int{
		"[M]  a":       {4, 5, 0},
		"[M] a":        {4, 0},
		"[M]   a":      {4, 5, 3, 0},
		"[M]     b":    {4, 5, 5, 3, 1},
		"a[M]  [L]":    {0, 4, 5, 6},
		"[M]    ":      {4, 5, 5},
		"a  [L]":       {0, 5, 6},
		"[M] [L]":      {4, 6},
		"a [M]   [L]b": {0, 3, 4, 5, 6, 1},
	} {
		if got := encode(t, tok, text, false); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
