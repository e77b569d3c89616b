package bench

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/plot"
)

// title joins the subject of a chart and its machine.
func (h *Host) title(what string) string { return what + ", " + cmp.Or(h.CPU, h.Platform) }

// leftOut notes how many figures a chart omits as noise.
func leftOut(note string, noisy int) string {
	if noisy > 0 {
		note += fmt.Sprintf("; %d measurements that are noise are left out", noisy)
	}
	return note
}

// Plot shows the limits of the largest number of threads as the roofs that kernels stay below.
func (r *MachineReport) Plot() plot.Chart {
	most, noisy := 0, 0
	for _, row := range r.Rows {
		most = max(most, row.Threads)
	}
	chart := &plot.Roofline{Title: r.Host.title("Limits")}
	for _, row := range r.Rows {
		if row.Threads != most {
			continue
		}
		roof := plot.Ceiling{Name: row.Where, Rate: row.Rate}
		switch {
		case row.Noise:
			noisy++
		case row.What == Read:
			chart.Bandwidth = append(chart.Bandwidth, roof)
		case row.What == Operate && kernel.ISA(row.Where) != kernel.Generic: // which would push all else into a corner
			chart.Compute = append(chart.Compute, roof)
		}
	}
	chart.Note = leftOut(Threads(most), noisy)
	return chart
}

// Plot shows the kernels of the largest number of threads below the limits that were measured interleaved with them,
// and parts of layers below that of float32.
func (r *KernelReport) Plot() plot.Chart {
	most := 0
	for i := range r.Rows {
		most = max(most, r.Rows[i].Threads)
	}
	for i := range r.Parts {
		most = max(most, r.Parts[i].Threads)
	}
	roof := newKernelRoof(&plot.Roofline{Title: r.Host.title("Kernels")})
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Threads == most && row.Refused == "" && row.Wrong == "" {
			roof.add(string(row.ISA), row.label(), &row.Figures)
		}
	}
	for i := range r.Parts {
		if row := &r.Parts[i]; row.Threads == most && row.Wrong == "" {
			roof.add("float32", row.Part, &row.Figures)
		}
	}
	return roof.finish(Threads(most))
}

// kernelRoof is a chart in the making: a series of points per limit of multiplication.
type kernelRoof struct {
	*plot.Roofline
	read  []float64
	peak  map[string][]float64 // by series
	at    map[string]int       // series by name
	noisy int
}

func newKernelRoof(chart *plot.Roofline) *kernelRoof {
	return &kernelRoof{Roofline: chart, peak: map[string][]float64{}, at: map[string]int{}}
}

// add adds a point, unless its figures are noise.
func (r *kernelRoof) add(series, label string, f *Figures) {
	if f.Noise {
		r.noisy++
		return
	}
	r.read, r.peak[series] = append(r.read, f.ReadGBs*1e9), append(r.peak[series], f.PeakGOPS*1e9)
	at, known := r.at[series]
	if !known {
		at = len(r.Series)
		r.at[series], r.Series = at, append(r.Series, plot.Series{Name: series})
	}
	s := &r.Series[at]
	s.Points = append(s.Points, plot.Point{X: f.GOPS / f.GBs, Y: f.GOPS * 1e9, Label: label})
}

func (r *kernelRoof) finish(note string) plot.Chart {
	if len(r.read) > 0 {
		r.Bandwidth = []plot.Ceiling{{Name: memoryLevel, Rate: quantity(r.read).Median}}
	}
	for _, s := range r.Series {
		r.Compute = append(r.Compute, plot.Ceiling{Name: s.Name, Rate: quantity(r.peak[s.Name]).Median})
	}
	r.Note = leftOut(note, r.noisy)
	return r.Roofline
}

// label names a point of the plot: layout, alphabet unless it is the usual one, and tokens.
func (r *KernelRow) label() string {
	name := r.Layout
	if strings.HasPrefix(r.Kernel, "*") {
		name = "any" // the kernel that serves every layout
	} else if r.Alphabet != "ternary" {
		name += " " + r.Alphabet
	}
	return name + " ×" + strconv.Itoa(r.Tokens)
}

// Plot shows tokens per second: a group of bars per kind of work, a bar per number of threads.
func (r *ModelReport) Plot() plot.Chart {
	chart := &plot.Bars{Title: r.Host.title(filepath.Base(r.File)), Value: plot.Axis{Label: "tokens per second"}}
	groups, series := map[string]int{}, map[int]int{}
	noisy := 0
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Refused != "" {
			continue
		}
		if row.Noise {
			noisy++
			continue
		}
		g, known := groups[row.Label()]
		if !known {
			g = len(chart.Groups)
			groups[row.Label()], chart.Groups = g, append(chart.Groups, row.Label())
		}
		s, known := series[row.Threads]
		if !known {
			s = len(chart.Series)
			series[row.Threads], chart.Series = s, append(chart.Series, plot.BarSeries{Name: Threads(row.Threads)})
		}
		values := &chart.Series[s].Values
		for len(*values) <= g {
			*values = append(*values, math.NaN())
		}
		(*values)[g] = row.TokensPerSec
	}
	chart.Note = leftOut(fmt.Sprintf("%s model, %s of weights per step", r.Family,
		plot.Bytes(float64(r.WeightBytes))), noisy)
	return chart
}

// Label describes what the row measures, without the threads.
func (r *ModelRow) Label() string {
	switch r.What {
	case Prompt:
		return fmt.Sprintf("prompt of %d", r.Tokens)
	case Generate:
		if r.Batch > 1 {
			return fmt.Sprintf("generate %d × %d", r.Batch, r.Tokens)
		}
		return fmt.Sprintf("generate %d", r.Tokens)
	}
	return fmt.Sprintf("generate after %d", r.Tokens)
}
