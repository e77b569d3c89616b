package plot

import (
	"fmt"
	"math"
)

// Lines draws series over a common pair of axes: a line through each, and a mark at each point while they are few
// enough to be told apart.
type Lines struct {
	Title, Note string
	X, Y        Axis
	Series      []Series
}

const (
	plotHeight = 280.0
	fewPoints  = 20  // up to here, marks stand out from their line
	manyPoints = 200 // above, marks would hide it
	hiding     = 6   // marks nearer than this hide one another
)

func (l *Lines) summary() string {
	return fmt.Sprintf("%s: %s over %s, %d series", l.Title, l.Y.Label, l.X.Label, len(l.Series))
}

func (l *Lines) draw(c *canvas) float64 {
	f, ok := newFrame(c, c.head(l.Title, l.Note, seriesNames(l.Series)), &l.X, &l.Y, l.Series)
	if !ok {
		return f.bottom
	}
	f.axes(c)
	for i := range l.Series {
		f.series(c, l.Series[i:], i)
	}
	return f.bottom
}

func seriesNames(series []Series) []string {
	names := make([]string, len(series))
	for i := range series {
		names[i] = series[i].Name
	}
	return names
}

// frame is the area between two numeric axes.
type frame struct {
	x, y                     *scale
	left, right, top, ground float64 // of the area; ground is its lower edge
	bottom                   float64 // of the chart, labels included
}

// newFrame lays out the area below y0 for the points of the series. Without any point it writes "no data" instead.
func newFrame(c *canvas, y0 float64, ax, ay *Axis, series []Series) (*frame, bool) {
	var xs, ys []float64
	for _, s := range series {
		for _, p := range s.Points {
			if finite(p.X, p.Y) && (!ax.Log || p.X > 0) && (!ay.Log || p.Y > 0) {
				xs, ys = append(xs, p.X), append(ys, p.Y)
			}
		}
	}
	f := &frame{right: Width - 24, top: y0 + 8}
	f.ground = f.top + plotHeight
	f.bottom = f.ground + 44
	var okX, okY bool
	if f.y, okY = newScale(ay, ys, f.ground, f.top, 5); !okY {
		f.bottom = c.empty(y0)
		return f, false
	}
	f.left = margin + 22
	for _, t := range f.y.ticks {
		f.left = max(f.left, margin+28+textWidth(ay.format(t)))
	}
	f.x, okX = newScale(ax, xs, f.left, f.right, 8)
	return f, okX
}

// axes draws grid, ticks and labels.
func (f *frame) axes(c *canvas) {
	for _, t := range f.y.ticks {
		y := f.y.at(t)
		c.line("grid", f.left, y, f.right, y)
		c.text("", "end", f.left-6, y+4, f.y.format(t))
	}
	free := 0.0 // where the next tick label may start
	for _, t := range f.x.ticks {
		x, label := f.x.at(t), f.x.format(t)
		c.line("axis", x, f.ground, x, f.ground+4)
		if half := textWidth(label) / 2; x-half >= free {
			c.text("", "middle", x, f.ground+18, label)
			free = x + half + 4
		}
	}
	c.line("axis", f.left, f.ground, f.right, f.ground)
	c.text("", "middle", (f.left+f.right)/2, f.ground+36, f.x.Label)
	c.vertical(margin+6, (f.top+f.ground)/2, f.y.Label)
}

// series draws the line of the first of some series, broken where a value cannot be drawn; the others follow on top of
// it.
func (f *frame) series(c *canvas, rest []Series, colour int) {
	s := &rest[0]
	colour %= Colours
	var run []float64
	flush := func() {
		if len(run) > 2 {
			c.path(fmt.Sprintf("l%d", colour), run)
		}
		run = nil
	}
	for _, p := range s.Points {
		if f.x.drawable(p.X) && f.y.drawable(p.Y) {
			run = append(run, f.x.at(p.X), f.y.at(p.Y))
		} else {
			flush()
		}
	}
	flush()
	class, radius := "dot", 3.5
	if len(s.Points) > fewPoints {
		class, radius = "mark", 2
	}
	if len(s.Points) > manyPoints {
		return
	}
	for i, p := range s.Points {
		if f.x.drawable(p.X) && f.y.drawable(p.Y) {
			r := radius
			if class == "dot" {
				r += 2.5 * float64(f.hiders(p, s.Points[i+1:], rest[1:]))
			}
			c.dot(fmt.Sprintf("%s f%d", class, colour), f.x.at(p.X), f.y.at(p.Y), r, f.title(s.Name, p))
		}
	}
}

// hiders is how many of the marks that are drawn after p would hide it, if it were not larger than they are.
func (f *frame) hiders(p Point, own []Point, others []Series) (n int) {
	count := func(points []Point) {
		for _, q := range points {
			if f.x.drawable(q.X) && f.y.drawable(q.Y) &&
				math.Hypot(f.x.at(p.X)-f.x.at(q.X), f.y.at(p.Y)-f.y.at(q.Y)) < hiding {
				n++
			}
		}
	}
	count(own)
	for _, s := range others {
		if len(s.Points) <= fewPoints {
			count(s.Points)
		}
	}
	return n
}

func (f *frame) title(series string, p Point) string {
	text := p.Label
	if text == "" {
		text = fmt.Sprintf("%s %s, %s %s", f.x.Label, f.x.format(p.X), f.y.Label, f.y.format(p.Y))
	}
	if series == "" {
		return text
	}
	return series + ": " + text
}
