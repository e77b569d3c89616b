package transpose

import "testing"

// TestBytes: elements of any size move whole.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		data          string
		rows, columns int
		want          string
	}{
		{"abcdef", 2, 3, "adbecf"},
		{"aAbBcCdDeEfF", 3, 2, "aAcCeEbBdDfF"},
		{"abcd", 1, 4, "abcd"},
		{"abcd", 4, 1, "abcd"},
		{"", 0, 3, ""},
	} {
		if got := string(Bytes([]byte(c.data), c.rows, c.columns)); got != c.want {
			t.Errorf("%d×%d of %q: %q, want %q", c.rows, c.columns, c.data, got, c.want)
		}
	}
}
