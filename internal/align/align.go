// Package align lines up the cells of tables that are printed as text.
package align

import (
	"strings"
	"unicode/utf8"
)

// Widths returns the number of characters of the widest cell of each column.
func Widths(rows [][]string) (list []int) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(list) {
				list = append(list, 0)
			}
			list[i] = max(list[i], utf8.RuneCountInString(cell))
		}
	}
	return list
}

// Rows returns a line for each row, with two spaces between columns and none at the end. The columns that right names
// are aligned to the right.
func Rows(rows [][]string, right func(column int) bool) []string {
	width := Widths(rows)
	lines := make([]string, len(rows))
	for y, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if cells[i] = cell + pad; right(i) {
				cells[i] = pad + cell
			}
		}
		lines[y] = strings.TrimRight(strings.Join(cells, "  "), " ")
	}
	return lines
}
