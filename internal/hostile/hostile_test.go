package hostile_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/lowpack/lowpack/internal/hostile"
)

// TestCases builds every case once: the IDs are unique and well formed, and every case says what it is about.
func TestCases(t *testing.T) {
	id := regexp.MustCompile(`^[SDCT]\d\d[a-z]?$`)
	seen := map[string]bool{}
	groups := map[hostile.Group]int{}
	for _, c := range hostile.Cases() {
		if !id.MatchString(c.ID) || seen[c.ID] || c.Note == "" || c.Class == "" {
			t.Errorf("case %q: bad or repeated ID, or no class or note", c.ID)
		}
		seen[c.ID] = true
		groups[c.Group]++
		path, err := c.Build(t.TempDir())
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err != nil || path == "" {
			t.Errorf("%s: %q, %v", c.ID, path, err)
		}
	}
	for g, least := range map[hostile.Group]int{hostile.Container: 34, hostile.Directory: 9, hostile.Config: 8, hostile.Tokenizer: 9} {
		if groups[g] < least {
			t.Errorf("%d cases of %s, want %d or more", groups[g], g, least)
		}
	}
}
