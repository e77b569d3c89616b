package synth

import (
	"slices"
	"testing"

	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// TestTokenizer loads the generated vocabularies the way a packed file is loaded, and encodes all kinds of text.
func TestTokenizer(t *testing.T) {
	for _, like := range []string{"bitnet-2b4t", "bitnet-large", "falcon3-1b", "smollm2-135m"} {
		for _, edit := range []func(*Options){mini, nil} {
			c := plan(t, like, edit)
			tok, err := tokenizer.Load(func(name string) ([]byte, bool) {
				for _, x := range c.texts {
					if x.name == name {
						return x.data(), true
					}
				}
				return nil, false
			})
			if err != nil {
				t.Fatalf("%s: %v", like, err)
			}
			d := c.Description
			if tok.Size() != d.Vocab {
				t.Errorf("%s: %d tokens, want %d", like, tok.Size(), d.Vocab)
			}
			for _, stop := range append(slices.Clone(d.EOS), d.BOS) {
				if !tok.Special(stop) {
					t.Errorf("%s: token %d is not special", like, stop)
				}
			}
			for _, text := range []string{"", "the hand that rocks the cradle", "Ünïcödé 日本 🎉\r\n\tx", "\x00\x7f",
				specialName(0) + "x"} {
				ids, err := tok.Encode(text, true)
				if err != nil {
					t.Fatalf("%s: %v", like, err)
				}
				if begins := len(ids) > 0 && ids[0] == d.BOS; begins != !slices.Contains(d.EOS, d.BOS) &&
					text != specialName(0)+"x" {
					t.Errorf("%s: %q begins with bos: %v", like, text, begins)
				}
				if ids, err = tok.Encode(text, false); err != nil || tok.Decode(ids, true) != text {
					t.Errorf("%s: %q comes back as %q (%v)", like, text, tok.Decode(ids, true), err)
				}
			}
			ids, _ := tok.Encode("the hand that rocks the cradle", false)
			if most := map[bool]int{true: 30, false: 20}[edit != nil]; len(ids) > most {
				t.Errorf("%s: %d tokens for 30 letters", like, len(ids))
			}
		}
	}
}
