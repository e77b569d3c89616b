package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/cpu"
	"github.com/lowpack/lowpack/internal/testkit/hostile"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/texts"
	"github.com/lowpack/lowpack/pack"
)

// characters are of every class that the patterns use, with one and several bytes.
const characters = "testdata/characters.txt"

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unmarshal(t testing.TB, path string, v any) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, path), v); err != nil {
		t.Fatal(err)
	}
}

func fromJSON(t testing.TB, data []byte) *Tokenizer {
	t.Helper()
	tok, err := readJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func encode(t testing.TB, tok *Tokenizer, text string, special bool) []int {
	t.Helper()
	ids, err := tok.Encode(text, special)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestGolden: encodings made by the Hugging Face library.
func TestGolden(t *testing.T) {
	compared := map[string]texts.Record{}
	for _, name := range []string{"llama3", "llama2-spm"} {
		tok := fromJSON(t, readFile(t, shared.Path(t, "data/tokenizers/"+name+"/tokenizer.json")))
		var cases []struct {
			S   string
			IDs []int
		}
		unmarshal(t, shared.Path(t, "data/tokenizers/"+name+"/golden.json"), &cases)
		if len(cases) < 46 {
			t.Fatalf("%d cases", len(cases))
		}
		for _, c := range cases {
			if ids := encode(t, tok, c.S, false); !slices.Equal(ids, c.IDs) {
				t.Errorf("%s: %q\ngot  %v\nwant %v", name, c.S, ids, c.IDs)
			}
			if got := tok.Decode(c.IDs, true); got != c.S {
				t.Errorf("%s: %v decodes to %q, want %q", name, c.IDs, got, c.S)
			}
		}
		compared[name] = texts.Record{Family: "llama", Texts: len(cases)}
	}
	texts.Hold(t, compared)
}

// TestGoldenTinyBitnet: encodings of the bundled model, made by two bindings of the Hugging Face library.
func TestGoldenTinyBitnet(t *testing.T) {
	tok := fromJSON(t, readFile(t, shared.Testdata(t, "tiny-bitnet/tokenizer.json")))
	var golden struct {
		Cases []struct {
			Text, Decoded string
			IDs           []int
			WithSpecial   []int `json:"ids_with_special"`
		}
	}
	unmarshal(t, shared.Testdata(t, "tiny-bitnet-golden/tokenizer.json"), &golden)
	if len(golden.Cases) != 56 {
		t.Fatalf("%d cases", len(golden.Cases))
	}
	for _, c := range golden.Cases {
		if ids := encode(t, tok, c.Text, false); !slices.Equal(ids, c.IDs) {
			t.Errorf("%q\ngot  %v\nwant %v", c.Text, ids, c.IDs)
		}
		if ids := encode(t, tok, c.Text, true); !slices.Equal(ids, c.WithSpecial) {
			t.Errorf("%q\ngot  %v\nwant %v", c.Text, ids, c.WithSpecial)
		}
		if got := tok.Decode(c.IDs, true); got != c.Decoded {
			t.Errorf("%v decodes to %q, want %q", c.IDs, got, c.Decoded)
		}
	}
	texts.Hold(t, map[string]texts.Record{"tiny-bitnet": {Family: "bitnet", Texts: len(golden.Cases)}})
}

// repeated returns a text of n bytes that repeats s.
func repeated(s string, n int) string { return strings.Repeat(s, n/len(s)+1)[:n] }

// TestHostileText: 256 KiB of any text, 1 MiB with LOWPACK_LONG, is encoded quickly and decodes to itself. An algorithm
// of quadratic time would take minutes.
func TestHostileText(t *testing.T) {
	size := 1 << 18
	if long.All {
		size = 1 << 20
	}
	for _, name := range []string{"llama3", "llama2-spm"} {
		tok := fromJSON(t, readFile(t, shared.Path(t, "data/tokenizers/"+name+"/tokenizer.json")))
		for _, unit := range []string{"a", "A", " ", "1", "\n", "'", "▁", "é", "中", "\xff", " a", "aA", " \n",
			"a1 ", "the ",
			"<|eot_id|", "\u0300", "🏽\u200d", "\x00"} {
			text := repeated(unit, size)
			var ids []int
			limit := time.Duration(size) * 5 * time.Microsecond
			took := cpu.Within(t, limit, fmt.Sprintf("%s: %d bytes of %q", name, size, unit),
				func() { ids = encode(t, tok, text, false) })
			t.Logf("%s: %q: %d tokens, %v", name, unit, len(ids), took)
			if back := string(tok.Bytes(ids)); back != text && !(name == "llama2-spm" &&
				unit == "▁") { // which is how a space is written
				t.Errorf("%s: %q does not come back", name, unit)
			}
		}
	}
}

// TestRoundTrip: a real text is recovered from its tokens, whole and in pieces that are cut anywhere.
func TestRoundTrip(t *testing.T) {
	text := string(readFile(t, shared.Path(t, "data/text/wiki.test.raw")))
	for _, name := range []string{"llama3", "llama2-spm"} {
		tok := fromJSON(t, readFile(t, shared.Path(t, "data/tokenizers/"+name+"/tokenizer.json")))
		if tok.Decode(encode(t, tok, text, false), true) != text {
			t.Errorf("%s: the text does not come back", name)
		}
		rng := rand.New(rand.NewPCG(5, 6))
		for range 2000 {
			from := rng.IntN(len(text) - 100)
			piece := text[from : from+rng.IntN(100)]
			if got := string(tok.Bytes(encode(t, tok, piece, false))); got != piece {
				t.Fatalf("%s: %q comes back as %q", name, piece, got)
			}
		}
	}
}

// naive merges a word the obvious way: repeatedly the pair of smallest rank, the leftmost among equals.
func naive(b *bpe, word string) []int32 {
	ids := b.symbols(nil, word)
	for {
		best, at, made := noRank, -1, int32(0)
		for i := 0; i+1 < len(ids); i++ {
			if rank, id := b.merges.rank(ids[i], ids[i+1]); rank < best {
				best, at, made = rank, i, id
			}
		}
		if at < 0 {
			return ids
		}
		ids = append(append(ids[:at:at], made), ids[at+2:]...)
	}
}

// TestMerging: the array for short words, the heap for long ones, cuts at marks and the cache change nothing.
func TestMerging(t *testing.T) {
	f := readPipelines(t)
	alphabet := []rune("▁the litboawnrvsdc ▁éаб世'1")
	rng := rand.New(rand.NewPCG(7, 8))
	for i, p := range f.Pipelines {
		b, ok := fromJSON(t, f.tokenizerJSON(t, i)).model.(*bpe)
		if !ok || b.wholeWords {
			continue
		}
		w := newWorkspace()
		for range 300 {
			var word strings.Builder
			for range 1 + rng.IntN(3*shortWord) {
				word.WriteRune(alphabet[rng.IntN(len(alphabet))])
			}
			var want []int
			for _, id := range naive(b, word.String()) {
				want = append(want, int(id))
			}
			for range 2 { // the second time from the cache
				if got, err := b.encode(nil, word.String(), w); err != nil || !slices.Equal(got, want) {
					t.Fatalf("%s: %q\ngot  %v, %v\nwant %v", p.Name, word.String(), got, err, want)
				}
			}
		}
	}
}

// TestConcurrent: one tokenizer is used by many goroutines at once.
func TestConcurrent(t *testing.T) {
	tok := fromJSON(t, readFile(t, shared.Testdata(t, "tiny-bitnet/tokenizer.json")))
	text := strings.Repeat("Once upon a time there was a little girl. ", 50)
	want := encode(t, tok, text, true)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for n := range 50 {
				if got, err := tok.Encode(text[n:], true); err != nil || n == 0 && !slices.Equal(got, want) {
					t.Error("different tokens", err)
				}
			}
		})
	}
	group.Wait()
}

func TestTextLimit(t *testing.T) {
	if err := checkLength(maxText + 1); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("%v", err)
	}
	grow := fromJSON(t,
		small{norm: `{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("x", 1<<16) +
			`"}`}.json())
	if _, err := grow.Encode(strings.Repeat("a", 1<<20), false); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("%v", err)
	}
}

// FuzzLoad: no tokenizer.json makes the package panic, or accept what it cannot use.
func FuzzLoad(f *testing.F) {
	pipelines := readPipelines(f)
	for i := range pipelines.Pipelines {
		f.Add(pipelines.tokenizerJSON(f, i), "the little boat went down", uint64(0))
		f.Add(pipelines.tokenizerJSON(f, i), "the little boat went down", uint64(1))
	}
	f.Add(small{}.json(), "ab", uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, text string, seed uint64) {
		tok, err := readJSON(hostile.Mutate(seed, data, `"type":`, `"Sequence"`, `"Regex":`, `"(a+)+"`))
		if err != nil {
			if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) &&
				!errors.Is(err, pack.ErrLimit) {
				t.Errorf("an error of no class: %v", err)
			}
			return
		}
		ids, err := tok.Encode(text, true)
		if err != nil {
			return
		}
		for _, id := range ids {
			if tok.vocab.bytes(id) == nil {
				t.Fatalf("%q gives the id %d, which has no token", text, id)
			}
		}
		if got, want := strings.Join(streamed(tok.NewStream(false), ids), ""), tok.Decode(ids, false); got != want {
			t.Errorf("%v streams as %q, decodes as %q", ids, got, want)
		}
	})
}

// FuzzRoundTrip: what a byte-level tokenizer encodes decodes to itself, whatever it is.
func FuzzRoundTrip(f *testing.F) {
	tok := fromJSON(f, readFile(f, shared.Testdata(f, "tiny-bitnet/tokenizer.json")))
	for _, s := range []string{"", "Once upon a time", " \n\t", "<|eot_id|>", "é🦊\xff",
		string(readFile(f, characters))} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ids, err := tok.Encode(s, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(tok.Bytes(ids)); got != s {
			t.Errorf("%q comes back as %q", s, got)
		}
	})
}
