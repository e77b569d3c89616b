package align

import (
	"slices"
	"testing"
)

// TestRows: widths count characters, not bytes; rows may be of different lengths, and no line ends with a space.
func TestRows(t *testing.T) {
	rows := [][]string{{"µs", "a"}, {"x", "±12 %", "end"}, {}, {"long", ""}}
	if got := Widths(rows); !slices.Equal(got, []int{4, 5, 3}) {
		t.Errorf("widths %v", got)
	}
	got := Rows(rows, func(column int) bool { return column == 1 })
	want := []string{"µs        a", "x     ±12 %  end", "", "long"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
