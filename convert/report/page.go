package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/lowpack/lowpack/internal/plot"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("report").Parse(pageText))

// page is the data of page.html.
type page struct {
	*Report
	Style   template.CSS
	Figures []figure
	Plots   []template.HTML
	Note    string
	Table   []line
}

// figure is one number at the head of the page.
type figure struct{ Name, Value, Note string }

// line of the table, as texts.
type line struct{ Tensor, Shape, DType, Rule, Layout, Scale, Scales, Zeros, Error, In, Out, Seconds string }

func (r *Report) html(w io.Writer) error {
	p := page{Report: r, Style: template.CSS(plot.Style), Figures: r.figures()}
	charts := []plot.Chart{r.sizes()}
	if lines := r.errors(); len(lines.Series) > 0 {
		charts = append(charts, lines)
	} else {
		p.Note = "No error per layer is shown: every tensor was taken over exactly, or errors were not measured."
	}
	charts = append(charts, r.histograms()...)
	if lines := r.scales(); len(lines.Series) > 0 {
		charts = append(charts, lines)
	}
	for _, c := range charts {
		p.Plots = append(p.Plots, plot.Inline(c))
	}
	for i := range r.Rows {
		p.Table = append(p.Table, r.Rows[i].line())
	}
	return pageTemplate.Execute(w, &p)
}

func (r *Report) figures() []figure {
	var in, out, packedBytes, weights int64
	var seconds, worst float64
	quantized, worstName := 0, ""
	for i := range r.Rows {
		t := &r.Rows[i]
		in, out, seconds = in+t.BytesIn, out+t.BytesOut, seconds+t.Seconds
		if t.Layout == "" {
			continue
		}
		quantized++
		packedBytes += t.BytesOut
		weights += t.weights()
		if t.RelError != nil && *t.RelError > worst {
			worst, worstName = *t.RelError, t.Tensor
		}
	}
	list := []figure{
		{Name: "tensors before", Value: plot.Bytes(float64(in))},
		{Name: "tensors after", Value: plot.Bytes(float64(out)), Note: ratio(in, out)},
		{Name: "quantized tensors", Value: fmt.Sprintf("%d of %d", quantized, len(r.Rows))},
	}
	if weights > 0 {
		list = append(list, figure{Name: "bits per quantized weight",
			Value: strconv.FormatFloat(8*float64(packedBytes)/float64(weights), 'f', 3, 64)})
	}
	if worstName != "" {
		list = append(list, figure{Name: "largest relative error", Value: plot.Percent(worst), Note: worstName})
	}
	return append(list, figure{Name: "time for all tensors", Value: strconv.FormatFloat(seconds, 'f', 2, 64) + " s"})
}

func ratio(in, out int64) string {
	if out == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(in)/float64(out), 'f', 2, 64) + " times smaller"
}

func (t *Row) weights() int64 {
	n := int64(1)
	for _, dim := range t.Shape {
		n *= int64(dim)
	}
	return n
}

// sizes compares each kind of module before and after, largest first; the smallest are summed up.
func (r *Report) sizes() *plot.Bars {
	const most = 12
	type sum struct {
		module  string
		in, out int64
		tensors int
	}
	at := map[string]int{}
	var sums []sum
	for i := range r.Rows {
		_, module := place(r.Rows[i].Tensor)
		if _, known := at[module]; !known {
			at[module] = len(sums)
			sums = append(sums, sum{module: module})
		}
		s := &sums[at[module]]
		s.in, s.out, s.tensors = s.in+r.Rows[i].BytesIn, s.out+r.Rows[i].BytesOut, s.tensors+1
	}
	slices.SortStableFunc(sums, func(a, b sum) int { return int(math.Copysign(1, float64(b.in-a.in))) })
	if len(sums) > most {
		rest := sum{module: "all others"}
		for _, s := range sums[most-1:] {
			rest.in, rest.out, rest.tensors = rest.in+s.in, rest.out+s.out, rest.tensors+s.tensors
		}
		sums = append(sums[:most-1], rest)
	}
	b := &plot.Bars{Title: "Size before and after", Note: "Sum over all tensors of a kind, scales and padding included",
		Value: plot.Axis{Format: plot.Bytes}, Series: []plot.BarSeries{{Name: "before"}, {Name: "after"}}}
	for _, s := range sums {
		b.Groups = append(b.Groups, fmt.Sprintf("%s × %d", s.module, s.tensors))
		b.Series[0].Values = append(b.Series[0].Values, float64(s.in))
		b.Series[1].Values = append(b.Series[1].Values, float64(s.out))
	}
	return b
}

// errors draws the relative error of every kind of quantized module over the layers. A report without any error gives a
// chart without series.
func (r *Report) errors() *plot.Lines {
	l := &plot.Lines{Title: "Relative error per layer", Note: "‖W − Ŵ‖ / ‖W‖, by kind of module",
		X: plot.Axis{Label: "layer", Integer: true},
		Y: plot.Axis{Label: "relative error", Format: plot.Percent, Zero: true}}
	l.Series = r.perLayer(func(t *Row) (float64, bool) {
		if t.RelError == nil {
			return 0, false
		}
		return *t.RelError, true
	})
	for _, s := range l.Series {
		for _, p := range s.Points {
			if p.Y > 0 {
				return l
			}
		}
	}
	l.Series = nil
	return l
}

// scales draws the mean scale of every kind of quantized module over the layers.
func (r *Report) scales() *plot.Lines {
	return &plot.Lines{Title: "Mean scale per layer", X: plot.Axis{Label: "layer", Integer: true},
		Y:      plot.Axis{Label: "scale", Log: true},
		Series: r.perLayer(func(t *Row) (float64, bool) { return t.Scales.Mean, t.Scales.Count > 0 })}
}

// perLayer collects one series per kind of quantized module, in the order of their first layer.
func (r *Report) perLayer(value func(*Row) (float64, bool)) []plot.Series {
	at := map[string]int{}
	var series []plot.Series
	for i := range r.Rows {
		t := &r.Rows[i]
		layer, module := place(t.Tensor)
		v, ok := value(t)
		if t.Layout == "" || layer == nil || !ok {
			continue
		}
		if _, known := at[module]; !known {
			at[module] = len(series)
			series = append(series, plot.Series{Name: module})
		}
		s := &series[at[module]]
		s.Points = append(s.Points, plot.Point{X: float64(*layer), Y: v})
	}
	for i := range series {
		slices.SortFunc(series[i].Points, func(a, b plot.Point) int { return int(math.Copysign(1, a.X-b.X)) })
	}
	return series
}

// histograms draws the codes of all tensors of an alphabet together.
func (r *Report) histograms() (charts []plot.Chart) {
	counts := map[string]map[int32]int64{}
	var order []string
	for i := range r.Rows {
		t := &r.Rows[i]
		for _, c := range t.Codes {
			if counts[t.Alphabet] == nil {
				counts[t.Alphabet] = map[int32]int64{}
				order = append(order, t.Alphabet)
			}
			counts[t.Alphabet][c.Value] += c.Count
		}
	}
	for _, alphabet := range order {
		total := int64(0)
		for _, n := range counts[alphabet] {
			total += n
		}
		h := &plot.Columns{Title: "Codes, " + alphabet,
			Note: "Share of all " + plot.Short(float64(total)) + " weights with this alphabet",
			X:    plot.Axis{Label: "code"}, Y: plot.Axis{Label: "share", Format: plot.Percent}}
		for code, n := range counts[alphabet] {
			h.Points = append(h.Points, plot.Point{X: float64(code), Y: float64(n) / float64(max(1, total))})
		}
		slices.SortFunc(h.Points, func(a, b plot.Point) int { return int(math.Copysign(1, a.X-b.X)) })
		charts = append(charts, h)
	}
	return charts
}

func (t *Row) line() line {
	l := line{
		Tensor: t.Tensor, Shape: fmt.Sprint(t.Shape), DType: t.DType, Rule: t.Rule, Layout: t.Layout, Scale: t.Scale,
		In:  plot.Bytes(float64(t.BytesIn)),
		Out: plot.Bytes(float64(t.BytesOut)),
		Seconds: strconv.FormatFloat(t.Seconds,
			'f', 3, 64),
	}
	if t.Scales.Count == 1 {
		l.Scales = plot.Short(t.Scales.Mean)
	} else if t.Scales.Count > 1 {
		l.Scales = fmt.Sprintf("%s … %s", plot.Short(t.Scales.Min), plot.Short(t.Scales.Max))
	}
	if t.RelError != nil && t.Layout != "" {
		l.Error = plot.Percent(*t.RelError)
	}
	total, zeros := int64(0), int64(-1)
	for _, c := range t.Codes {
		total += c.Count
		if c.Value == 0 {
			zeros = c.Count
		}
	}
	if zeros >= 0 && total > 0 {
		l.Zeros = plot.Percent(float64(zeros) / float64(total))
	}
	return l
}
