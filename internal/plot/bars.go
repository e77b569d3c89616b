package plot

import "fmt"

// Bars draws horizontal bars: one group of bars per name, one bar per series, each with its value at the tip.
type Bars struct {
	Title, Note string
	Value       Axis
	Groups      []string
	Series      []BarSeries
}

// BarSeries holds one value per group; one that is not finite draws no bar.
type BarSeries struct {
	Name   string
	Values []float64
}

const (
	barHeight = 14.0
	barGap    = 2.0
	groupGap  = 10.0
)

func (b *Bars) summary() string {
	return fmt.Sprintf("%s: bars of %s for %d groups, %d series", b.Title, b.Value.Label, len(b.Groups), len(b.Series))
}

func (b *Bars) draw(c *canvas) float64 {
	var names []string
	var all []float64
	for _, s := range b.Series {
		names = append(names, s.Name)
		all = append(all, s.Values...)
	}
	y := c.head(b.Title, b.Note, names) + 4
	left, room := margin+8, 0.0
	for _, g := range b.Groups {
		left = max(left, margin+8+min(textWidth(g), Width/3))
	}
	for _, v := range all {
		if finite(v) {
			room = max(room, textWidth(b.Value.format(v)))
		}
	}
	axis := b.Value
	axis.Zero = true
	x, ok := newScale(&axis, all, left, Width-margin-room-8, 6)
	if !ok {
		return c.empty(y)
	}
	top := y
	for i, group := range b.Groups {
		y = b.group(c, x, i, group, left, y)
	}
	c.line("axis", x.at(0), top-groupGap/2, x.at(0), y-groupGap/2)
	c.text("", "start", left, y+10, b.Value.Label)
	return y + lineHeight
}

// group draws the bars of group i below y and returns where the next one starts.
func (b *Bars) group(c *canvas, x *scale, i int, name string, left, y float64) float64 {
	height := float64(len(b.Series)) * (barHeight + barGap)
	c.text("", "end", left-8, y+height/2+3, clip(name, Width/3))
	for s := range b.Series {
		if i >= len(b.Series[s].Values) || !finite(b.Series[s].Values[i]) {
			y += barHeight + barGap
			continue
		}
		v := b.Series[s].Values[i]
		from, to := min(x.at(0), x.at(v)), max(x.at(0), x.at(v))
		title := name + ": " + x.format(v)
		if len(b.Series) > 1 {
			title = name + ", " + b.Series[s].Name + ": " + x.format(v)
		}
		c.rect(fmt.Sprintf("f%d", s%Colours), from, y, to-from, barHeight, title)
		c.text("value", "start", to+5, y+barHeight-3, x.format(v))
		y += barHeight + barGap
	}
	return y + groupGap
}

// Columns draws a histogram: one column per whole number of the x axis.
type Columns struct {
	Title, Note string
	X, Y        Axis
	Points      []Point // X whole numbers
}

func (h *Columns) summary() string {
	return fmt.Sprintf("%s: %s over %s, %d columns", h.Title, h.Y.Label, h.X.Label, len(h.Points))
}

func (h *Columns) draw(c *canvas) float64 {
	y0 := c.head(h.Title, h.Note, nil)
	if len(h.Points) == 0 {
		return c.empty(y0)
	}
	ax, ay := h.X, h.Y
	ax.Integer, ay.Zero = true, true
	lo, hi := h.Points[0].X, h.Points[0].X
	for _, p := range h.Points {
		lo, hi = min(lo, p.X), max(hi, p.X)
	}
	f, ok := newFrame(c, y0, &ax, &ay, []Series{{Points: h.Points}})
	if !ok {
		return f.bottom
	}
	f.x.lo, f.x.hi = lo-0.5, hi+0.5 // half a column of room at both ends
	f.x.ticks = inside(f.x.ticks, lo, hi)
	f.axes(c)
	width := (f.right - f.left) / (hi - lo + 1)
	bar := min(width-min(6, width/5), 72)
	for _, p := range h.Points {
		if !finite(p.X, p.Y) {
			continue
		}
		title := f.title("", p)
		c.rect("f0", f.x.at(p.X)-bar/2, f.y.at(p.Y), bar, f.ground-f.y.at(p.Y), title)
		if len(h.Points) <= 16 {
			c.text("value", "middle", f.x.at(p.X), f.y.at(p.Y)-4, f.y.format(p.Y))
		}
	}
	return f.bottom
}

func inside(ticks []float64, lo, hi float64) []float64 {
	var kept []float64
	for _, t := range ticks {
		if t >= lo && t <= hi {
			kept = append(kept, t)
		}
	}
	return kept
}
