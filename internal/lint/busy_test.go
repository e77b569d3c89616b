package lint

import (
	"os"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/waiting"
)

// TestBusyOnce: what .ci/busy leaves out of all rounds but the first are tests that wait; others need no line.
func TestBusyOnce(t *testing.T) {
	text, err := os.ReadFile("../../.ci/busy.once")
	if err != nil {
		t.Fatal(err)
	}
	folders, found := map[string]map[string]bool{}, 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		folder, test, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if folders[folder] == nil {
			if folders[folder], err = waiting.Tests("../..", folder); err != nil {
				t.Fatal(err)
			}
		}
		if !folders[folder][test] {
			t.Errorf("%q is not a folder and one of its tests that wait", line)
		}
		found++
	}
	if found == 0 {
		t.Error("this reads nothing")
	}
}
