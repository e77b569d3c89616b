package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// ReportSchema names the form of a Report in JSON. It changes when a field changes its meaning.
const ReportSchema = "lowpack.bench.report/1"

// Report holds the turns of one measurement of one machine: every form of every work, interleaved in several rounds.
type Report struct {
	Schema   string   `json:"schema"`
	Name     string   `json:"name"` // of the machine, in tables
	Host     Host     `json:"host"`
	Revision string   `json:"revision"` // of lowpack; "" if unknown
	Date     string   `json:"date"`     // of the first turn
	Mini     bool     `json:"mini"`     // true: tiny models, whose figures mean nothing
	Threads  int      `json:"threads"`
	Rounds   int      `json:"rounds"` // that are planned
	Busy     bool     `json:"busy"`   // other processes took more than mostOthers of the processors
	Works    []Work   `json:"works"`
	Forms    []Form   `json:"forms"`
	Samples  []Sample `json:"samples"`
}

// Work is what one turn measures.
type Work struct {
	Model  string `json:"model"`
	What   string `json:"what"`   // Prompt, Generate, Context, Convert or Verify
	Tokens int    `json:"tokens"` // as in a ModelRow; 0 for work on files
	Batch  int    `json:"batch"`  // sequences
}

// Work on files, of lowpack's first form alone. Its rate is in GB per second, its limit that of one SHA-256.
const (
	Convert = "convert" // the checkpoint to a packed file without golden outputs
	Verify  = "verify"  // a packed file up to level codes
)

// OnFiles reports whether the work is on files instead of tokens.
func (w *Work) OnFiles() bool { return w.What == Convert || w.What == Verify }

// Form is a model in the form that one runtime reads.
type Form struct {
	Model   string `json:"model"`
	Runtime string `json:"runtime"`
	Version string `json:"version"`
	Weights string `json:"weights"`
	Head    string `json:"head"`
}

// Sample is the result of one turn.
type Sample struct {
	Round  int     `json:"round"`
	Work   int     `json:"work"`   // index of Works
	Form   int     `json:"form"`   // index of Forms
	Rate   float64 `json:"rate"`   // tokens, or GB, per second
	Limit  float64 `json:"limit"`  // rate at the nearer limit of the machine, measured in the same turn
	Others float64 `json:"others"` // share of the processors that other processes took; -1 = unknown
}

// Lowpack is the Runtime of a Form that this program computes.
const Lowpack = "lowpack"

// mostOthers is the share of the processors above which other processes disturb a measurement.
const mostOthers = 0.05

// Label describes the work within its model.
func (w *Work) Label() string {
	if w.OnFiles() {
		return w.What + ", GB/s"
	}
	row := ModelRow{What: w.What, Tokens: w.Tokens, Batch: w.Batch}
	return row.Label()
}

// ReadReport parses and checks the JSON form.
func ReadReport(text []byte) (*Report, error) {
	var r Report
	if err := readJSON(text, &r, ReportSchema, ", which lowpack bench report writes"); err != nil {
		return nil, err
	}
	seen := map[[3]int]bool{}
	for _, s := range r.Samples {
		if s.Work < 0 || s.Work >= len(r.Works) || s.Form < 0 || s.Form >= len(r.Forms) ||
			!r.takes(s.Work, s.Form) || s.Round < 0 || s.Round >= r.Rounds {
			return nil, fmt.Errorf("%w: a sample of round %d, work %d, form %d, which the report does not have",
				pack.ErrCorrupt, s.Round, s.Work, s.Form)
		}
		if seen[s.key()] {
			return nil, fmt.Errorf("%w: two samples of round %d, work %d, form %d", pack.ErrCorrupt, s.Round, s.Work,
				s.Form)
		}
		seen[s.key()] = true
		if !positive(s.Rate) || !positive(s.Limit) {
			return nil, fmt.Errorf("%w: a rate of %v, limit %v", pack.ErrCorrupt, s.Rate, s.Limit)
		}
	}
	return &r, nil
}

func positive(x float64) bool { return x > 0 && x < math.MaxFloat32 }

func (s *Sample) key() [3]int { return [3]int{s.Round, s.Work, s.Form} }

// Same returns an error that names what differs if the samples of two reports cannot be put together.
func (r *Report) Same(other *Report) error {
	for _, d := range []struct {
		what string
		same bool
	}{
		{"machine", r.Host.CPU == other.Host.CPU && slices.Equal(r.Host.ISAs, other.Host.ISAs)},
		{"choice of kernels", r.Host.Choices == other.Host.Choices},
		{"name", r.Name == other.Name},
		{"version of lowpack", r.Host.Tool == other.Host.Tool && r.Host.Go == other.Host.Go},
		{"revision of lowpack", r.Revision == other.Revision},
		{"number of threads", r.Threads == other.Threads},
		{"size of the models", r.Mini == other.Mini},
		{"list of work", slices.Equal(r.Works, other.Works)},
		{"list of runtimes and their versions", slices.Equal(r.Forms, other.Forms)},
	} {
		if !d.same {
			return fmt.Errorf("%w: a measurement with another %s: finish it with that, or name another file",
				pack.ErrUnsupported, d.what)
		}
	}
	return nil
}

// Missing lists the turns without a sample, round by round. Within a round the forms of a work follow one another, in
// the opposite order every other time, so that what a machine does over time disturbs all of them alike.
func (r *Report) Missing() (list []Sample) {
	done := map[[3]int]bool{}
	for i := range r.Samples {
		done[r.Samples[i].key()] = true
	}
	for round := range r.Rounds {
		for work := range r.Works {
			var forms []Sample
			for form := range r.Forms {
				s := Sample{Round: round, Work: work, Form: form}
				if r.takes(work, form) && !done[s.key()] {
					forms = append(forms, s)
				}
			}
			if round%2 == 1 {
				slices.Reverse(forms)
			}
			list = append(list, forms...)
		}
	}
	return list
}

// Cell summarizes the samples of one form of one work.
type Cell struct {
	Rate     Quantity
	Min, Max float64
	Turns    int
	Fraction float64 // of the machine's limit, median
	Ratio    float64 // of lowpack's first form of the model to this one, median over the rounds; 0 if it has none
}

// Cell returns the figures of one form of one work; nil without samples.
func (r *Report) Cell(work, form int) *Cell {
	var rates, fractions, ratios []float64
	for _, s := range r.of(work, form) {
		rates, fractions = append(rates, s.Rate), append(fractions, s.Rate/s.Limit)
		for _, own := range r.of(work, r.own(r.Works[work].Model)) {
			if own.Round == s.Round {
				ratios = append(ratios, own.Rate/s.Rate)
			}
		}
	}
	if len(rates) == 0 {
		return nil
	}
	return &Cell{Rate: quantity(rates), Min: rates[0], Max: rates[len(rates)-1], Turns: len(rates),
		Fraction: quantity(fractions).Median, Ratio: quantity(ratios).Median}
}

// of lists the samples of one form of one work.
func (r *Report) of(work, form int) (list []Sample) {
	for _, s := range r.Samples {
		if s.Work == work && s.Form == form {
			list = append(list, s)
		}
	}
	return list
}

// takes reports whether a form does some work.
func (r *Report) takes(work, form int) bool {
	w := &r.Works[work]
	return w.Model == r.Forms[form].Model && (!w.OnFiles() || form == r.own(w.Model))
}

// own is lowpack's first form of a model; -1 if there is none.
func (r *Report) own(model string) int {
	return slices.IndexFunc(r.Forms, func(f Form) bool { return f.Model == model && f.Runtime == Lowpack })
}

// others returns the mean share of the processors that other processes took; 0 if it is unknown.
func (r *Report) others() float64 {
	sum, n := 0.0, 0
	for _, s := range r.Samples {
		if s.Others >= 0 {
			sum, n = sum+s.Others, n+1
		}
	}
	return sum / float64(max(n, 1))
}

// Newest keeps one report of each name, the one with the latest date, in the order of names.
func Newest(list []*Report) []*Report {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *Report) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Date, a.Date))
	})
	return slices.CompactFunc(list, func(a, b *Report) bool { return a.Name == b.Name })
}
