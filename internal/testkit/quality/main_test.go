package main

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
)

// TestFresh: table and chart match the measurements, and so does what convert says about them.
func TestFresh(t *testing.T) {
	const docs = "../../../docs/"
	r, err := read(docs + "quality/smollm2.json")
	if err != nil {
		t.Fatal(err)
	}
	svg, doc, err := r.draw(docs + "QUALITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]byte{"quality/smollm2.svg": svg, "QUALITY.md": doc} {
		if got, err := os.ReadFile(docs + path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what the measurements give: run make quality (%v)", path, err)
		}
	}
	for _, o := range convert.Offers() {
		i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Form == o.Form })
		if i < 0 {
			t.Errorf("%s: not measured", o.Form)
			continue
		}
		row := r.Rows[i]
		if row.Bits != o.Bits || math.Abs(row.Perplexity/r.Float-1-o.Loss) > 5e-4 ||
			o.Flags != strings.Join(row.Flags, " ") {
			t.Errorf("%+v; measured was %+v", o, row)
		}
		plain, calibrated := strings.CutSuffix(o.Form, ", GPTQ")
		i = slices.IndexFunc(r.Rows, func(row Row) bool { return row.Form == plain })
		if calibrated && math.Abs(r.Rows[i].Perplexity/r.Float-1-o.Plain) > 5e-4 {
			t.Errorf("%+v; without a text, %+v was measured", o, r.Rows[i])
		}
		i = slices.IndexFunc(r.Rows, func(row Row) bool { return row.Form == o.Form+", own text" })
		if i < 0 != (o.Self == 0) || i >= 0 && math.Abs(r.Rows[i].Perplexity/r.Float-1-o.Self) > 5e-4 {
			t.Errorf("%+v; with its own text it was measured: %t", o, i >= 0)
		}
	}
}

// TestInto: a document without marks is refused, and text outside of them stays.
func TestInto(t *testing.T) {
	got, err := into([]byte("a "+begin+" old "+end+" z"), "new\n")
	if err != nil || string(got) != "a "+begin+"\nnew\n"+end+" z" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := into([]byte("a "+begin), ""); err == nil {
		t.Error("a document without an end mark passes")
	}
}
