package calibrate_test

import (
	"math"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// TestChoice: the columns of a head have the squares of what it multiplies; error feedback leaves less of the errors of
// its products than the nearest codes do, and for an embedding too less of those of its rows than for a head alone. The
// rows of a panel change nothing.
func TestChoice(t *testing.T) {
	f, d := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	windows := longWindows(3, 70)
	x := inputs(t, f, windows)[d.Head]
	done := int64(0)
	states, err := calibrate.HeadStates(t.Context(), 2, f, windows, func(n, _ int64) { done = n })
	if err != nil || done != 210 {
		t.Fatalf("%d tokens, %v", done, err)
	}
	choice := func(u calibrate.Use, feed bool) *calibrate.Choice {
		c, err := states.Choice(t.Context(), 2, u, feed)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	heads, both := calibrate.Use{Heads: true}, calibrate.Use{Embeds: true, Heads: true}
	mean, squares := 0.0, make([]float64, d.Hidden)
	for i, v := range x {
		squares[i%d.Hidden] += float64(v) * float64(v)
		mean += float64(v) * float64(v) / float64(d.Hidden)
	}
	for u, more := range map[calibrate.Use]float64{heads: 0, both: mean} {
		for _, feed := range []bool{false, true} {
			for i, c := range choice(u, feed).Columns {
				if want := squares[i] + more; math.Abs(float64(c)/want-1) > 1e-5 {
					t.Fatalf("%+v, column %d counts %g, want %g", u, i, c, want)
				}
			}
		}
	}
	stored, err := f.Tensor(d.Head)
	if err != nil {
		t.Fatal(err)
	}
	w := make([]float32, d.Vocab*d.Hidden)
	quantize.DType(stored.DType).Widen(w, stored.Data)
	plain := calibrate.PlainChoice(d.Hidden)
	embedding, _ := missedByChoice(t, plain, w, d.Hidden, x)
	_, near := missedByChoice(t, choice(heads, false), w, d.Hidden, x)
	rows, products := missedByChoice(t, choice(heads, true), w, d.Hidden, x)
	rowsOfBoth, productsOfBoth := missedByChoice(t, choice(both, true), w, d.Hidden, x)
	if embedding >= rowsOfBoth || rowsOfBoth >= rows || products >= productsOfBoth || productsOfBoth >= near {
		t.Errorf("errors of rows: %g alone, %g beside a head, %g as a head; of products: %g, %g for an embedding too, "+
			"%g with the nearest codes", embedding, rowsOfBoth, rows, products, productsOfBoth, near)
	}
}

// missedByChoice has the squared errors of int4 in groups of 32 columns, and of the products with vectors x.
func missedByChoice(t *testing.T, c *calibrate.Choice, w []float32, k int, x []float32) (rows, products float64) {
	t.Helper()
	m := len(w) / k
	var codes [][]int8
	var scales [][]float32
	var z *quantize.Quantizer
	for _, panel := range []int{m, 45} {
		var err error
		z, err = quantize.New(quantize.Job{Rule: "int4", DType: quantize.F32, Shape: pack.Shape{M: m, K: k},
			Kind: quantize.PerGroup, Group: 32, Columns: c.Columns})
		if err != nil {
			t.Fatal(err)
		}
		all := make([]int8, len(w))
		for row := 0; row < m; row += panel {
			end := min(row+panel, m)
			if err := c.Codes(z, row, all[row*k:end*k], w[row*k:end*k]); err != nil {
				t.Fatal(err)
			}
		}
		codes, scales = append(codes, all), append(scales, z.Scales())
	}
	if !slices.Equal(codes[0], codes[1]) || !slices.Equal(scales[0], scales[1]) {
		t.Fatal("panels of 45 rows change codes or scales")
	}
	e := make([]float64, len(w))
	for i, v := range w {
		e[i] = float64(v) - float64(z.Scales()[i/32])*float64(codes[0][i])
		rows += e[i] * e[i]
	}
	for at := 0; at < len(x); at += k {
		for m := 0; m < len(w); m += 8 * k { // every eighth row
			y := 0.0
			for i, v := range x[at:][:k] {
				y += float64(v) * e[m+i]
			}
			products += y * y
		}
	}
	return rows, products
}
