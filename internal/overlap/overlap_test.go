package overlap

import "testing"

func TestOf(t *testing.T) {
	for _, c := range []struct {
		text, word string
		want       int
	}{
		{"a<th", "<think>", 3}, {"<think", "<think>", 6}, {"<think>", "<think>", 0}, {"aab", "aabaa", 3},
		{"aaa", "aab", 2}, {"", "a", 0}, {"a", "", 0}, {"é", "é", 0}, {"\xc3", "é", 1},
	} {
		if got := Of(c.text, c.word); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.text, c.word, got, c.want)
		}
	}
}
