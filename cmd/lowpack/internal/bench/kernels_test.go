package bench

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/plot"
	"github.com/lowpack/lowpack/pack"
)

func quickKernels() KernelOptions {
	return KernelOptions{Meter: quick(), Layouts: []string{"vnni4i"}, Shapes: []pack.Shape{{M: 96, K: 320}},
		Tokens: []int{1, 5, 33}, Threads: []int{1, 2}}
}

func TestKernels(t *testing.T) {
	r, err := Kernels(context.Background(), quickKernels())
	if err != nil {
		t.Fatal(err)
	}
	kernels := map[string]int{}
	chosen := 0
	for _, row := range r.Rows {
		kernels[row.Kernel+" "+row.Alphabet]++
		if row.GBs <= 0 || row.GOPS <= 0 || row.Fraction.Median <= 0 || row.Bytes <= 0 || row.Turns < fewestTurns ||
			!row.result() {
			t.Errorf("%+v", row)
		}
		if row.Chosen && row.Alphabet == "ternary" {
			chosen++
		}
	}
	for name, n := range kernels {
		if n != 6 {
			t.Errorf("%s: %d rows; 3 numbers of tokens × 2 of threads are 6", name, n)
		}
	}
	if kernels["*/generic ternary"] == 0 || chosen != 6 {
		t.Errorf("kernels %v; %d rows of the chosen one", kernels, chosen)
	}
	var svg strings.Builder
	if err := plot.SVG(&svg, r.Plot()); err != nil || !strings.Contains(svg.String(), "2 threads") {
		t.Errorf("%v: %.300s", err, svg.String())
	}
}

// TestEveryKernelByDefault measures the defaults of the command line, on a small matrix.
func TestEveryKernelByDefault(t *testing.T) {
	o := quickKernels()
	o.Layouts, o.Tokens, o.Threads = nil, []int{2}, []int{1}
	r, err := Kernels(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]bool{}
	for _, row := range r.Rows {
		if row.Refused == "" {
			measured[row.Kernel] = true
		}
	}
	for _, k := range kernel.Kernels() {
		if kernel.Have(k.ISA) && !measured[k.String()] {
			t.Errorf("kernel %v was not measured", k)
		}
	}
}

// TestGroupsOfScales: scaled results are compared, and bytes of scales counted.
func TestGroupsOfScales(t *testing.T) {
	o := quickKernels()
	o.Group = 48
	r, err := Kernels(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Group != 48 || row.Refused == "" && (!row.result() || row.Bytes < 4*row.M*7) {
			t.Errorf("%+v", row)
		}
	}
}

// TestGroupsAreMeasured: of the kernels with one name that one is measured that sums groups.
func TestGroupsAreMeasured(t *testing.T) {
	o := quickKernels()
	o.Group = 64
	r, err := Kernels(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		spec := pack.Spec{Name: row.Layout, Alphabet: row.Alphabet}
		sums := slices.ContainsFunc(kernel.For(spec),
			func(k *kernel.Kernel) bool { return k.String() == row.Kernel && k.SumsGroups(o.Group) })
		if sums == (row.Refused != "") {
			t.Errorf("kernel %s, alphabet %s: sums groups %v, refused: %q", row.Kernel, row.Alphabet, sums, row.Refused)
		}
	}
}

// broken is a product that is wrong at one position.
type broken struct {
	product
	row, token int
}

func (b broken) Mul(y []int32, ldy int, x *kernel.Activations, p0, p1 int) {
	b.product.Mul(y, ldy, x, p0, p1)
	if p1 == b.Panels() && x.N > b.token {
		y[b.token*ldy+b.row]++
	}
}

// TestWrongKernel puts a wrong kernel among good ones, wrong in the last row of one token and in one copy only.
func TestWrongKernel(t *testing.T) {
	o := quickKernels()
	bound := 0
	r, err := runKernels(context.Background(), o, func(k *kernel.Kernel, m *matrix, packed []byte) (product, error) {
		p, err := bindKernel(k, m, packed)
		if err == nil && k.ISA == kernel.Generic {
			if bound++; bound == 3 {
				p = broken{p, m.shape.M - 1, 4}
			}
		}
		return p, err
	})
	if !errors.Is(err, ErrWrong) || !strings.Contains(err.Error(), "*/generic") ||
		!strings.Contains(err.Error(), "row 95, token 4") {
		t.Fatalf("error %v", err)
	}
	for _, row := range r.Rows {
		wrong := row.ISA == kernel.Generic && row.Alphabet == "ternary" && row.Tokens > 4
		if wrong != (row.Wrong != "") {
			t.Errorf("%s, %d tokens: %q", row.Kernel, row.Tokens, row.Wrong)
		}
		if wrong && row.Turns != 0 {
			t.Errorf("a wrong kernel has figures: %+v", row.Figures)
		}
	}
}

// TestReference compares the reference with three loops over codes and activations.
func TestReference(t *testing.T) {
	s := pack.Shape{M: 70, K: 45}
	m, err := packRandom(pack.Spec{Name: "i2"}, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	pool := kernel.NewPool(2)
	defer pool.Close()
	var all references
	ref, err := all.of(context.Background(), pool, m, 3)
	if err != nil {
		t.Fatal(err)
	}
	codes, x := randomCodes(s, pack.Ternary).Codes, randomActivations(3, s.K)
	for i, got := range ref.y {
		want := int32(0)
		for k, v := range x.Row(i / s.M) {
			want += int32(codes[i%s.M*s.K+k]) * int32(v)
		}
		if got != want {
			t.Fatalf("row %d, token %d: %d instead of %d", i%s.M, i/s.M, got, want)
		}
	}
	if again, err := all.of(context.Background(), pool, m, 3); err != nil || again != ref {
		t.Errorf("the reference is computed anew: %v", err)
	}
	if ref.compare(ref.y[:s.M]) != "" {
		t.Error("the product with one token is not the beginning of the product with three")
	}
}

func TestNoiseIsMarked(t *testing.T) {
	unsteady(t)
	o := quickKernels()
	o.Layouts, o.ISAs, o.Tokens, o.Threads = nil, []kernel.ISA{kernel.Generic}, []int{1}, []int{1}
	r, err := Kernels(context.Background(), o)
	if !errors.Is(err, ErrNoise) || r == nil || !r.Rows[0].Noise {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestKernelsRefuses(t *testing.T) {
	for name, change := range map[string]func(*KernelOptions){
		"layout":  func(o *KernelOptions) { o.Layouts = []string{"vnni5"} },
		"format":  func(o *KernelOptions) { o.Layouts = []string{"q4_0"} },
		"isa":     func(o *KernelOptions) { o.ISAs = []kernel.ISA{"mmx"} },
		"shape":   func(o *KernelOptions) { o.Shapes = []pack.Shape{{M: 0, K: 4}} },
		"group":   func(o *KernelOptions) { o.Group = -1 },
		"tokens":  func(o *KernelOptions) { o.Tokens = []int{0} },
		"threads": func(o *KernelOptions) { o.Threads = nil },
	} {
		o := quickKernels()
		change(&o)
		if r, err := Kernels(context.Background(), o); err == nil || r != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := Kernels(ctx, quickKernels()); !errors.Is(err, context.Canceled) || r != nil {
		t.Errorf("cancelled: %v, %v", r, err)
	}
}

func TestFaster(t *testing.T) {
	row := func(kernel string, chosen bool, seconds, spread float64) KernelRow {
		return KernelRow{Layout: "i2", Kernel: kernel, Tokens: 1, Chosen: chosen,
			Figures: Figures{Seconds: Quantity{seconds, spread}}}
	}
	noise := row("noise", false, 0.1, 9)
	noise.Noise = true
	r := KernelReport{Rows: []KernelRow{row("close", false, 0.98, 0.05), row("chosen", true, 1, 0.01),
		row("faster", false, 0.8, 0.1), row("slower", false, 2, 0), noise}}
	if f := r.Faster(); len(f) != 1 || f[0].Row.Kernel != "faster" || f[0].Chosen.Kernel != "chosen" {
		t.Errorf("%+v", f)
	}
}

func TestChoices(t *testing.T) {
	list := choices()
	at := slices.IndexFunc(list, func(c Choice) bool { return c.Layout == "vnni4i" && c.Alphabet == "ternary" })
	if at < 0 || list[at].Kernel != kernel.For(pack.Spec{Name: "vnni4i", Alphabet: "ternary"})[0].String() {
		t.Errorf("%+v", list)
	}
}

// TestSchemas checks the names of all JSON fields, on which programs rely. A change of a name requires a new schema.
func TestSchemas(t *testing.T) {
	host := "tool go platform cpu threads isas choices"
	figures := "turns seconds gb_per_second gops read_gb_per_second multiply_gops bound fraction noise"
	for _, c := range []struct {
		value any
		want  string
	}{
		{Host{}, host},
		{Quantity{}, "median spread"},
		{MachineReport{}, "schema host rows"},
		{MachineRow{}, "what where bytes threads seconds rate noise"},
		{KernelReport{}, "schema host rows parts choices measured"},
		{PartRow{Wrong: "x"}, "part model tokens depth threads bytes wrong " + figures},
		{KernelRow{Refused: "x", Wrong: "x"},
			"layout alphabet kernel isa m k group tokens threads bytes chosen refused wrong " + figures},
		{Choice{}, "layout alphabet kernel isa about"},
		{ModelReport{}, "schema host file file_bytes family layouts kv_cache_type weight_bytes first_token rows"},
		{FirstToken{}, "seconds noise peak_bytes"},
		{ModelRow{Refused: "x"}, "what tokens batch threads tokens_per_second bytes_per_token refused " + figures},
	} {
		data, err := json.Marshal(c.value)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(data, &fields); err != nil {
			t.Fatal(err)
		}
		got, want := slices.Sorted(maps.Keys(fields)), slices.Sorted(slices.Values(strings.Fields(c.want)))
		if !slices.Equal(got, want) {
			t.Errorf("%v: %v instead of %v", reflect.TypeOf(c.value), got, want)
		}
	}
}
