package pattern

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/runtime/tokenizer/internal/chars"
)

// TestClasses: over all characters, a class of a regular expression has the same characters as in the tokenizers
// library.
func TestClasses(t *testing.T) {
	recorded, err := os.ReadFile("../chars/classes.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(recorded)) {
		name, _, _ := strings.Cut(line, " ")
		if name[0] != '\\' {
			continue
		}
		count++
		p, err := Compile("[" + name + "]+")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p.prog[0].class, chars.Recorded(name).Class()) {
			t.Errorf("%s has other characters", name)
		}
	}
	if count < 190 {
		t.Errorf("%d classes", count)
	}
}
