package tokenizer

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// TestSeams: cutting a word wherever the vocabulary allows it changes no token.
func TestSeams(t *testing.T) {
	f := readPipelines(t)
	alphabet := []rune("▁the litboawnrvsdc ▁éаб世'1\n\x04")
	rng := rand.New(rand.NewPCG(9, 10))
	models := map[string]*bpe{"bytes missing": fromJSON(t, smolLM2Bytes(t)).model.(*bpe)}
	for i, p := range f.Pipelines {
		if b, ok := fromJSON(t, f.tokenizerJSON(t, i)).model.(*bpe); ok {
			models[p.Name] = b
		}
	}
	cuts := map[string]int{}
	for name, b := range models {
		for range 300 {
			var word strings.Builder
			for range 1 + rng.IntN(60) {
				word.WriteRune(alphabet[rng.IntN(len(alphabet))])
			}
			want := naive(b, word.String())
			var got []int32
			for rest := word.String(); rest != ""; cuts[name]++ {
				n, err := b.piece(rest, 1+rng.IntN(8))
				if err != nil {
					t.Fatal(err)
				}
				got, rest = append(got, naive(b, rest[:n])...), rest[n:]
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %q\ngot  %v\nwant %v", name, word.String(), got, want)
			}
		}
		if (b.bytewise || b.allBytes) && cuts[name] < 600 {
			t.Errorf("%s: %d pieces of 300 words", name, cuts[name])
		}
	}
}

// TestLongWords: an endless word is rejected, quickly and before it costs memory; text that can be cut is not.
func TestLongWords(t *testing.T) {
	for _, name := range []string{"llama3", "llama2-spm"} {
		tok := fromJSON(t, readFile(t, shared.Path(t, "data/tokenizers/"+name+"/tokenizer.json")))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		text := strings.Repeat("a", 3*maxWord)
		if _, err := tok.Encode(text, false); !errors.Is(err, pack.ErrLimit) ||
			!strings.Contains(err.Error(), "word of") {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if used := int(after.TotalAlloc - before.TotalAlloc); used > 12*len(text) {
			t.Errorf("%s: %d bytes for a text of %d", name, used, len(text))
		}
		if ids := encode(t, tok, strings.Repeat("xqz\n7:", maxWord/4), false); len(ids) < maxWord/4 {
			t.Errorf("%s: %d tokens", name, len(ids))
		}
	}
}
