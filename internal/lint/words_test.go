package lint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// former are words that the project used before the terms of docs/GLOSSARY.md, each with the term that took its place
// and the files where the word is legitimate.
var former = []struct {
	pattern, term string
	except        []string
}{
	{`\bannounc(e|es|ed|ing) (lines?|weights?|pages?)\b|\blines announced\b`, "prefetch", nil},
	{`\bpacked again\b`, "repacked at load time", nil},
	{`\brow dots\b`, "row-major dot-product kernel", nil},
	{`\bbehind (N|[0-9][0-9,]*) (other )?(tokens|positions)\b|\bbehind (a )?long (texts?|contexts?)\b`,
		"at context depth N", nil},
	{`\b(read|multiply) limit\b`, "memory bandwidth, peak int8 throughput", nil},
	{`\bkept tensors?\b`, "passthrough (unquantized) tensor", nil},
	{`\bfloat masters\b|\bmasters in\b|"masters\b`, "master weights", nil},
	{`(?-i:\blinears\b)`, "linear layers", []string{"formats/model/matrix_test.go"}}, // a key of recorded data
	{`\blikeliest\b`, "argmax", nil},
	{`\bin turns\b`, "interleaved", nil},
	{`\bcrew\b`, "worker pool", nil},
	// model output
	{`\bstrangers\b`, "untrusted", []string{"testdata/tiny-bitnet/README.md", "testdata/tiny-bitnet-packed/README.md"}},
	{`\brubbish\b`, "garbage, or what it is", nil},
	{`\bweak reason\b`, "chosen by a coarse sweep", nil},
	{`\bsign weights\b|\bsingle bits (selected|cut|are)\b`, "1-bit (binary) weights", nil},
	{`\bneighbours (on|of) the (host|machine)\b`, "other tenants, shared host", nil},
	{`\bEndReceiver\b`, "StoppedByCaller", nil},
	{`\btype fan\b|\bthe fan\b|\ba fan\b`, "projection, fused projection", nil},
	{`\b(there )?(is|are|was) no (file|folder|directory|size|number|token|tokens|command|flag|multiple|JSON|SHA-256|checkpoint|packed file|candidates?|strings?|result|part|plain|regular|whole)\b`, "is not a ...", nil},
	{`\b(is|are|was) no (division|property|text of|vector|layout|family|matrix|tensor|header|digest|path|link|letter)\b`,
		"is not a ...", nil},
	{`\b(heads?|pairs?)( of a head)?( that| may| would have to)? turns?\b|\bturns? the (pairs|query|heads)\b|\bhave to turn\b`, "rotate, rotation", nil},
	{`\bcodes (and|with) (the|their|a) step\b|\bthe step (d|that they count)\b`, "activation scale", nil},
	{`\b(caches?|bytes|formats?|MiB|memory|trip) (of|for|through) (the )?keys and values\b`, "KV cache, KV", nil},
	{`\bbehind (these|how long|a context|texts|other tokens)\b|\ba token behind\b`, "after, at context depth", nil},
	{`\b(tokens|positions) that an? (position|token) sees\b|\bscreened heads?\b`,
		"attention span, LM-head candidate filter", nil},
	{`\bends? the power\b`, "simulates power loss", nil},
	{`\bexclude each other\b`, "cannot be combined", nil},
	{`\bfor longest\b`, "least recently used", nil},
	{`\b(is|are) put right\b`, "corrected; the zero-point correction is applied", nil},
	{`\bin small letters\b`, "in lower case", nil},
}

// TestWords reads what people read: code, comments, documents, messages, scripts of tests and generators.
// CHANGELOG.md tells of versions in the words of their time.
func TestWords(t *testing.T) {
	var patterns []*regexp.Regexp
	var all []string
	for _, f := range former {
		patterns = append(patterns, regexp.MustCompile(`(?i)`+f.pattern))
		all = append(all, f.pattern)
	}
	some := regexp.MustCompile(`(?i)` + strings.Join(all, "|")) // one search of a file in place of many, most often
	for _, name := range wordFiles(t) {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !some.Match(text) {
			continue
		}
		for i, f := range former {
			if slices.Contains(f.except, name) {
				continue
			}
			for _, at := range patterns[i].FindAllIndex(text, 3) {
				if bytes.HasPrefix(bytes.ToLower(text[at[0]:at[1]]), []byte("there ")) {
					continue // "there is no file" is English
				}
				t.Errorf("%s:%d: %q: write %q (docs/GLOSSARY.md)", name, 1+bytes.Count(text[:at[0]], []byte("\n")),
					text[at[0]:at[1]], f.term)
			}
		}
	}
}

func wordFiles(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "--", "*.go", "*.md", "*.txtar", "*.sh", "Makefile", ".ci", "docs/examples",
		":!CHANGELOG.md", ":!internal/lint/words_test.go", ":!*/zz_generated_*")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	return strings.Fields(string(out))
}
