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
	// summary describes the chart to a reader who cannot see it.
	summary() string
}

// Width of every chart in user units; the height follows from the content.
const Width = 640

// SVG writes the chart as a complete file.
func SVG(w io.Writer, chart Chart) error {
	svg := element(chart, ` xmlns="http://www.w3.org/2000/svg"`, "<style>"+Style+"</style>")
	if _, err := io.WriteString(w, svg); err != nil {
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
	return fmt.Sprintf(`<svg%s class="plot" viewBox="0 0 %d %s" role="img" aria-label="%s">%s`+
		`<rect class="ground" width="%d" height="%s"/>%s</svg>`,
		attributes, Width, num(height), escape(chart.summary()), style, Width, num(height), c.b.String())
}

// Style is the style sheet of all charts. It does without custom properties, which programs other than browsers do not
// know: they would draw everything black.
var Style = `.plot{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;` +
	`display:block;width:100%;max-width:960px;height:auto}` +
	`.plot .title{font-size:15px;font-weight:600}.plot .line{fill:none;stroke-width:2;stroke-linejoin:round}` +
	`.plot .dot{stroke-width:1.5}.plot .mark{stroke:none}.plot .roof{stroke-width:1.5;fill:none}` +
	light.rules() + `@media(prefers-color-scheme:dark){` + dark.rules() + `}`

// palette is the colours of a chart on one kind of ground.
type palette struct {
	ground, ink, soft, grid, axis string
	series                        [Colours]string
}

// Series colours are told apart by readers with any of the common kinds of colour blindness, on both grounds.
var (
	light = palette{"#fcfcfb", "#0b0b0b", "#52514e", "#e4e3df", "#a8a79f",
		[Colours]string{"#2a78d6", "#e34948", "#1baf7a", "#eda100", "#4a3aa7", "#e87ba4", "#008300", "#eb6834"}}
	dark = palette{"#1a1a19", "#fff", "#c3c2b7", "#33332f", "#77766f",
		[Colours]string{"#3987e5", "#e66767", "#199e70", "#c98500", "#9085e9", "#d55181", "#3fa33f", "#d95926"}}
)

// rules that colour a chart.
func (p *palette) rules() string {
	s := `.plot .ground{fill:` + p.ground + `}.plot text{fill:` + p.soft + `}` +
		`.plot .title,.plot .value{fill:` + p.ink + `}` +
		`.plot .grid{stroke:` + p.grid + `}.plot .axis{stroke:` + p.axis + `}` +
		`.plot .dot{stroke:` + p.ground + `}.plot .roof{stroke:` + p.soft + `}`
	for i, c := range p.series {
		s += fmt.Sprintf(`.plot .f%d{fill:%s}.plot .l%d{stroke:%s}`, i, c, i, c)
	}
	return s
}

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
