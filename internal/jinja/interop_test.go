package jinja

import (
	"errors"
	"os"
	"testing"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/pack"
)

const generatedAnswers = "testdata/generated.json"

// TestInteropJinja updates the recorded output of Jinja2.
func TestInteropJinja(t *testing.T) {
	interop.Recorded(t, generatedAnswers, interop.Python(t, "transformers", "testdata/generated.py"))
}

// TestGenerated: 500 generated templates render as with Jinja2, or are refused with the name of the unsupported
// feature; templates that Jinja2 refuses are refused.
func TestGenerated(t *testing.T) {
	data, err := os.ReadFile(generatedAnswers)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonread.Parse(data, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	vars := FromJSON(v.Get("variables")).(*Dict)
	same, refused := 0, 0
	for i := range v.Get("cases").Items {
		pair := v.Get("cases").Items[i].Items
		source, _ := pair[0].Str()
		want, rendered := pair[1].Str()
		got, err := render(source, vars)
		switch {
		case errors.Is(err, pack.ErrUnsupported):
			refused++
		case rendered == (err == nil) && got == want:
			same++
		default:
			t.Errorf("%q\ngot  %q, %v\nwant %q, %v", source, got, err, want, rendered)
		}
	}
	if same < 450 {
		t.Errorf("%d of %d are the same, %d refused as unsupported", same, len(v.Get("cases").Items), refused)
	}
	t.Logf("%d same, %d unsupported", same, refused)
}
