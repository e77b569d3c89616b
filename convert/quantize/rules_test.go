package quantize

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

var dtypes = []DType{F32, F16, BF16}

// encode rounds weights to the type; F16 and BF16 by truncation, which is enough for tests.
func (d DType) encode(w []float32) []byte {
	switch d {
	case F16:
		var b []byte
		for _, x := range w {
			h := float16.Narrow(x)
			b = append(b, byte(h), byte(h>>8))
		}
		return b
	case BF16:
		var b []byte
		for _, x := range w {
			h := math.Float32bits(x) >> 16
			b = append(b, byte(h), byte(h>>8))
		}
		return b
	}
	return f32(w...)
}

// normal weights, as trained models have them, with zeros of both signs.
func normal(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(r.NormFloat64() * 0.02)
		if i%97 == 5 {
			w[i] = float32(math.Copysign(0, r.NormFloat64()))
		}
	}
	return w
}

// jobs returns all jobs that float rules accept.
func jobs(s pack.Shape, d DType) (all []Job) {
	for _, r := range Rules() {
		for _, kind := range r.Kinds {
			j := Job{Rule: r.Name, DType: d, Shape: s, Kind: kind, Stats: true}
			if kind == PerGroup && r.Group == 0 {
				j.Group = 24
			}
			if !r.Exact() {
				all = append(all, j)
			}
		}
	}
	return all
}

func (j Job) String() string {
	return fmt.Sprintf("%s per %s, %s %v", j.Rule, j.Kind, j.DType, j.Shape)
}

// TestCodesAreMonotone tries every finite bf16 value with every rule and many scales: codes never decrease, lie in the
// alphabet, and −0 is +0.
func TestCodesAreMonotone(t *testing.T) {
	for _, r := range Rules() {
		if r.Exact() {
			continue
		}
		for _, top := range []float32{0, 1e-40, 3e-38, 1e-8, 0.0123, 1, 1.5, 127, 6e4} {
			scale, a := r.fit(stat{mean: top / 2, pos: top, neg: top}, roundTo(ScaleF32))
			if !(scale >= 0) || math.IsInf(float64(scale), 0) {
				t.Errorf("%s: scale %v of weights up to %v", r.Name, scale, top)
			}
			last := int8(-128)
			for key := BF16.value(-BF16.maxKey() - 1); ; {
				code := r.code(key, a)
				if code < last || !slices.Contains(r.Alphabet.Values, code) {
					t.Fatalf("%s: weight %v with scale %v: code %d after %d", r.Name, key, scale, code, last)
				}
				last = code
				k := int32(key16(uint16(math.Float32bits(key) >> 16)))
				if k == BF16.maxKey() {
					break
				}
				key = BF16.value(k + 1)
			}
			if r.code(float32(math.Copysign(0, -1)), a) != r.code(0, a) {
				t.Errorf("%s: −0 and +0 have different codes", r.Name)
			}
		}
	}
}

// TestTables: the table of a unit is the rule, for every finite pattern of both 16-bit types.
func TestTables(t *testing.T) {
	for _, r := range Rules() {
		if r.Exact() {
			continue
		}
		scale, a := r.fit(stat{mean: 0.013, pos: 0.09, neg: 0.11}, roundTo(ScaleF32))
		for _, d := range []DType{BF16, F16} {
			u := newUnit(&r, scale, a)
			u.tabulate(&r, d)
			for key := -d.maxKey() - 1; key <= d.maxKey(); key++ {
				p := unkey16(int16(key))
				var got [1]int8
				u.lookUp(got[:], []byte{byte(p), byte(p >> 8)})
				if want := r.code(d.value(key), a); got[0] != want {
					t.Fatalf("%s, %s %#04x: %d, want %d", r.Name, d, p, got[0], want)
				}
			}
		}
	}
}

// plain is the definition, written a second time and without care for speed: one scale at a time, sums in big floats,
// codes by the rule.
func plain(j Job, w []float32) (codes []int8, scales []float32) {
	rule, _ := Find(j.Rule)
	one := func(part []float32) {
		sum := new(big.Float).SetPrec(2000)
		var s stat
		for _, x := range part {
			sum.Add(sum, new(big.Float).SetPrec(2000).SetFloat64(math.Abs(float64(x))))
			s.pos, s.neg = max(s.pos, x), max(s.neg, -x)
		}
		s.mean, _ = sum.Quo(sum, new(big.Float).SetInt64(int64(len(part)))).Float32()
		scale, a := rule.fit(s, roundTo(rule.ScaleType(j.Kind)))
		scales = append(scales, scale)
		for _, x := range part {
			codes = append(codes, rule.code(x, a))
		}
	}
	if j.Kind == PerTensor {
		one(w)
		return codes, scales
	}
	group := j.Group
	if j.Kind == PerRow {
		group = j.Shape.K
	} else if rule.Group > 0 {
		group = rule.Group
	}
	for row := range slices.Chunk(w, j.Shape.K) {
		for part := range slices.Chunk(row, group) {
			one(part)
		}
	}
	return codes, scales
}

// TestQuantizersAgreeWithDefinition: all rules, types and kinds of scales, several shapes, with any division of the
// rows into panels and goroutines.
func TestQuantizersAgreeWithDefinition(t *testing.T) { eachLevel(t, agreeWithDefinition) }

func agreeWithDefinition(t *testing.T) {
	for _, s := range []pack.Shape{{M: 1, K: 1}, {M: 3, K: 31}, {M: 7, K: 100}, {M: 5, K: 259}, {M: 70, K: 33}} {
		for _, d := range dtypes {
			src := d.encode(normal(uint64(s.M), s.M*s.K))
			w := make([]float32, s.M*s.K)
			d.Widen(w, src)
			for _, j := range jobs(s, d) {
				codes, scales := plain(j, w)
				for _, panel := range []int{1, 4, s.M} {
					q, got := panels(t, j, src, panel)
					if !slices.Equal(got, codes) || !slices.Equal(q.Scales(), scales) {
						t.Fatalf("%v in panels of %d rows:\ncodes  %v\nwant   %v\nscales %v\nwant   %v", j, panel,
							got, codes,
							q.Scales(), scales)
					}
					checkStats(t, j, q, codes, scales, w)
				}
			}
		}
	}
}

// panels carries out a job with one goroutine per panel.
func panels(t *testing.T, j Job, src []byte, rows int) (*Quantizer, []int8) {
	t.Helper()
	q, err := New(j)
	if err != nil {
		t.Fatal(err)
	}
	codes := make([]int8, j.Shape.M*j.Shape.K)
	n := j.Shape.K * j.DType.Size()
	each := func(do func(row, to int) error) {
		var wg sync.WaitGroup
		for row := 0; row < j.Shape.M; row += rows {
			wg.Go(func() {
				if err := do(row, min(row+rows, j.Shape.M)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if q.Passes() == 2 {
		each(func(row, to int) error { return q.Measure(row, src[row*n:to*n]) })
	}
	if err := q.Fix(); err != nil {
		t.Fatal(err)
	}
	each(func(row, to int) error { return q.Quantize(codes[row*j.Shape.K:to*j.Shape.K], row, src[row*n:to*n]) })
	return q, codes
}

func checkStats(t *testing.T, j Job, q *Quantizer, codes []int8, scales []float32, w []float32) {
	t.Helper()
	var miss, square float64
	var zeros int64
	kind, group := q.Kind()
	for i, x := range w {
		at := 0
		switch kind {
		case PerRow:
			at = i / j.Shape.K
		case PerGroup:
			at = i/j.Shape.K*((j.Shape.K+group-1)/group) + i%j.Shape.K/group
		}
		e := float64(x) - float64(codes[i])*float64(scales[at])
		miss, square = miss+e*e, square+float64(x)*float64(x)
		if x == 0 {
			zeros++
		}
	}
	s := q.Stats()
	want := 0.0
	if square > 0 {
		want = math.Sqrt(miss / square)
	}
	if math.Abs(s.RelError-want) > 1e-12*want || !slices.Contains(q.Rule().Alphabet.Values, 0) && s.Zeros != zeros {
		t.Errorf("%v: relative error %v, want %v; %d zeros, want %d", j, s.RelError, want, s.Zeros, zeros)
	}
	for i, v := range q.Rule().Alphabet.Values {
		n := int64(0)
		for _, c := range codes {
			if c == v {
				n++
			}
		}
		if s.Counts[i] != n {
			t.Errorf("%v: code %d counted %d times, want %d", j, v, s.Counts[i], n)
		}
	}
}

// TestNotFinite plants NaN and infinity: every rule refuses them and names the position.
func TestNotFinite(t *testing.T) {
	s := pack.Shape{M: 6, K: 70}
	for _, d := range dtypes {
		for _, r := range Rules() {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(math.NaN(), -1)} {
				w := make([]float32, s.M*s.K)
				for i := range w {
					w[i] = 1 - 2*float32(i%2)
				}
				w[4*s.K+37] = float32(bad)
				_, _, err := try(Job{Rule: r.Name, DType: d, Shape: s, Group: r.Group}, d.encode(w))
				if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), "row 4, column 37 is") {
					t.Errorf("%s, %s, %v: %v", r.Name, d, bad, err)
				}
			}
		}
	}
}

// TestEdgeWeights: zeros, the smallest numbers, one outlier, and numbers near the largest.
func TestEdgeWeights(t *testing.T) {
	tiny, huge := math.Float32frombits(1), float32(math.MaxFloat32)
	negative0 := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		rule   string
		w      []float32
		codes  []int8
		scales []float32
	}{
		{"absmean", []float32{0, negative0, 0, 0}, []int8{0, 0, 0, 0}, []float32{1 / (1 / float32(1e-5))}},
		{"absmean", []float32{tiny, -tiny, 0, tiny}, []int8{0, 0, 0, 0}, []float32{1 / (1 / float32(1e-5))}},
		{"absmean", []float32{1000, 0.1, -0.1, 0}, []int8{1, 0, 0, 0}, []float32{250.05}},
		{"absmean", []float32{0x1p125, 0x1p125, -0x1p125, 0}, []int8{1, 1, -1, 0}, []float32{0x3p123}},
		{"absmax", []float32{0, 0, 0, 0}, []int8{0, 0, 0, 0}, []float32{1e-8}},
		{"absmax", []float32{1, 0.5, -0.5, 0.50000006}, []int8{1, 0, 0, 1}, []float32{1}}, // ties go to zero
		{"sign", []float32{0, negative0, 0, 0}, []int8{1, 1, 1, 1}, []float32{0}},
		{"sign", []float32{-tiny, tiny, negative0, 0}, []int8{-1, 1, 1, 1}, []float32{0}},
		{"int8", []float32{0, 0, 0, 0}, []int8{0, 0, 0, 0}, []float32{0}},
		{"int8", []float32{tiny, -tiny, 0, 0}, []int8{0, 0, 0, 0}, []float32{0}}, // the scale would be 2⁻¹⁵⁶
		{"int8", []float32{0x1p-118, 0, 0, 0}, []int8{127, 0, 0, 0}, []float32{float32(0x1p-118) / 127}},
		{"int8", []float32{127, 0.5, 1.5, -2.5}, []int8{127, 0, 2, -2}, []float32{1}},
		{"int8", []float32{huge, -huge, 0, huge / 4}, []int8{127, -127, 0, 32}, []float32{huge / 127}},
		{"int2", []float32{-2, 1, 0.5, -1.5}, []int8{-2, 1, 0, -2}, []float32{1}},
		{"int2", []float32{-3, 0, 0, 0}, []int8{-2, 0, 0, 0}, []float32{1.5}},
		{"int2-elastic", []float32{0, negative0, 0, 0}, []int8{1, 1, 1, 1}, []float32{1e-5 / 4}},
		{"int2-elastic", []float32{4, -4, 2, -2}, []int8{3, -3, 1, -3}, []float32{1}}, // ±2 are ties to even
		{"ternary-elastic", []float32{3, -3, 1, -1.1}, []int8{1, -1, 0, -1}, []float32{float32(1) / 1.5 * 3}},
		{"ternary-values", []float32{0, negative0, 0, 0}, []int8{0, 0, 0, 0}, []float32{0}},
		{"ternary-values", []float32{tiny, -tiny, 0, tiny}, []int8{1, -1, 0, 1}, []float32{tiny}},
		{"int2-values", []float32{0.25, -0.75, 0.75, -0.25}, []int8{1, -3, 3, -1}, []float32{0.25}},
		{"int2-values", []float32{0.5, -0.5, 0.5, -0.5}, []int8{1, -1, 1, -1}, []float32{0.5}},
	} {
		q, codes := run(t, Job{Rule: c.rule, DType: F32, Shape: pack.Shape{M: 1, K: len(c.w)}}, f32(c.w...))
		if !slices.Equal(codes, c.codes) || !slices.Equal(q.Scales(), c.scales) {
			t.Errorf("%s of %v: %v × %v, want %v × %v", c.rule, c.w, codes, q.Scales(), c.codes, c.scales)
		}
	}
}

// TestSignCountsZeros: zero weights become +1 and are counted.
func TestSignCountsZeros(t *testing.T) {
	q, _ := run(t, Job{Rule: "sign", DType: F32, Shape: pack.Shape{M: 2, K: 3}, Stats: true},
		f32(0, 1, -1, float32(math.Copysign(0, -1)), 0, 2))
	if s := q.Stats(); s.Zeros != 3 || !slices.Equal(s.Counts, []int64{1, 5}) {
		t.Errorf("%+v", s)
	}
}

// TestJobsRefused: unsupported jobs are refused before anything is read.
func TestJobsRefused(t *testing.T) {
	s := pack.Shape{M: 2, K: 64}
	for name, c := range map[string]struct {
		job  Job
		want error
	}{
		"unknown rule":   {Job{Rule: "magic", DType: F32, Shape: s}, pack.ErrUnsupported},
		"type":           {Job{Rule: "absmean", DType: "F64", Shape: s}, pack.ErrUnsupported},
		"empty shape":    {Job{Rule: "absmean", DType: F32, Shape: pack.Shape{M: 0, K: 4}}, pack.ErrLimit},
		"rows":           {Job{Rule: "absmean", DType: F32, Shape: pack.Shape{M: MaxRows + 1, K: 4}}, pack.ErrLimit},
		"kind":           {Job{Rule: "absmax", DType: F32, Shape: s, Kind: PerTensor}, pack.ErrUnsupported},
		"unknown kind":   {Job{Rule: "absmean", DType: F32, Shape: s, Kind: "column"}, pack.ErrUnsupported},
		"no group":       {Job{Rule: "absmean", DType: F32, Shape: s, Kind: PerGroup}, pack.ErrUnsupported},
		"small group":    {Job{Rule: "absmean", DType: F32, Shape: s, Kind: PerGroup, Group: 8}, pack.ErrUnsupported},
		"group of mxfp4": {Job{Rule: "mxfp4", DType: F32, Shape: s, Group: 64}, pack.ErrUnsupported},
	} {
		if _, err := New(c.job); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	q, err := New(Job{Rule: "absmean", DType: F32, Shape: s})
	if err != nil {
		t.Fatal(err)
	}
	if q.Quantize(make([]int8, 64), 0, make([]byte, 256)) == nil {
		t.Error("Quantize before Fix was accepted")
	}
	for _, r := range []struct{ row, bytes int }{{0, 255}, {1, 512}, {-1, 256}, {2, 256}} {
		if q.Measure(r.row, make([]byte, r.bytes)) == nil {
			t.Errorf("%d bytes from row %d on were accepted", r.bytes, r.row)
		}
	}
	if err := q.Fix(); err != nil {
		t.Fatal(err)
	}
	if q.Quantize(make([]int8, 63), 0, make([]byte, 256)) == nil {
		t.Error("a short destination was accepted")
	}
	if _, _, err := try(Job{Rule: "absmean", DType: F32, Shape: pack.Shape{M: 1, K: 1}},
		f32(math.MaxFloat32)); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("a scale whose reciprocal is too small for its precision: %v", err)
	}
	if _, _, err := try(Job{Rule: "q2_0", DType: F32, Shape: pack.Shape{M: 1, K: 64}},
		F32.encode(slices.Repeat([]float32{7e4}, 64))); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("a scale beyond float16: %v", err)
	}
}
