package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// TestFileSizes: every file has the size limit of formats/modelfile.
func TestFileSizes(t *testing.T) {
	for _, name := range FileNames() {
		limit := modelfile.Limit(name)
		if limit == 0 {
			t.Errorf("%s is not in the table", name)
		}
		for _, over := range []int64{0, 1} {
			data := make([]byte, limit+over)
			_, err := Load(func(n string) ([]byte, bool) { return data, n == name })
			refused := errors.Is(err, pack.ErrLimit) && strings.HasPrefix(err.Error(), name+": ") &&
				strings.Contains(err.Error(), fmt.Sprint(limit))
			if refused != (over > 0) {
				t.Errorf("%s of %d bytes: %.200v", name, len(data), err)
			}
		}
	}
}

// TestOtherKinds: a file of another kind is rejected with the name of its kind, whichever model file it replaces.
func TestOtherKinds(t *testing.T) {
	for _, broken := range []string{tokenizerJSON, configJSON, generationJSON, modelJSON, sentencePiece, vocabJSON,
		mergesText, specialMapJSON} {
		others := map[string]string{broken: "<!DOCTYPE html>\n<p>Sign in</p>"}
		switch broken {
		case vocabJSON:
			others[mergesText] = ""
		case mergesText:
			others[vocabJSON] = `{"a":0}`
		}
		if broken == generationJSON || broken == modelJSON { // read only if there is a vocabulary
			others[tokenizerJSON] = string(small{}.json())
		}
		_, err := Load(func(name string) ([]byte, bool) { text, ok := others[name]; return []byte(text), ok })
		if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), broken) ||
			!strings.Contains(err.Error(), "an HTML page") {
			t.Errorf("%s: %v", broken, err)
		}
	}
}

// TestModelFirst: a tokenizer.json whose model stands before the parts that say how to read it, as where keys are
// sorted, may have as many tokens as others, and a token twice is refused in either order.
func TestModelFirst(t *testing.T) {
	const tokens = jsonread.MaxValues + 100
	for _, order := range []string{`{"model":%s,"normalizer":null,"pre_tokenizer":null,"decoder":null}`,
		`{"normalizer":null,"pre_tokenizer":null,"decoder":null,"model":%s}`} {
		for _, last := range []string{"last", "0"} {
			var vocab strings.Builder
			for id := range tokens {
				fmt.Fprintf(&vocab, `"%d":%d,`, id, id)
			}
			fmt.Fprintf(&vocab, `"%s":%d`, last, tokens)
			model := fmt.Sprintf(`{"merges":[],"type":"BPE","vocab":{%s}}`, vocab.String())
			tok, err := readJSON(fmt.Appendf(nil, order, model))
			if last == "0" {
				if !errors.Is(err, pack.ErrCorrupt) {
					t.Errorf("%.20q, a token twice: %v", order, err)
				}
				continue
			}
			if err != nil || tok.vocab.count != tokens+1 {
				t.Errorf("%.20q: %v", order, err)
			}
		}
	}
}
