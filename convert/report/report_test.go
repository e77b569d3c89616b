package report

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/lowpack/lowpack/pack"
)

// sample is a report of the shape of a real one: quantized and passthrough tensors, several alphabets, awkward names.
func sample() *Report {
	r := &Report{Tool: "lowpack 0.1.0", Source: "bitnet <2B>", File: "model.safetensors",
		Recipe: "--layout vnni4i --head int8"}
	for layer := range 30 {
		for i, module := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
			"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
			e := 0.45 + 0.03*math.Sin(float64(layer)/5+float64(i)) + 0.004*float64(i*i)
			m, k := 2560, 2560+i*700
			n := int64(m * k)
			zeros := int64(float64(n) * 0.42)
			r.Rows = append(r.Rows, Row{
				Tensor:   fmt.Sprintf("model.layers.%d.%s.weight", layer, module),
				Shape:    []int{m, k},
				DType:    "BF16",
				Rule:     "absmean",
				Layout:   "vnni4i",
				Alphabet: "ternary",
				Scale:    "tensor",
				Scales:   ScalesOf([]float32{float32(0.01 * (1 + float64(i)) * (1 + 0.2*math.Cos(float64(layer)/7)))}),
				Codes:    Codes(pack.Ternary, []int64{(n - zeros) / 2, zeros, n - zeros - (n-zeros)/2}),
				RelError: &e,
				BytesIn:  2 * n,
				BytesOut: n / 4,
				Seconds:  0.004,
			})
		}
		r.Rows = append(r.Rows, Row{Tensor: fmt.Sprintf("model.layers.%d.input_layernorm.weight", layer),
			Shape: []int{2560},
			DType: "BF16", Rule: "keep", BytesIn: 5120, BytesOut: 5120})
	}
	counts := make([]int64, 255)
	for i := range counts {
		counts[i] = int64(1e6 * math.Exp(-math.Pow(float64(i-127)/40, 2)))
	}
	small := 0.006
	r.Rows = append(r.Rows,
		Row{Tensor: "lm_head.weight", Shape: []int{128256, 2560}, DType: "BF16", Rule: "int8-row", Layout: "vnni4",
			Alphabet: "int8", Scale: "row",
			Scales:   ScalesOf([]float32{0.001, 0.002, 0.0005}),
			Codes:    Codes(pack.Int8, counts),
			RelError: &small,
			BytesIn:  656670720,
			BytesOut: 328335360,
			Seconds:  0.3},
		Row{Tensor: "model.embed_tokens.weight", Shape: []int{128256, 2560}, DType: "BF16", Rule: "keep",
			BytesIn:  656670720,
			BytesOut: 656670720, Seconds: 0.2},
		Row{Tensor: "weights of \"nothing\" <script>alert(1)</script>", Shape: []int{0}, DType: "F32", Rule: "keep"})
	return r
}

func TestFormatOf(t *testing.T) {
	for path, want := range map[string]Format{"a/b.arrow": Arrow, "x.parquet": Parquet, "x.y.html": HTML, "x": "",
		"html": "", "x.HTML": "", "x.csv": ""} {
		if got, err := FormatOf(path); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestPlace(t *testing.T) {
	for name, want := range map[string]string{
		"model.layers.3.mlp.up_proj.weight":     "3 mlp.up_proj",
		"model.layers.12.self_attn.q_proj.bias": "12 self_attn.q_proj.bias",
		"lm_head.weight":                        "- lm_head",
		"a.-1.b":                                "- a.-1.b",
		"7":                                     "- 7",
		"x.7":                                   "- x.7",
		"":                                      "- ",
		"h.99999999999.x":                       "- h.99999999999.x",
	} {
		layer, module := place(name)
		got := "- " + module
		if layer != nil {
			got = fmt.Sprint(*layer, " ", module)
		}
		if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// TestTables reads both tables back and compares them with the rows, and with one another.
func TestTables(t *testing.T) {
	r := sample()
	var want []record
	for i := range r.Rows {
		want = append(want, r.Rows[i].record())
	}
	var pq, ar bytes.Buffer
	if err := r.Write(&pq, Parquet); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[record](bytes.NewReader(pq.Bytes()), int64(pq.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(normal(want), normal(got)); d != "" {
		t.Errorf("Parquet: %s", d)
	}
	if err := r.Write(&ar, Arrow); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(normal(want), normal(readArrow(t, ar.Bytes(), r))); d != "" {
		t.Errorf("Arrow: %s", d)
	}
	columns := parquet.SchemaOf(record{}).Fields()
	for i, f := range r.schema().Fields() {
		if i >= len(columns) || columns[i].Name() != f.Name || columns[i].Optional() != f.Nullable {
			t.Errorf("column %d is %v in Arrow, %v in Parquet", i, f, columns[i])
		}
	}
}

// normal makes empty and missing lists equal.
func normal(rows []record) []record {
	out := append([]record(nil), rows...)
	for i := range out {
		if len(out[i].Codes) == 0 {
			out[i].Codes = nil
		}
		if len(out[i].Shape) == 0 {
			out[i].Shape = nil
		}
	}
	return out
}

func readArrow(t *testing.T, file []byte, r *Report) (rows []record) {
	t.Helper()
	f, err := ipc.NewFileReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !f.Schema().Equal(r.schema()) || !f.Schema().Metadata().Equal(r.schema().Metadata()) {
		t.Errorf("schema %v", f.Schema())
	}
	if f.NumRecords() != 1 {
		t.Fatalf("%d batches", f.NumRecords())
	}
	b, err := f.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	text := func(name string, i int) string {
		return b.Column(b.Schema().FieldIndices(name)[0]).(*array.String).Value(i)
	}
	number := func(name string, i int) int64 {
		return b.Column(b.Schema().FieldIndices(name)[0]).(*array.Int64).Value(i)
	}
	float := func(name string, i int) float64 {
		return b.Column(b.Schema().FieldIndices(name)[0]).(*array.Float64).Value(i)
	}
	list := func(name string, i int) (*array.List, int64, int64) {
		l := b.Column(b.Schema().FieldIndices(name)[0]).(*array.List)
		from, to := l.ValueOffsets(i)
		return l, from, to
	}
	for i := range int(b.NumRows()) {
		x := record{Tensor: text("tensor", i), Module: text("module", i), DType: text("dtype", i),
			Rule:      text("rule", i),
			Layout:    text("layout", i),
			Alphabet:  text("alphabet", i),
			Scale:     text("scale", i),
			Scales:    number("scale_count", i),
			ScaleMin:  float("scale_min", i),
			ScaleMax:  float("scale_max", i),
			ScaleMean: float("scale_mean", i),
			BytesIn:   number("bytes_in", i),
			BytesOut:  number("bytes_out", i),
			Seconds:   float("seconds", i)}
		if layers := b.Column(1).(*array.Int32); layers.IsValid(i) {
			n := layers.Value(i)
			x.Layer = &n
		}
		if errs := b.Column(14).(*array.Float64); errs.IsValid(i) {
			e := errs.Value(i)
			x.RelError = &e
		}
		l, from, to := list("shape", i)
		x.Shape = append(x.Shape, l.ListValues().(*array.Int64).Int64Values()[from:to]...)
		l, from, to = list("codes", i)
		codes := l.ListValues().(*array.Struct)
		for j := from; j < to; j++ {
			x.Codes = append(x.Codes, Code{codes.Field(0).(*array.Int32).Value(int(j)),
				codes.Field(1).(*array.Int64).Value(int(j))})
		}
		rows = append(rows, x)
	}
	return rows
}

// TestPage: the page is self-contained, runs no script, and shows every tensor and plot.
func TestPage(t *testing.T) {
	r := sample()
	var b bytes.Buffer
	if err := r.Write(&b, HTML); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, bad := range []string{"<script", "http:", "https:", "src=", "href=", "url(", "@import", "ZgotmplZ", "NaN"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, want := range []string{"Relative error per layer", "Size before and after", "Codes, ternary", "Codes, int8",
		"Mean scale per layer",
		"prefers-color-scheme:dark", "quantized tensors", "211 of 243", "&lt;script&gt;", "bitnet &lt;2B&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(text, "<tr><td>"); n != len(r.Rows) {
		t.Errorf("%d tensors in the table, %d in the report", n, len(r.Rows))
	}
	var again bytes.Buffer
	if err := sample().Write(&again, HTML); err != nil || again.String() != text {
		t.Errorf("two pages of one report differ (%v)", err)
	}
	if path := os.Getenv("LOWPACK_KEEP_REPORT"); path != "" { // to look at it in a browser
		if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExactAndEmpty: reports without errors, and without rows, are pages too.
func TestExactAndEmpty(t *testing.T) {
	exact := sample()
	for i := range exact.Rows {
		zero := 0.0
		exact.Rows[i].RelError = &zero
	}
	for _, r := range []*Report{exact, {}} {
		for _, f := range []Format{HTML, Arrow, Parquet} {
			var b bytes.Buffer
			if err := r.Write(&b, f); err != nil || b.Len() == 0 {
				t.Errorf("%d rows as %s: %d bytes, %v", len(r.Rows), f, b.Len(), err)
			}
			if f == HTML && (strings.Contains(b.String(), "error per layer</text>") ||
				!strings.Contains(b.String(), "taken over exactly")) {
				t.Errorf("%d rows: the page shows errors that do not exist", len(r.Rows))
			}
		}
	}
}
