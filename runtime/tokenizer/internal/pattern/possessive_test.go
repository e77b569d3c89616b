package pattern

import (
	"slices"
	"testing"
)

// TestPossessive: a possessive repetition gives nothing back, a greedy one does.
func TestPossessive(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          []string
	}{
		{`[ab]+b`, "aab", []string{"aab"}},
		{`[ab]++b`, "aab", nil},
		{`a*a`, "aaa", []string{"aaa"}},
		{`a*+a`, "aaa", nil},
		{`a?a`, "a", []string{"a"}},
		{`a?+a`, "a", nil},
		{`a?+b`, "ab", []string{"ab"}},
		{`[^b]?+a+|b`, "ab", []string{"b"}},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = p.Each(c.text, func(piece string, match bool) error {
			if match {
				got = append(got, piece)
			}
			return nil
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s on %q: %q, %v, want %q", c.pattern, c.text, got, err, c.want)
		}
	}
}

// TestPossessiveGroup: a possessive repetition of a group would have to keep what the group matched; it is rejected
// instead of treated as greedy.
func TestPossessiveGroup(t *testing.T) {
	for _, pattern := range []string{`(?:ab)++b`, `(?:a|b)*+b`, `(?:ab)?+b`} {
		if _, err := Compile(pattern); err == nil {
			t.Errorf("%s is taken", pattern)
		}
	}
}
