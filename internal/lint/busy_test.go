package lint

import (
	"os"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/waiting"
)

// TestBusyOnce: what .ci/busy leaves out of all rounds but the first exists, and does not wait, except where the list
// says that it does.
func TestBusyOnce(t *testing.T) {
	text, err := os.ReadFile("../../.ci/busy.once")
	if err != nil {
		t.Fatal(err)
	}
	folders, waits := map[string]map[string]bool{}, map[bool]int{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		entry := strings.Fields(line)
		if len(entry) < 2 || len(entry) > 3 || len(entry) == 3 && entry[2] != "waits" {
			t.Errorf("%q is not a folder, a test and perhaps waits", line)
			continue
		}
		folder, test := entry[0], entry[1]
		if folders[folder] == nil {
			if folders[folder], err = waiting.Tests("../..", folder); err != nil {
				t.Fatal(err)
			}
		}
		is, ok := folders[folder][test]
		switch said := len(entry) == 3; {
		case !ok:
			t.Errorf("%s has no %s", folder, test)
		case is && !said:
			t.Errorf("%s: %s waits: remove its line, or add the word waits", folder, test)
		case said && !is:
			t.Errorf("%s: %s does not wait", folder, test)
		}
		waits[is]++
	}
	if waits[true] == 0 || waits[false] == 0 {
		t.Errorf("%d tests wait, %d do not: this reads nothing", waits[true], waits[false])
	}
}
