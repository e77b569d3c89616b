package bench

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/internal/plot"
	"github.com/lowpack/lowpack/pack"
)

// The marker lines between which Into writes tables.
const (
	TablesBegin = "<!-- bench chart -->"
	TablesEnd   = "<!-- end of bench chart -->"
)

// missing fills a cell without a figure.
const missing = "–"

// Into replaces the tables of a Markdown document by those of reports.
func Into(document []byte, list []*Report) ([]byte, error) {
	begin, rest, ok := bytes.Cut(document, []byte(TablesBegin+"\n"))
	_, end, ended := bytes.Cut(rest, []byte(TablesEnd+"\n"))
	if !ok || !ended {
		return nil, fmt.Errorf("%w: a document without the lines %q and %q, in this order, between which the tables go",
			pack.ErrUnsupported, TablesBegin, TablesEnd)
	}
	tables := Markdown(list)
	if len(list) == 0 {
		tables = "No machine has been measured by this method at this version yet.\n"
	}
	return slices.Concat(begin, []byte(TablesBegin+"\n\n"+tables+"\n"+TablesEnd+"\n"), end), nil
}

// Markdown writes a table for each report.
func Markdown(list []*Report) string {
	var parts []string
	for _, r := range list {
		parts = append(parts, r.markdown())
	}
	return strings.Join(parts, "\n")
}

// markdown writes a row for each form of each work that was measured.
func (r *Report) markdown() string {
	rows := [][]string{}
	for i, w := range r.Works {
		for j, f := range r.Forms {
			c := r.Cell(i, j)
			if c == nil {
				continue
			}
			rows = append(rows, []string{w.Model, w.Label(), f.Runtime, f.Weights, f.Head, Digits(c.Rate.Median),
				fmt.Sprintf("%s–%s, %d", Digits(c.Min), Digits(c.Max), c.Turns), fmt.Sprintf("%.2f", c.Fraction),
				ratio(c.Ratio)})
		}
	}
	header := []string{"Model", "Work", "Runtime", "Weights", "Head", "Rate", "Range, turns", "Of the limit",
		"lowpack to it"}
	return "### " + r.Name + "\n\n" + r.about() + "\n\n" + markdown(header, rows)
}

// about says where, when and of what versions the figures are.
func (r *Report) about() string {
	programs := []string{strings.TrimSpace(r.Host.Tool+" "+short(r.Revision)) + ", " + r.Host.Go}
	for _, f := range r.Forms {
		if p := f.Runtime + " " + f.Version; f.Runtime != Lowpack && !slices.Contains(programs, p) {
			programs = append(programs, p)
		}
	}
	text := fmt.Sprintf("%s: %s, %s, %s, %s. %s.", r.Date, r.Host.CPU, r.Host.ISAs[0], r.Host.Platform,
		Threads(r.Threads), strings.Join(programs, "; "))
	if r.Busy {
		text += fmt.Sprintf(" **Beside other work**, which took %.0f %% of the processors: compare rows with one "+
			"another alone.", 100*r.others())
	}
	return text
}

// short is a revision as git abbreviates it.
func short(revision string) string {
	hash, dirty, _ := strings.Cut(revision, "+")
	if dirty != "" {
		dirty = "+" + dirty
	}
	return hash[:min(len(hash), 8)] + dirty
}

// ratio of speeds, or nothing where there is none.
func ratio(x float64) string {
	if x == 0 {
		return missing
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// Digits prints a speed or a time with three significant digits, or all digits before the decimal point. Below 1, zeros
// at the end are left out.
func Digits(x float64) string {
	switch {
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case x >= 1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// markdown writes a table.
func markdown(header []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(header)
	b.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, cells := range rows {
		line(cells)
	}
	return b.String()
}

// Tests lists the works of all reports, each once, by the name that Plot takes.
func Tests(list []*Report) (names []string) {
	for _, r := range list {
		for i := range r.Works {
			if name := r.Works[i].test(); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// test names the work among those of all models.
func (w *Work) test() string { return w.Model + ", " + w.Label() }

// Plot shows a bar for the first form of each runtime that was measured in one test, machine by machine.
func Plot(list []*Report, test string) *plot.Bars {
	chart := &plot.Bars{Title: test, Value: plot.Axis{Label: "tokens per second, median of all turns"}}
	list = slices.DeleteFunc(slices.Clone(list),
		func(r *Report) bool { return !slices.Contains(Tests([]*Report{r}), test) })
	for _, r := range list {
		chart.Groups = append(chart.Groups, r.Name)
		for _, f := range r.Forms {
			listed := slices.ContainsFunc(chart.Series, func(s plot.BarSeries) bool { return s.Name == f.Runtime })
			if !listed && !math.IsNaN(r.first(f.Runtime, test)) {
				chart.Series = append(chart.Series, plot.BarSeries{Name: f.Runtime})
			}
		}
	}
	for i := range chart.Series {
		for _, r := range list {
			chart.Series[i].Values = append(chart.Series[i].Values, r.first(chart.Series[i].Name, test))
		}
	}
	return chart
}

// first returns the median of the first form of a runtime that has the test; NaN if there is none.
func (r *Report) first(runtime, test string) float64 {
	work := slices.IndexFunc(r.Works, func(w Work) bool { return w.test() == test })
	for form, f := range r.Forms {
		if c := r.Cell(work, form); c != nil && f.Runtime == runtime {
			return c.Rate.Median
		}
	}
	return math.NaN()
}
