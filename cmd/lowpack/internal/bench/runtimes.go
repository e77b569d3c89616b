package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/internal/plot"
	"github.com/lowpack/lowpack/pack"
)

// RuntimesSchema names the form of Runtimes in JSON.
const RuntimesSchema = "lowpack.bench.runtimes/1"

// Runtimes are figures of lowpack and of other runtimes on the same machines with models of the same shape: collected
// by hand from the reports of each, not measured by lowpack itself.
type Runtimes struct {
	Schema   string           `json:"schema"`
	Name     string           `json:"name,omitempty"`    // identifies the table of a document
	Unit     string           `json:"unit,omitempty"`    // of all figures; "" = tokens per second
	Columns  []string         `json:"columns,omitempty"` // headings of runtime, weights and head; nil = these
	Shape    string           `json:"shape"`             // of the model, and other conditions common to all rows
	Machines []RuntimeMachine `json:"machines"`
}

// RuntimeMachine is one machine on one day.
type RuntimeMachine struct {
	CPU  string       `json:"cpu"`
	ISA  string       `json:"isa"`
	Date string       `json:"date"`
	Rows []RuntimeRow `json:"rows"`
}

// RuntimeRow is a runtime with one form of the weights and of the output head.
type RuntimeRow struct {
	Runtime  string            `json:"runtime"`
	Revision string            `json:"revision"`
	Weights  string            `json:"weights"`
	Head     string            `json:"head"`
	Bytes    float64           `json:"mb_per_token,omitempty"` // that a step of decoding reads, in MB; 0 = not known
	Figures  map[string]Figure `json:"figures"`                // of each test
}

// key identifies a row of a machine, and finds the matching row of another machine.
func (r *RuntimeRow) key() []string { return []string{r.Runtime, r.Weights, r.Head} }

// Figure summarizes the runs of one test.
type Figure struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min,omitempty"` // with Max: 0 = not recorded
	Max    float64 `json:"max,omitempty"`
	Runs   int     `json:"runs,omitempty"` // 0 = not recorded
}

// ranged reports whether the range of the runs is recorded.
func (f *Figure) ranged() bool { return f.Min != 0 || f.Max != 0 }

// valid reports whether the figure is consistent.
func (f *Figure) valid() bool {
	least, most := f.Median, f.Median
	if f.ranged() {
		least, most = f.Min, f.Max
	}
	return 0 < least && least <= f.Median && f.Median <= most && most < math.MaxFloat32 && f.Runs >= 0
}

// ReadRuntimes parses and checks the JSON form.
func ReadRuntimes(text []byte) (*Runtimes, error) {
	var r Runtimes
	if err := readJSON(text, &r, RuntimesSchema, ""); err != nil {
		return nil, err
	}
	if n := len(r.Columns); n != 0 && n != 3 {
		return nil, fmt.Errorf("%w: %d columns; want 3", pack.ErrCorrupt, n)
	}
	for _, m := range r.Machines {
		for i, row := range m.Rows {
			if slices.ContainsFunc(m.Rows[:i],
				func(other RuntimeRow) bool { return slices.Equal(other.key(), row.key()) }) {
				return nil, fmt.Errorf("%w: %s, %s: two rows of %s, %s", pack.ErrCorrupt, m.CPU, row.Runtime,
					row.Weights, row.Head)
			}
			for test, f := range row.Figures {
				if !f.valid() {
					return nil, fmt.Errorf("%w: %s, %s, %s: median %v of %d runs from %v to %v", pack.ErrCorrupt, m.CPU,
						row.Runtime,
						test, f.Median, f.Runs, f.Min, f.Max)
				}
			}
		}
	}
	return &r, nil
}

// unit of all figures.
func (r *Runtimes) unit() string { return cmp.Or(r.Unit, "tokens per second") }

// columns returns the headings of RuntimeRow.key.
func (r *Runtimes) columns() []string {
	if r.Columns == nil {
		return []string{"Runtime", "Weights", "Head"}
	}
	return slices.Clone(r.Columns)
}

// Tests lists the tests of all machines, each once.
func (r *Runtimes) Tests() (list []string) {
	for _, m := range r.Machines {
		for _, test := range m.tests() {
			if !slices.Contains(list, test) {
				list = append(list, test)
			}
		}
	}
	return list
}

// tests lists the tests, prefill and decode of one sequence first.
func (m *RuntimeMachine) tests() []string {
	seen := map[string]bool{}
	for _, row := range m.Rows {
		for test := range row.Figures {
			seen[test] = true
		}
	}
	order := []string{"pp512", "tg128"}
	var rest []string
	for test := range seen {
		if !slices.Contains(order, test) {
			rest = append(rest, test)
		}
	}
	// "8 …" before "32 …"
	slices.SortFunc(rest, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return append(slices.DeleteFunc(order, func(t string) bool { return !seen[t] }), rest...)
}

// Plot shows one row per runtime for one test, machine by machine; runtimes without the test are left out.
func (r *Runtimes) Plot(test string) *plot.Bars {
	chart := &plot.Bars{Title: test + ", " + r.unit(), Note: r.Shape, Value: plot.Axis{Label: "median of all runs"}}
	machines := slices.DeleteFunc(slices.Clone(r.Machines),
		func(m RuntimeMachine) bool { return !slices.Contains(m.tests(), test) })
	for _, m := range machines {
		chart.Groups = append(chart.Groups, m.CPU)
		for _, row := range m.Rows {
			if !slices.ContainsFunc(chart.Series, func(s plot.BarSeries) bool { return s.Name == row.Runtime }) {
				chart.Series = append(chart.Series, plot.BarSeries{Name: row.Runtime})
			}
		}
	}
	for i := range chart.Series {
		for _, m := range machines {
			chart.Series[i].Values = append(chart.Series[i].Values, m.figure(chart.Series[i].Name, test))
		}
	}
	chart.Series = slices.DeleteFunc(chart.Series, func(s plot.BarSeries) bool {
		return !slices.ContainsFunc(s.Values, func(v float64) bool { return !math.IsNaN(v) })
	})
	return chart
}

// figure returns the median of the first row of a runtime that has the test, so that heads of like quality are
// compared; NaN if there is none.
func (m *RuntimeMachine) figure(runtime, test string) float64 {
	for _, row := range m.Rows {
		if f, ok := row.Figures[test]; ok && row.Runtime == runtime {
			return f.Median
		}
	}
	return math.NaN()
}
