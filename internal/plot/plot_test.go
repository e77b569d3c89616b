package plot

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
)

// samples has one chart of each kind, with the awkward values that real data bring.
func samples() map[string]Chart {
	var long []Point
	for i := 0; i < 500; i++ {
		long = append(long, Point{X: float64(i), Y: 1e-3 * (1.2 + math.Sin(float64(i)/9))})
	}
	return map[string]Chart{
		"lines": &Lines{Title: "Relative error per layer", Note: "‖W − Ŵ‖ / ‖W‖",
			X: Axis{Label: "layer", Integer: true},
			Y: Axis{Label: "error", Format: Percent, Zero: true},
			Series: []Series{{"q_proj", []Point{{0, 0.41, ""}, {1, 0.44, ""}, {2, math.NaN(), ""}, {3, 0.46, ""}}},
				{"down <&> \"proj\"", []Point{{0, 0.2, "first"}, {3, 0.3, ""}}}}},
		"log": &Lines{Title: "KL per position", X: Axis{Label: "position"}, Y: Axis{Label: "KL", Log: true},
			Series: []Series{{"", append(long, Point{500, 0, ""})}}},
		"bars": &Bars{Title: "Size", Value: Axis{Label: "size of all tensors of a kind", Format: Bytes},
			Groups: []string{"mlp.down_proj", "a very long name of a tensor that nobody can fit into a chart.weight"},
			Series: []BarSeries{{"before", []float64{2.2e9, 1.1e6}}, {"after", []float64{3e8, math.Inf(1)}}}},
		"codes": &Columns{Title: "Codes", X: Axis{Label: "code"}, Y: Axis{Label: "share", Format: Percent},
			Points: []Point{{-1, 0.29, ""}, {0, 0.42, ""}, {1, 0.29, ""}}},
		"roof": &Roofline{Title: "Kernels", Bandwidth: []Ceiling{{"memory", 41e9}, {"L2", 2.2e11}},
			Compute: []Ceiling{{"int8 multiply–add", 1.07e12}},
			Series: []Series{{"1 token", []Point{{8, 3.1e11, "vnni4i"}, {8.1, 3.0e11, "vnni4i-64"},
				{10, 2.8e11, "i1"}}},
				{"32 tokens", []Point{{256, 1.02e12, "vnni4i"}}}}},
	}
}

// TestIsXML holds every chart to well-formed XML without anything fetched from outside.
func TestIsXML(t *testing.T) {
	for name, chart := range samples() {
		var b bytes.Buffer
		if err := SVG(&b, chart); err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for _, bad := range []string{"NaN", "Inf", "href", "url(", "<script", "var("} {
			if strings.Contains(b.String(), bad) {
				t.Errorf("%s contains %q", name, bad)
			}
		}
	}
}

func TestSameDataSameBytes(t *testing.T) {
	again := samples()
	for name, chart := range samples() {
		if Inline(chart) != Inline(again[name]) {
			t.Errorf("%s differs between two drawings", name)
		}
	}
}

func TestHostileNamesAreText(t *testing.T) {
	got := string(Inline(&Bars{Title: "a\x00\xff</text><script>alert('x')</script>", Groups: []string{`"><img src=x>`},
		Series: []BarSeries{{Values: []float64{1}}}}))
	for _, bad := range []string{"<script", "<img", "\x00", `""`} {
		if strings.Contains(got, bad) {
			t.Errorf("%q came through: %s", bad, got)
		}
	}
}

func TestNoData(t *testing.T) {
	for _, chart := range []Chart{&Lines{}, &Bars{}, &Columns{}, &Roofline{},
		&Columns{Points: []Point{{0, math.NaN(), ""}}},
		&Lines{Y: Axis{Log: true}, Series: []Series{{"", []Point{{1, 0, ""}, {2, -1, ""}}}}}} {
		if got := string(Inline(chart)); !strings.Contains(got, "no data") {
			t.Errorf("%T: %s", chart, got)
		}
	}
}

// TestMarksStayInside places points of every magnitude and checks that each mark lies inside the frame.
func TestMarksStayInside(t *testing.T) {
	for _, log := range []bool{false, true} {
		for _, hi := range []float64{1e-30, 1e-3, 0.99, 1, 7, 10, 12345, 1e12, 1e30} {
			for _, lo := range []float64{hi, hi / 3, hi / 1e6} {
				a := &Axis{Log: log}
				s, ok := newScale(a, []float64{lo, hi}, 100, 500, 5)
				if !ok {
					t.Fatalf("no scale for %g..%g", lo, hi)
				}
				for _, v := range []float64{lo, hi} {
					if x := s.at(v); !(x >= 99.99 && x <= 500.01) {
						t.Errorf("log %v: %g of %g..%g lies at %g", log, v, lo, hi, x)
					}
				}
				if len(s.ticks) < 2 || len(s.ticks) > 14 {
					t.Errorf("log %v: %d ticks for %g..%g", log, len(s.ticks), lo, hi)
				}
			}
		}
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Short(0), "0"}, {Short(0.5), "0.5"}, {Short(1234), "1234"}, {Short(12345), "12.3k"}, {Short(1.07e12), "1.07T"},
		{Short(1e-7), "1e-07"}, {Short(250e9), "250G"},
		{Bytes(64), "64 B"}, {Bytes(4.8e9), "4.8 GB"}, {Bytes(1500), "1.5 kB"}, {Percent(0.422), "42.2%"},
		{Percent(1), "100%"}, {Percent(0), "0%"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

// TestNoMarkIsHidden: of marks at one place, of one series or several, each is larger than those on top of it.
func TestNoMarkIsHidden(t *testing.T) {
	chart := &Lines{Series: []Series{{"a", []Point{{1, 1, ""}, {2, 2, ""}}},
		{"b", []Point{{1, 1.001, ""}, {3, 2, ""}, {3, 2, ""}}}, {"c", []Point{{1, 1, ""}}}}}
	var radii []string
	for rest := string(Inline(chart)); ; {
		_, after, ok := strings.Cut(rest, ` r="`)
		if !ok {
			break
		}
		r, tail, _ := strings.Cut(after, `"`)
		radii, rest = append(radii, r), tail
	}
	if got := strings.Join(radii, " "); got != "8.5 3.5 6 6 3.5 3.5" {
		t.Errorf("radii %s", got)
	}
}
