package bench

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// The marker lines between which Into writes the figures without a name; a name is inserted before the arrow.
const (
	TablesBegin = "<!-- bench chart -->"
	TablesEnd   = "<!-- end of bench chart -->"
)

// named inserts the name of the figures into a marker line.
func (r *Runtimes) named(line string) string {
	if r.Name == "" {
		return line
	}
	return strings.TrimSuffix(line, "-->") + r.Name + " -->"
}

// missing fills a cell without a figure.
const missing = "–"

// Into replaces the tables of a Markdown document by the tables of r.
func (r *Runtimes) Into(document []byte) ([]byte, error) {
	from, to := r.named(TablesBegin), r.named(TablesEnd)
	begin, rest, ok := bytes.Cut(document, []byte(from+"\n"))
	_, end, ended := bytes.Cut(rest, []byte(to+"\n"))
	if !ok || !ended {
		return nil, fmt.Errorf("%w: a document without the lines %q and %q, in this order, between which the tables go",
			pack.ErrUnsupported, from, to)
	}
	return slices.Concat(begin, []byte(from+"\n\n"+r.Markdown()+"\n"+to+"\n"), end), nil
}

// Markdown writes a table per test, of medians with the machines side by side, and a table per machine, of revisions
// and ranges.
func (r *Runtimes) Markdown() string {
	var parts []string
	for _, test := range r.Tests() {
		parts = append(parts, r.medians(test))
	}
	for i := range r.Machines {
		parts = append(parts, r.Machines[i].ranges(r.columns()))
	}
	return strings.Join(parts, "\n")
}

// medians of a test: a row per runtime and form, a column per machine.
func (r *Runtimes) medians(test string) string {
	header, rows := r.columns(), [][]string{}
	column := len(header)
	for _, m := range r.Machines {
		if !slices.Contains(m.tests(), test) {
			continue
		}
		header = append(header, m.CPU)
		for _, row := range m.Rows {
			f, ok := row.Figures[test]
			if !ok {
				continue
			}
			key := row.key()
			at := slices.IndexFunc(rows, func(have []string) bool { return slices.Equal(have[:len(key)], key) })
			if at < 0 {
				at, rows = len(rows), append(rows, key)
			}
			for len(rows[at]) < column {
				rows[at] = append(rows[at], missing)
			}
			rows[at] = append(rows[at], number(f.Median))
		}
		column++
	}
	return "**" + test + "**, " + r.unit() + "\n\n" + markdown(header, rows)
}

// ranges of all tests on one machine.
func (m *RuntimeMachine) ranges(columns []string) string {
	tests, rows := m.tests(), [][]string{}
	header, sized := slices.Insert(columns, 1, "Revision"), false
	for _, row := range m.Rows {
		sized = sized || row.Bytes > 0
	}
	if sized {
		header = append(header, "MB/token")
	}
	for _, row := range m.Rows {
		cells := []string{row.Runtime, row.Revision, row.Weights, row.Head}
		switch {
		case row.Bytes > 0:
			cells = append(cells, fmt.Sprintf("%.0f", row.Bytes))
		case sized:
			cells = append(cells, missing)
		}
		for _, t := range tests {
			cell := missing
			if f, ok := row.Figures[t]; ok {
				cell = f.spread()
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
	}
	title := fmt.Sprintf("**%s** (%s), %s: minimum–maximum, number of runs\n\n", m.CPU, m.ISA, m.Date)
	return title + markdown(append(header, tests...), rows)
}

// spread of the runs, and their number, as far as they are recorded.
func (f *Figure) spread() string {
	cell := missing
	if f.ranged() {
		cell = number(f.Min) + "–" + number(f.Max)
	}
	if f.Runs > 0 {
		cell += fmt.Sprintf(", %d", f.Runs)
	}
	return cell
}

// number in the digits that the file has.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// markdown writes a table; rows that are shorter than its header end with empty figures.
func markdown(header []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(header)
	b.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, cells := range rows {
		for len(cells) < len(header) {
			cells = append(cells, missing)
		}
		line(cells)
	}
	return b.String()
}
