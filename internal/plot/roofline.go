package plot

import (
	"fmt"
	"math"
)

// Roofline draws measured kernels under the ceilings of a machine: attainable operations per second over operations
// per byte of memory traffic (Williams, Waterman and Patterson, CACM 52(4), 2009).
type Roofline struct {
	Title, Note string
	Bandwidth   []Ceiling // in bytes per second: the slanted roofs
	Compute     []Ceiling // in operations per second: the flat roofs
	Series      []Series  // X: operations per byte; Y: operations per second; Label names the kernel
}

// Ceiling is a measured limit.
type Ceiling struct {
	Name string
	Rate float64
}

func (r *Roofline) summary() string {
	n := 0
	for _, s := range r.Series {
		n += len(s.Points)
	}
	return fmt.Sprintf("%s: roofline with %d ceilings and %d kernels", r.Title, len(r.Bandwidth)+len(r.Compute), n)
}

func (r *Roofline) draw(c *canvas) float64 {
	y0 := c.head(r.Title, r.Note, seriesNames(r.Series))
	x := Axis{Label: "operations per byte from memory", Log: true}
	y := Axis{Label: "operations per second", Log: true}
	f, ok := newFrame(c, y0, &x, &y, append([]Series{{Points: r.corners()}}, r.Series...))
	if !ok {
		return f.bottom
	}
	f.axes(c)
	top := highest(r.Compute)
	for _, roof := range r.Bandwidth {
		f.slanted(c, roof, top, len(r.Bandwidth) > 1 && roof.Rate == lowest(r.Bandwidth))
	}
	for _, roof := range r.Compute {
		f.flat(c, roof, highest(r.Bandwidth))
	}
	taken := &labels{}
	for _, roof := range r.Compute {
		taken.roof(f, roof)
	}
	f.points(r.Series, func(i int, p Point, x, y float64) {
		c.dot(fmt.Sprintf("dot f%d", i%Colours), x, y, dotRadius, f.kernelTitle(p))
		taken.add(x-dotRadius, y-dotRadius, x+dotRadius, y+dotRadius)
	})
	f.points(r.Series, func(_ int, p Point, x, y float64) { taken.place(c, f, x, y, p.Label) })
	return f.bottom
}

const dotRadius = 4.5

// points calls do for every point that can be drawn, with the number of its series and its place.
func (f *frame) points(series []Series, do func(i int, p Point, x, y float64)) {
	for i := range series {
		for _, p := range series[i].Points {
			if f.x.drawable(p.X) && f.y.drawable(p.Y) {
				do(i, p, f.x.at(p.X), f.y.at(p.Y))
			}
		}
	}
}

// corners are points that the axes must reach, so that both sides of the place where roofs meet can be seen.
func (r *Roofline) corners() []Point {
	var points []Point
	for _, b := range r.Bandwidth {
		for _, o := range r.Compute {
			if b.Rate > 0 && o.Rate > 0 {
				ridge := o.Rate / b.Rate
				points = append(points, Point{X: ridge * 2, Y: o.Rate}, Point{X: ridge / 2, Y: o.Rate / 2})
			}
		}
	}
	return points
}

func highest(roofs []Ceiling) float64 {
	top := 0.0
	for _, r := range roofs {
		top = max(top, r.Rate)
	}
	return top
}

func lowest(roofs []Ceiling) float64 {
	low := math.Inf(1)
	for _, r := range roofs {
		low = min(low, r.Rate)
	}
	return low
}

// slanted draws rate·x from the left or lower edge up to the highest flat roof. Its name is above the line, or below it
// where another line may be close above.
func (f *frame) slanted(c *canvas, roof Ceiling, top float64, below bool) {
	if !finite(roof.Rate) || roof.Rate <= 0 {
		return
	}
	if top <= 0 {
		top = math.Pow(10, f.y.hi)
	}
	x1 := max(math.Pow(10, f.x.lo), math.Pow(10, f.y.lo)/roof.Rate)
	x2 := min(math.Pow(10, f.x.hi), top/roof.Rate)
	if x1 >= x2 {
		return
	}
	px, py := f.x.at(x1), f.y.at(x1*roof.Rate)
	qx, qy := f.x.at(x2), f.y.at(x2*roof.Rate)
	c.line("roof", px, py, qx, qy)
	dy := -6.0
	if below {
		dy = 15
	}
	angle := math.Atan2(qy-py, qx-px) * 180 / math.Pi
	fmt.Fprintf(&c.b, `<text text-anchor="end" transform="translate(%s %s) rotate(%s)" x="-12" y="%s">%s</text>`,
		num(qx), num(qy), num(angle), num(dy), escape(fmt.Sprintf("%s %s/s", roof.Name, Bytes(roof.Rate))))
}

// flat draws a horizontal roof from where the steepest slanted one meets it.
func (f *frame) flat(c *canvas, roof Ceiling, bandwidth float64) {
	if !finite(roof.Rate) || roof.Rate <= 0 {
		return
	}
	from := f.left
	if bandwidth > 0 {
		from = max(from, f.x.at(roof.Rate/bandwidth))
	}
	y := f.y.at(roof.Rate)
	c.line("roof", from, y, f.right, y)
	c.text("", "end", f.right, y-6, roofName(roof))
}

func (f *frame) kernelTitle(p Point) string {
	return fmt.Sprintf("%s: %s at %s op/byte", p.Label, Ops(p.Y), Short(p.X))
}

// labels keeps names of points apart, from one another, from points and from the names of flat roofs: each goes right
// of its point, else left, else above or below; when all four places are taken it is left to the pointer.
type labels struct{ boxes [][4]float64 }

func (l *labels) add(x0, y0, x1, y1 float64) { l.boxes = append(l.boxes, [4]float64{x0, y0, x1, y1}) }

// roof keeps the name of a flat roof free.
func (l *labels) roof(f *frame, roof Ceiling) {
	if f.y.drawable(roof.Rate) {
		y := f.y.at(roof.Rate)
		l.add(f.right-textWidth(roofName(roof)), y-17, f.right, y-3)
	}
}

func roofName(roof Ceiling) string { return roof.Name + " " + Ops(roof.Rate) }

func (l *labels) place(c *canvas, f *frame, x, y float64, name string) {
	w := textWidth(name)
	for _, at := range [][3]float64{{x + 8, y + 4, 0}, {x - 8 - w, y + 4, 0}, {x - w/2, y - 9, 0},
		{x - w/2, y + 17, 0}} {
		box := [4]float64{at[0], at[1] - 10, at[0] + w, at[1] + 3}
		if box[0] < f.left || box[2] > f.right || box[1] < f.top || box[3] > f.ground || l.hits(box) {
			continue
		}
		l.boxes = append(l.boxes, box)
		c.text("value", "start", at[0], at[1], name)
		return
	}
}

func (l *labels) hits(box [4]float64) bool {
	for _, b := range l.boxes {
		if box[0] < b[2] && b[0] < box[2] && box[1] < b[3] && b[1] < box[3] {
			return true
		}
	}
	return false
}
