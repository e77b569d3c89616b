package quantized

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// TestGlob: patterns match as those of Python's fnmatch, which knows neither slashes nor backslashes.
func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"lm_head", "lm_head", true},
		{"lm_head", "lm_heads", false},
		{"", "", true},
		{"*", "", true},
		{"model.layers.0*", "model.layers.0.mlp", true},
		{"model.layers.0*", "model.layers.1.mlp", false},
		{"*.gate", "model.layers.0.mlp.gate", true},
		{"*.gate", "model.layers.0.mlp.gate_proj", false},
		{"*a*b*c", "xaxbxbcxc", true},
		{"*a*b*c", "xaxbxbcxd", false},
		{"a*b", "a/c/b", true},
		{"a?b", "a/b", true},
		{"a?b", "ab", false},
		{"?", "é", true},
		{`a\*`, `a\bc`, true},
		{`a\*`, `a*`, false},
		{"[ab]x", "bx", true},
		{"[!ab]x", "bx", false},
		{"[b-a!-zq-s]", "r", false},
		{"[b-a!-zq-s]", "t", true},
		{"[!ab]x", "/x", true},
		{"[^ab]x", "^x", true},
		{"[a-c]x", "bx", true},
		{"[c-a]x", "bx", false},
		{"[a-]", "-", true},
		{"[-a]", "-", true},
		{"[!-a]", "-", false},
		{"[a-c-e]", "-", true},
		{"[a-c-e]", "d", false},
		{"[]]", "]", true},
		{"[!]]", "]", false},
		{"[!]]", "a", true},
		{`[\]`, `\`, true},
		{"[", "[", true},
		{"[a", "[a", true},
		{"[!", "[!", true},
		{"[]", "[]", true},
		{"a]", "a]", true},
		{"[x-[!c]", "a", true}, // x is above [, so that Python reads [!c]
		{"[x-[!c]", "c", false},
		{"[x-[!-c]", "-", false}, // and here [!-c]
		{"[x-[!-c]", "b", true},
	} {
		if got := parseGlob(c.pattern).match(c.name); got != c.want {
			t.Errorf("%q matches %q: %t", c.pattern, c.name, got)
		}
	}
}

// TestInteropGlob: Python says the same of random patterns and names.
func TestInteropGlob(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func(alphabet string, most int) string {
		var b strings.Builder
		for range random.IntN(most + 1) {
			b.WriteByte(alphabet[random.IntN(len(alphabet))])
		}
		return b.String()
	}
	var pairs [][2]string
	for range 30_000 {
		pairs = append(pairs, [2]string{text(`ab-![]^*?\&~|`, 9), text(`ab-]^\`, 5)})
	}
	data, err := json.Marshal(pairs)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pairs.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	says := strings.Fields(string(interop.Python(t, "transformers", "testdata/patterns.py", file)))
	if len(says) != len(pairs) {
		t.Fatalf("%d answers", len(says))
	}
	matching := 0
	for i, p := range pairs {
		got := parseGlob(p[0]).match(p[1])
		if fmt.Sprint(got) != says[i] {
			t.Errorf("%q matches %q: %t", p[0], p[1], got)
		}
		if got {
			matching++
		}
	}
	t.Logf("%d of %d match", matching, len(pairs))
}
