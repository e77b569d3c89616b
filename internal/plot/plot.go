// Package plot draws the few kinds of charts that lowpack shows, as SVG: lines, bars, columns and rooflines.
//
// A chart is a plain struct of data. SVG writes it as a file of its own; Inline gives the same element for a page that
// carries Style once. Colours follow the reader's light or dark setting, nothing is fetched, no script runs, and equal
// data give equal bytes. Every mark has a title that a browser shows under the pointer.
package plot

import (
	"fmt"
	"html/template"
	"io"
	"math"
)

// Chart is one of Lines, Bars, Columns and Roofline.
type Chart interface {
	// draw puts the chart on c, Width wide from y = 0, and returns its height.
	draw(c *canvas) float64
	// summary is what a reader who cannot see the chart is told.
	summary() string
}

// Width of every chart in user units; the height follows from the content.
const Width = 640

// SVG writes the chart as a complete file.
func SVG(w io.Writer, chart Chart) error {
	if _, err := io.WriteString(w, element(chart, ` xmlns="http://www.w3.org/2000/svg"`, "<style>"+Style+"</style>")); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// Inline returns the chart as an element of an HTML page whose style sheet contains Style.
func Inline(chart Chart) template.HTML { return template.HTML(element(chart, "", "")) }

func element(chart Chart, attributes, style string) string {
	var c canvas
	height := chart.draw(&c)
	return fmt.Sprintf(`<svg%s class="plot" viewBox="0 0 %d %s" role="img" aria-label="%s">%s<rect class="ground" width="%d" height="%s"/>%s</svg>`,
		attributes, Width, num(height), escape(chart.summary()), style, Width, num(height), c.b.String())
}

// Style is the style sheet of all charts. Series colours are told apart by readers with any of the common kinds of
// colour blindness, on both grounds.
const Style = `.plot{--ground:#fcfcfb;--ink:#0b0b0b;--soft:#52514e;--grid:#e4e3df;--axis:#a8a79f;` +
	`--s0:#2a78d6;--s1:#e34948;--s2:#1baf7a;--s3:#eda100;--s4:#4a3aa7;--s5:#e87ba4;--s6:#008300;--s7:#eb6834;` +
	`font:12px system-ui,-apple-system,"Segoe UI",sans-serif;display:block;width:100%;max-width:960px;height:auto}` +
	`@media(prefers-color-scheme:dark){.plot{--ground:#1a1a19;--ink:#fff;--soft:#c3c2b7;--grid:#33332f;--axis:#77766f;` +
	`--s0:#3987e5;--s1:#e66767;--s2:#199e70;--s3:#c98500;--s4:#9085e9;--s5:#d55181;--s6:#3fa33f;--s7:#d95926}}` +
	`.plot .ground{fill:var(--ground)}.plot text{fill:var(--soft)}.plot .title{fill:var(--ink);font-size:15px;font-weight:600}` +
	`.plot .value{fill:var(--ink)}.plot .grid{stroke:var(--grid)}.plot .axis{stroke:var(--axis)}` +
	`.plot .line{fill:none;stroke-width:2;stroke-linejoin:round}.plot .dot{stroke:var(--ground);stroke-width:1.5}.plot .mark{stroke:none}.plot .roof{stroke:var(--soft);stroke-width:1.5;fill:none}` +
	`.plot .f0{fill:var(--s0)}.plot .f1{fill:var(--s1)}.plot .f2{fill:var(--s2)}.plot .f3{fill:var(--s3)}.plot .f4{fill:var(--s4)}.plot .f5{fill:var(--s5)}.plot .f6{fill:var(--s6)}.plot .f7{fill:var(--s7)}` +
	`.plot .l0{stroke:var(--s0)}.plot .l1{stroke:var(--s1)}.plot .l2{stroke:var(--s2)}.plot .l3{stroke:var(--s3)}.plot .l4{stroke:var(--s4)}.plot .l5{stroke:var(--s5)}.plot .l6{stroke:var(--s6)}.plot .l7{stroke:var(--s7)}`

// Colours is the number of series that have a colour of their own.
const Colours = 8

// Point is one mark. Label, when given, replaces the numbers that a browser shows under the pointer.
type Point struct {
	X, Y  float64
	Label string
}

// Series is a named list of points, drawn in the order given.
type Series struct {
	Name   string
	Points []Point
}

func finite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
