package texts

import (
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestFamilies: records are of families that there are, and say something.
func TestFamilies(t *testing.T) {
	all, err := Read(shared.Testdata(t, "transformers/texts.json"))
	if err != nil {
		t.Fatal(err)
	}
	families := map[string]bool{"": true}
	for _, f := range model.Families() {
		families[f.Name] = true
	}
	for test, models := range all {
		for name, r := range models {
			if !families[r.Family] || r == (Record{Family: r.Family}) {
				t.Errorf("%s, %s: %+v", test, name, r)
			}
		}
	}
}

// noted is a test that may fail.
type noted struct {
	testing.TB
	name   string
	failed bool
}

func (n *noted) Helper()               {}
func (n *noted) Name() string          { return n.name }
func (n *noted) Failed() bool          { return n.failed }
func (n *noted) Errorf(string, ...any) { n.failed = true }

// TestHold: a record must be equal, and there must be one.
func TestHold(t *testing.T) {
	all, err := Read(shared.Testdata(t, "transformers/texts.json"))
	if err != nil {
		t.Fatal(err)
	}
	const name = "TestGolden"
	fails := func(name string, got map[string]Record) bool {
		n := &noted{TB: t, name: name}
		Hold(n, got)
		return n.failed
	}
	if fails(name, all[name]) {
		t.Error("what is recorded is refused")
	}
	more := all[name]["llama3"]
	more.Texts++
	if !fails(name, map[string]Record{"llama3": more, "llama2-spm": all[name]["llama2-spm"]}) {
		t.Error("another number of texts is accepted")
	}
	if !fails(name, map[string]Record{"llama3": all[name]["llama3"]}) {
		t.Error("a tokenizer that is not compared stays recorded")
	}
	if !fails("TestUnknown", map[string]Record{"a": {Texts: 1}}) {
		t.Error("what is not recorded is accepted")
	}
}
