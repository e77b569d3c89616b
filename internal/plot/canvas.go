package plot

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// canvas collects the elements of one chart.
type canvas struct{ b strings.Builder }

// Heights in user units.
const (
	lineHeight  = 18.0
	titleHeight = 26.0
	margin      = 12.0
)

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, num(x1), num(y1), num(x2), num(y2))
}

// text places s; anchor is start, middle or end.
func (c *canvas) text(class, anchor string, x, y float64, s string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(&c.b, `<text%s text-anchor="%s" x="%s" y="%s">%s</text>`, class, anchor, num(x), num(y), escape(s))
}

// vertical places s reading upwards, centred at x, y.
func (c *canvas) vertical(x, y float64, s string) {
	fmt.Fprintf(&c.b, `<text text-anchor="middle" transform="translate(%s %s) rotate(-90)">%s</text>`,
		num(x), num(y), escape(s))
}

func (c *canvas) dot(class string, x, y, r float64, title string) {
	fmt.Fprintf(&c.b, `<circle class="%s" cx="%s" cy="%s" r="%s"><title>%s</title></circle>`,
		class, num(x), num(y), num(r), escape(title))
}

func (c *canvas) rect(class string, x, y, w, h float64, title string) {
	fmt.Fprintf(&c.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`,
		class, num(x), num(y), num(w), num(h), escape(title))
}

// path draws a polyline through xy pairs.
func (c *canvas) path(class string, xy []float64) {
	fmt.Fprintf(&c.b, `<path class="line %s" d="`, class)
	for i := 0; i < len(xy); i += 2 {
		c.b.WriteByte("LM"[b2i(i == 0)])
		c.b.WriteString(num(xy[i]) + " " + num(xy[i+1]))
	}
	c.b.WriteString(`"/>`)
}

// head writes title, note and legend, and returns where the drawing below may start.
func (c *canvas) head(title, note string, names []string) float64 {
	y := margin
	if title != "" {
		c.text("title", "start", margin, y+14, title)
		y += titleHeight
	}
	if note != "" {
		c.text("", "start", margin, y+10, note)
		y += lineHeight
	}
	if len(names) < 2 {
		return y + 4
	}
	x := margin
	for i, name := range names {
		w := 18 + textWidth(name) + 14
		if x+w > Width-margin && x > margin {
			x, y = margin, y+lineHeight
		}
		fmt.Fprintf(&c.b, `<rect class="f%d" x="%s" y="%s" width="10" height="10" rx="2"/>`, i%Colours,
			num(x), num(y+2))
		c.text("", "start", x+15, y+11, name)
		x += w
	}
	return y + lineHeight + 6
}

// empty says that there is nothing to draw.
func (c *canvas) empty(y float64) float64 {
	c.text("", "start", margin, y+lineHeight, "no data")
	return y + 2*lineHeight
}

// textWidth is an upper estimate for the 12-unit font.
func textWidth(s string) float64 { return 6.6 * float64(utf8.RuneCountInString(s)) }

// clip shortens s to fit width, keeping its end, which tells tensor names apart.
func clip(s string, width float64) string {
	r := []rune(s)
	if n := int(width / 6.6); len(r) > n && n > 1 {
		return "…" + string(r[len(r)-n+1:])
	}
	return s
}

// num prints a coordinate: two decimals are finer than any screen.
func num(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// escape makes s safe as text and as an attribute value. Control characters, which XML forbids, become U+FFFD.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xFFFE || r == 0xFFFF {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	return html.EscapeString(s)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
