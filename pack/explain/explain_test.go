package explain

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestPagesAreFresh compares the documentation with what the definitions say now.
func TestPagesAreFresh(t *testing.T) {
	pages, err := Pages()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join("../../docs", filepath.FromSlash(name)))
		if err != nil || string(got) != want {
			t.Errorf("docs/%s is stale (%v): run `go generate ./pack`", name, err)
		}
	}
}

// TestAll checks facts that a reader of the table would check.
func TestAll(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(pack.Layouts()) {
		t.Fatalf("%d layouts explained, there are %d", len(all), len(pack.Layouts()))
	}
	want := map[string][3]string{ // bits per weight, shape, parameters
		"vnni4i":  {"1, 2, 4", "M to 32, K to 4", ""},
		"vnni4p":  {"3, 5, 6", "M to 32, K to 4", ""},
		"vnni4t":  {"1.6", "M to 80, K to 4", ""},
		"vnni4":   {"1, 8", "M to 32, K to 4", ""},
		"blocked": {"1, 2, 4, 8", "M to 32, K to 64", "bm=32 bk=64"},
		"i1":      {"1.6", "K to 4", ""},
		"i2-t8":   {"2", "K to 32", ""},
		"i2s":     {"2", "any", ""},
		"tl1":     {"2", "M to 128, K to 64", "BM=128 BK=64 bm=32"},
		"tl2":     {"1.6778", "M to 256, K to 32", "BM=256 BK=96"},
		"w2a8":    {"2", "M to 16, K to 32", ""},
		"tmac4":   {"4", "M to 32, K to 64", "bm=128 kf=16"},
		"hf-u8":   {"2", "M to 4", ""},
		"tq1_0":   {"1.6875", "K % 256 = 0", ""},
		"mxfp4":   {"4.25", "K % 32 = 0", ""},
	}
	for _, l := range all {
		w, ok := want[l.Name]
		if got := [3]string{l.BitsPerWeight(), l.Shape(), l.ParamsText()}; ok && got != w {
			t.Errorf("%s: %q, want %q", l.Name, got, w)
		}
		delete(want, l.Name)
	}
	if len(want) > 0 {
		t.Errorf("layouts not explained: %v", want)
	}
}

func TestText(t *testing.T) {
	for name, lines := range map[string][]string{
		"vnni4i": {
			"  byte m/bm*L*K + k/4*4*L + m%L*4 + k%4, from bit bits*(m%bm/L)",
			"  ternary  0 → 0, 1 → 1, 2 → −1",
			"  m1   4.0   5.0   6.0   7.0  36.0",
			"  byte 5  25,1  17,1  9,1  1,1",
		},
		"vnni4p": {
			"    byte four + 16*low + m%L*4 + k%4, from bit high*(m%32/L)",
			"  m1   4.0, 68.0   5.0, 69.0",
			"  byte 5  17,1  1,1",
		},
		"vnni4t": {
			"  byte 7  81·(1,3)  27·(17,3)  9·(33,3)  3·(49,3)  65,3",
		},
		"tl2": {
			"  m2  2.4×9, 12293.7",
		},
		"q4_0": {
			"  byte 0  scale\n",
			"  byte 2   0,16  0,0",
		},
	} {
		l, err := Of(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := l.Text()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line) {
				t.Errorf("%s: the page lacks %q:\n%s", name, line, text)
			}
		}
	}
}

// TestSVG draws every layout: well-formed, complete, and inside the slide.
func TestSVG(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		svg, err := l.SVG()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(svg, ">"+l.Name+"</text>") || !strings.Contains(svg, ">byte 7</text>") {
			t.Errorf("%s: name or bytes are missing", l.Name)
		}
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			token, err := decoder.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", l.Name, err)
			}
			if e, ok := token.(xml.StartElement); ok {
				checkInside(t, l.Name, e)
			}
		}
	}
}

func checkInside(t *testing.T, name string, e xml.StartElement) {
	t.Helper()
	for _, a := range e.Attr {
		limit := map[string]float64{"x": svgWidth, "y": svgHeight - 8}[a.Name.Local]
		if limit == 0 {
			continue
		}
		var v float64
		if err := xml.Unmarshal([]byte("<v>"+a.Value+"</v>"), &v); err != nil || v < 0 || v > limit {
			t.Errorf("%s: <%s %s=%q> lies outside of the slide (%v)", name, e.Name.Local, a.Name.Local, a.Value, err)
		}
	}
}

func TestUnknown(t *testing.T) {
	if _, err := Of("vnni5"); err == nil || !strings.Contains(err.Error(), "vnni4i") {
		t.Errorf("an unknown layout: %v", err)
	}
}
