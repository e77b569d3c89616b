package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/shared"
)

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
	}
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
}

func TestSpeed(t *testing.T) {
	data := readFile(t, shared.Path(t, "data/tokenizers/llama3/tokenizer.json"))
	for range 5 {
		start := time.Now()
		fromJSON(t, data)
		t.Log("load", time.Since(start))
	}
	for _, name := range []string{"llama3", "llama2-spm"} {
		tok := fromJSON(t, readFile(t, shared.Path(t, "data/tokenizers/"+name+"/tokenizer.json")))
		text := string(readFile(t, shared.Path(t, "data/text/wiki.test.raw")))
		for range 3 {
			start := time.Now()
			ids := encode(t, tok, text, false)
			d := time.Since(start)
			t.Log(name, len(text), len(ids), d, float64(len(text))/1e6/d.Seconds(), "MB/s")
			if tok.Decode(ids, true) != text {
				t.Error("round trip")
			}
		}
		for _, hostile := range []string{"a", " ", "1", "\n", "é", "a1 ", "'", "▁", " a", "\xff", "A", "aA", " \n"} {
			b := make([]byte, 0, 1<<20)
			for len(b) < 1<<20 {
				b = append(b, hostile...)
			}
			start := time.Now()
			ids := encode(t, tok, string(b), false)
			t.Logf("%s hostile %q %d %v", name, hostile, len(ids), time.Since(start))
		}
	}
}
