package explain

import (
	"fmt"
	"html"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

// The picture is a slide of 1280 by 720: on the left a small matrix, on the right its first bytes in memory. A weight
// has the same colour in both: a hue per byte, a shade per place in the byte.
const (
	svgWidth, svgHeight = 1280, 720
	svgBytes            = 8
	svgRows             = 32 // of the matrix, more where the first bytes hold weights beyond
	svgColumns          = 32

	gridX, gridY          = 72, 150
	gridWidth, gridHeight = 500, 510
	sideX, sideWidth      = 640, 592
)

// hues are told apart by colour-blind eyes too (after Okabe and Ito).
var hues = [svgBytes]string{"#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A900", "#7B5AA6"}

// SVG draws the layout.
func (l *Layout) SVG() (string, error) {
	e, err := l.example(svgBytes)
	if err != nil {
		return "", err
	}
	d := &drawing{}
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif">`,
		svgWidth, svgHeight, svgWidth, svgHeight)
	d.printf(`<rect width="%d" height="%d" fill="#ffffff"/>`, svgWidth, svgHeight)
	d.text(40, 62, 34, "#1a1a1a", "bold", l.Name)
	d.text(40, 94, 17, "#555555", "", l.Summary)
	if err := d.grid(e); err != nil {
		return "", err
	}
	y := d.memory(l, e)
	d.facts(l, y+34)
	d.printf(`</svg>`)
	return d.String(), nil
}

// drawing collects SVG elements, one per line.
type drawing struct{ strings.Builder }

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

func (d *drawing) text(x, y, size float64, fill, weight, s string) {
	if weight != "" {
		weight = ` font-weight="` + weight + `"`
	}
	d.printf(`<text x="%s" y="%s" font-size="%s" fill="%s"%s>%s</text>`, number(x), number(y), number(size),
		fill, weight,
		html.EscapeString(s))
}

type rect struct{ x, y, w, h float64 }

// centred writes s in the middle of a box, if it fits.
func (d *drawing) centred(b rect, size float64, fill, s string) {
	size = min(size, b.w*1.55/float64(utf8.RuneCountInString(s)), b.h*0.8)
	if size < 6 {
		return
	}
	d.printf(`<text x="%s" y="%s" font-size="%s" fill="%s" text-anchor="middle">%s</text>`,
		number(b.x+b.w/2), number(b.y+b.h/2+size*0.35), number(size), fill, html.EscapeString(s))
}

func (d *drawing) box(x, y, w, h float64, fill string) {
	d.printf(`<rect x="%s" y="%s" width="%s" height="%s" fill="%s" stroke="#ffffff" stroke-width="%s"/>`,
		number(x), number(y), number(w), number(h), fill, number(min(1, w/8, h/8)))
}

// window is the corner of the matrix that is drawn.
func (e *example) window() (rows, columns int) {
	rows, columns = min(e.shape.M, svgRows), min(e.shape.K, svgColumns)
	for _, slots := range e.bytes {
		for _, s := range slots {
			rows, columns = max(rows, up32(s.m+1)), max(columns, up32(s.k+1))
		}
	}
	return min(rows, e.shape.M), min(columns, e.shape.K)
}

func up32(n int) int { return (n + 31) / 32 * 32 }

// grid draws the matrix: weights of the first bytes in colour, other weights with the number of their byte.
func (d *drawing) grid(e *example) error {
	rows, columns := e.window()
	w := min(float64(gridWidth)/float64(columns), 44)
	h := min(float64(gridHeight)/float64(rows), 44)
	title := fmt.Sprintf("Weights: %s, %s%s", count(rows, "row"), count(columns, "column"),
		partOf(e.shape, rows, columns))
	d.text(gridX, gridY-26, 15, "#333333", "bold", title)
	d.axes(rows, columns, w, h)
	fills := map[pack.Shape]string{} // by row and column
	for i, slots := range e.bytes {
		for j, s := range slots {
			if key := (pack.Shape{M: s.m, K: s.k}); fills[key] == "" {
				fills[key] = shade(hues[i], j, len(slots))
			}
		}
	}
	for m := range rows {
		for k := range columns {
			x, y := gridX+float64(k)*w, gridY+float64(m)*h
			if fill := fills[pack.Shape{M: m, K: k}]; fill != "" {
				d.box(x, y, w, h, fill)
				d.centred(rect{x, y, w, h}, 12, ink(fill), fmt.Sprintf("%d,%d", m, k))
				continue
			}
			places, err := e.addressed.Places(e.shape, m, k)
			if err != nil {
				return err
			}
			d.centred(rect{x, y, w, h}, 10, "#a8a8a8", fmt.Sprint(places[0].Byte))
		}
	}
	d.text(gridX, gridY+float64(rows)*h+22, 12, "#777777", "",
		"Coloured: the weights in the first bytes. Grey numbers: the byte that holds a weight.")
	return nil
}

// axes draws an empty grid and its labels.
func (d *drawing) axes(rows, columns int, w, h float64) {
	right, bottom := gridX+float64(columns)*w, gridY+float64(rows)*h
	d.printf(`<rect x="%d" y="%d" width="%s" height="%s" fill="#f0f0f0"/>`,
		gridX, gridY, number(right-gridX), number(bottom-gridY))
	var lines strings.Builder
	for k := 1; k < columns; k++ {
		fmt.Fprintf(&lines, "M%s %dV%s", number(gridX+float64(k)*w), gridY, number(bottom))
	}
	for m := 1; m < rows; m++ {
		fmt.Fprintf(&lines, "M%d %sH%s", gridX, number(gridY+float64(m)*h), number(right))
	}
	d.printf(`<path d="%s" stroke="#ffffff" stroke-width="%s"/>`, lines.String(), number(min(1, w/8, h/8)))
	for k := 0; k < columns; k += labelStep(w, 26) {
		d.printf(`<text x="%s" y="%d" font-size="11" fill="#777777" text-anchor="middle">%d</text>`,
			number(gridX+(float64(k)+0.5)*w), gridY-7, k)
	}
	for m := 0; m < rows; m += labelStep(h, 13) {
		d.printf(`<text x="%d" y="%s" font-size="11" fill="#777777" text-anchor="end">%d</text>`, gridX-8,
			number(gridY+(float64(m)+0.5)*h+4), m)
	}
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func partOf(s pack.Shape, rows, columns int) string {
	if s.M == rows && s.K == columns {
		return ""
	}
	return fmt.Sprintf(" of a matrix %v", s)
}

// labelStep is the smallest of 1, 2, 4, 8 … cells that takes at least the given number of pixels.
func labelStep(cell, pixels float64) int {
	step := 1
	for cell*float64(step) < pixels {
		step *= 2
	}
	return step
}

// memory draws the first bytes, bit 7 on the left, and returns where it ends.
func (d *drawing) memory(l *Layout, e *example) float64 {
	const labelWidth, height = 62, 29
	d.text(sideX, gridY-26, 15, "#333333", "bold", "Bytes in memory: row,column of each digit")
	binary := len(e.bytes[svgBytes-1]) > 0 && len(e.bytes[svgBytes-1])*e.bytes[svgBytes-1][0].place.Bits <= 8
	if binary {
		for bit := range 8 {
			d.printf(`<text x="%s" y="%d" font-size="11" fill="#777777" text-anchor="middle">bit %d</text>`,
				number(sideX+labelWidth+(float64(bit)+0.5)*(sideWidth-labelWidth)/8), gridY-7, 7-bit)
		}
	}
	for i, slots := range e.bytes {
		y := float64(gridY + i*height)
		d.text(sideX, y+19, 13, "#333333", "", fmt.Sprintf("byte %d", i))
		if len(slots) == 0 {
			d.box(sideX+labelWidth, y, sideWidth-labelWidth, height-2, "#d9d9d9")
			d.centred(rect{sideX + labelWidth, y, sideWidth - labelWidth, height - 2}, 13, "#444444",
				"scale of the block")
		}
		w := float64(sideWidth-labelWidth) / float64(max(len(slots), 1))
		for j, s := range slots {
			fill := shade(hues[i], j, len(slots))
			d.box(sideX+labelWidth+float64(j)*w, y, w, height-2, fill)
			d.centred(rect{sideX + labelWidth + float64(j)*w, y, w, height - 2}, 13, ink(fill), s.label())
		}
	}
	return gridY + svgBytes*height
}

// facts writes formula, code table and sizes below the bytes.
func (d *drawing) facts(l *Layout, y float64) {
	line := func(size float64, fill, weight, s string) {
		d.text(sideX, y, size, fill, weight, s)
		y += size * 1.5
	}
	line(15, "#333333", "bold", "Where weight (m, k) lies")
	d.printf(`<g font-family="'JetBrains Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace">`)
	for size := 13.0; ; size-- {
		lines := compact(clauses(l.info), int(sideWidth/(size*0.605)))
		if y+float64(len(lines))*size*1.5 > svgHeight-130 && size > 8 {
			continue
		}
		for _, s := range lines {
			line(size, "#222222", "", s)
		}
		break
	}
	d.printf(`</g>`)
	y += 12
	d.code(l, &y)
	line(13, "#555555", "", fmt.Sprintf("%s bits per weight · %s", number(l.Alphabets[0].Bits), l.Source))
}

// compact writes clauses as paragraphs of at most width characters a line.
func compact(clauses []clause, width int) []string {
	var lines []string
	for _, c := range clauses {
		text := strings.Join(c.lines, "; ")
		if c.heading != "" {
			text = c.heading + ": " + text
		}
		if text == "" {
			continue
		}
		for i, part := range strings.Split(strings.TrimSpace(wrap(text, width-2)), "\n") {
			if i > 0 {
				part = "\u00a0\u00a0" + part
			}
			lines = append(lines, part)
		}
	}
	return lines
}

// code draws the code table of the default alphabet.
func (d *drawing) code(l *Layout, y *float64) {
	a := l.Alphabets[0]
	d.text(sideX, *y, 15, "#333333", "bold", "Code table: digit → weight ("+a.Name+")")
	*y += 12
	x := float64(sideX)
	for _, entry := range a.entries(" → ") {
		entry = strings.ReplaceAll(entry, glue, " ")
		w := 12 + 7.2*float64(utf8.RuneCountInString(entry))
		if x+w > sideX+sideWidth {
			x, *y = sideX, *y+28
		}
		d.printf(`<rect x="%s" y="%s" width="%s" height="24" rx="4" fill="#f2f2f2"/>`, number(x), number(*y), number(w))
		d.centred(rect{x, *y, w, 24}, 13, "#222222", entry)
		x += w + 8
	}
	*y += 48
}

// shade is the hue for the first of n places and lighter for each further one.
func shade(hue string, i, n int) string {
	r, g, b := rgb(hue)
	mix := 0.0
	if n > 1 {
		mix = 0.62 * float64(i) / float64(n-1)
	}
	lighter := func(c float64) int { return int(math.Round(c + (255-c)*mix)) }
	return fmt.Sprintf("#%02X%02X%02X", lighter(r), lighter(g), lighter(b))
}

// ink is what can be read on a fill.
func ink(fill string) string {
	r, g, b := rgb(fill)
	if 0.299*r+0.587*g+0.114*b > 140 {
		return "#111111"
	}
	return "#ffffff"
}

func rgb(colour string) (r, g, b float64) {
	var v [3]int
	fmt.Sscanf(colour, "#%02x%02x%02x", &v[0], &v[1], &v[2])
	return float64(v[0]), float64(v[1]), float64(v[2])
}
