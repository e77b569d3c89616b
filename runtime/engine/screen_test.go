package engine

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// addScreen adds the screen of a head, made as FORMAT F21 asks.
func addScreen(t testing.TB, v *view, head string, rows, cols int) {
	w := make([]float32, rows*cols)
	x := v.tensors[head]
	typ, err := tensor.ParseType(string(x.DType))
	if err != nil {
		t.Fatal(err)
	}
	m, err := tensor.NewMatrix(typ, rows, cols, x.Data)
	if err != nil {
		t.Fatal(err)
	}
	c := pack.NewMatrix(pack.Shape{M: rows, K: cols}, pack.Int8)
	scales := make([]float32, rows)
	for i := range rows {
		row := w[i*cols:][:cols]
		m.Row(row, i)
		scales[i] = tensor.MaxAbs(row) / 127
		for k, x := range row {
			if scales[i] > 0 {
				c.Codes[i*cols+k] = int8(math.RoundToEven(min(max(float64(x)/float64(scales[i]), -127), 127)))
			}
			d := math.Abs(float64(x) - float64(scales[i])*float64(c.Codes[i*cols+k]))
			if d > 0.501*float64(scales[i]) &&
				math.Abs(float64(x)) > tinyWeight {
				t.Fatalf("row %d: %v is off by %v of a step of %v", i, x, d, scales[i])
			}
		}
	}
	v.quantized(t, packed.ScreenName, "vnni4", c, scales, 0)
}

// trained is the bundled model with an untied head, a copy of the weights of the embedding.
var trained struct {
	once sync.Once
	view *view
}

func trainedHead(t testing.TB) *view {
	t.Helper()
	trained.once.Do(func() { trained.view = withHead(t, func(int, []float32) {}) })
	return trained.view.clone()
}

// withHead gives the bundled model an untied head, made of the rows of the embedding after fill has changed them, and
// its screen.
func withHead(t testing.TB, fill func(i int, row []float32)) *view {
	v := tiny(t)
	v.files["config.json"] = strings.Replace(v.files["config.json"], `"tie_word_embeddings": true`,
		`"tie_word_embeddings": false`, 1)
	const name, rows, cols = "lm_head.weight", 2560, 256
	data := slices.Clone(v.tensors["model.embed_tokens.weight"].Data)
	row := make([]float32, cols)
	for i := range rows {
		m, _ := tensor.NewMatrix(tensor.BF16, 1, cols, data[2*i*cols:][:2*cols])
		m.Row(row, 0)
		fill(i, row)
		for k, x := range row {
			binary.LittleEndian.PutUint16(data[2*(i*cols+k):], uint16(math.Float32bits(x)>>16))
		}
	}
	v.plain(name, "BF16", []int{rows, cols}, data)
	addScreen(t, v, name, rows, cols)
	return v
}

// TestScreenIsExact compares screened logits with the logits of the whole head, for difficult heads: rows that are
// equal, that differ in the last bit of one element, whose codes mislead, and of very different magnitude.
func TestScreenIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var first []float32
	for name, fill := range map[string]func(i int, row []float32){
		"as trained": func(int, []float32) {},
		"all equal": func(i int, row []float32) {
			if first == nil {
				first = slices.Clone(row)
			}
			copy(row, first)
		},
		"one bit apart": func(i int, row []float32) {
			if i%8 == 0 {
				first = slices.Clone(row)
			}
			copy(row, first)
			b := math.Float32bits(row[i%len(row)])
			row[i%len(row)] = math.Float32frombits(b ^ 1<<16)
		},
		"one element swallows the scale": func(i int, row []float32) {
			if i%5 == 0 {
				row[r.IntN(len(row))] = float32(r.NormFloat64()) * 300
			}
		},
		"sizes from 1e-38 to 1e30": func(i int, row []float32) {
			scale := float32(math.Pow(10, r.Float64()*68-38))
			for k := range row {
				row[k] *= scale
			}
		},
		"zeros and subnormals": func(i int, row []float32) {
			for k := range row {
				row[k] *= []float32{0, 1e-38, 1e-40}[i%3]
			}
		},
		"a whole tail of near winners": func(i int, row []float32) {
			if i > 2000 {
				copy(row, first)
				row[r.IntN(len(row))] += float32(r.NormFloat64()) * 1e-2
			} else if i == 2000 {
				first = slices.Clone(row)
			}
		},
	} {
		first = nil
		v := withHead(t, fill)
		plain := *v
		plain.manifest.Packed = slices.DeleteFunc(slices.Clone(v.manifest.Packed),
			func(e packed.Entry) bool { return e.Name == packed.ScreenName })
		e, whole := engine(t, v, Options{Threads: 2}), engine(t, &plain, Options{})
		rows := 0
		for _, tokens := range texts(t)[:2] {
			want := logits(t, whole, tokens, len(tokens))
			rows += compareScreened(t, name, e, tokens, want, r)
		}
		t.Logf("%s: %d of %d rows computed, %d per position", name, e.ScreenedRows(), rows*e.desc.Vocab,
			e.ScreenedRows()/rows)
		if name == "as trained" && e.ScreenedRows() > rows*e.desc.Vocab/10 {
			t.Error("the screen lets more than a tenth of a trained head through")
		}
	}
}

// The 16 columns that hold 70 % of the energy of the head's inputs in SmolLM2-135M (2,048 positions of prose, code and
// documentation), largest first: root mean squares of these inputs, and of the weights of these columns of the head,
// over the medians of all 576.
var (
	outlierInputs  = []float32{28, 17.6, 10.5, 9.4, 8.1, 7.1, 6.8, 5.8, 5.4, 5.2, 5, 4.8, 4.8, 4.2, 4.1, 4}
	outlierWeights = []float32{3.45, 2.9, 1.02, 0.72, 6.13, 2.04, 3.54, 6.25, 3.82, 0.77, 4.34, 1.98, 5.64, 2.29,
		1.46, 0.82}
)

// withOutliers is withHead for a model with the outliers of SmolLM2, whose inputs and weights are multiplied by two
// more factors. The states of the bundled model have no outliers: 16 of its columns hold a fifth of the energy.
func withOutliers(t testing.TB, inputs, columns float32) *view {
	column := func(i int) int { return 16*i + 3 } // some of 256
	v := withHead(t, func(_ int, row []float32) {
		for i, w := range outlierWeights {
			row[column(i)] *= w * columns
		}
	})
	norm := v.tensors["model.norm.weight"]
	weights := make([]float32, 256)
	m, err := tensor.NewMatrix(tensor.BF16, 1, len(weights), norm.Data)
	if err != nil {
		t.Fatal(err)
	}
	m.Row(weights, 0)
	for i, w := range outlierInputs {
		weights[column(i)] *= w * inputs
	}
	v.tensors[norm.Name] = packed.Tensor{Name: norm.Name, DType: "F32", Shape: norm.Shape, Data: bytesOf(weights)}
	return v
}

// TestScreenOfOutliers: columns with large weights use up the range of the codes and widen the bounds of all rows.
// Candidates stay few with the outliers of a real model; where only the weights of these columns are large, the
// decisive values are lost in quantization, and the whole head is computed. Either way all logits equal the logits of
// the whole head.
func TestScreenOfOutliers(t *testing.T) {
	const positions = 32
	for _, c := range []struct {
		inputs, columns float32
		top             int
		most            int  // candidates per position, on average
		whole           bool // the screen always gives up
	}{
		{1, 1, 1, 4, false},
		{1, 1, 40, 120, false},
		{8, 1, 1, 4, false},
		{0.1, 10, 1, 120, false},
		{0.01, 100, 1, 0, true},
	} {
		v := withOutliers(t, c.inputs, c.columns)
		plain := *v
		plain.manifest.Packed = slices.DeleteFunc(slices.Clone(v.manifest.Packed),
			func(e packed.Entry) bool { return e.Name == packed.ScreenName })
		tokens := texts(t)[3][:positions]
		want := logits(t, engine(t, &plain, Options{}), tokens, positions)
		e := engine(t, v, Options{Threads: 2})
		s, got := sequence(t, e), make([]float32, e.desc.Vocab)
		for i, id := range tokens {
			before := e.ScreenedRows()
			err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: []int{id}, Logits: got, Top: c.top}})
			if err != nil {
				t.Fatal(err)
			}
			least := want[i][order21(want[i])[c.top-1]]
			left := 0
			for m, y := range got {
				if y != want[i][m] && (!math.IsInf(float64(y), -1) || want[i][m] >= least) {
					t.Fatalf("%v: position %d: logit %d is %v, want %v", c, i, m, y, want[i][m])
				}
				if math.IsInf(float64(y), -1) {
					left++
				}
			}
			if n := e.ScreenedRows() - before; !c.whole && n != len(got)-left || c.whole && left > 0 {
				t.Fatalf("%v: position %d: %d rows computed, %d left out", c, i, n, left)
			}
		}
		mean := e.ScreenedRows() / positions
		t.Logf("%v: %d candidates per position", c, mean)
		if mean > c.most {
			t.Errorf("%v: %d candidates per position", c, mean)
		}
	}
}

// TestScreenDistrustsItsCodes: rows built against one known input, whose codes contradict their weights. The rounding
// errors all lower the winner and raise the others, so that the codes reverse the order.
func TestScreenDistrustsItsCodes(t *testing.T) {
	tokens := []int{2552, 100, 7}
	known := engine(t, tiny(t), Options{})
	logits(t, known, tokens, 1)
	x := slices.Clone(known.pass.x[:known.desc.Hidden])
	smallest := 0
	for k, v := range x {
		if math.Abs(float64(v)) < math.Abs(float64(x[smallest])) {
			smallest = k
		}
	}
	const step, most = 1.0 / 64, 0.484375 // the largest part of a step that bf16 holds beside codes up to 3
	sign := func(v float32) float32 { return float32(math.Copysign(1, float64(v))) }
	for _, share := range []int{1, 2, 4, 8, 9} { // tenths of the elements by which the losers' codes are larger
		v := withHead(t, func(i int, row []float32) {
			for k := range row {
				switch {
				case i == 100: // the winner
					row[k] = step * most * sign(x[k])
				case i >= 200 && i < 210:
					row[k] = -step * most * sign(x[k])
					if k*7%10 < share {
						row[k] += step * sign(x[k])
					}
				default:
					row[k] = -step * sign(x[k])
				}
			}
			row[smallest] = 127 * step
		})
		e := engine(t, v, Options{})
		got := make([]float32, e.desc.Vocab)
		err := e.Forward(context.Background(), []Chunk{{Seq: sequence(t, e), Tokens: tokens, Logits: got, Top: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if first := ArgMax(got); first != 100 || e.ScreenedRows() == 0 || e.ScreenedRows() > 100 {
			t.Errorf("%d tenths: token %d comes first, %d rows computed; want token 100 of at most 100 rows",
				share, first,
				e.ScreenedRows())
		}
	}
}

// compareScreened feeds tokens one by one and asks for some of the largest logits each time. It returns how often.
func compareScreened(t *testing.T, name string, e *Engine, tokens []int, want [][]float32, r *rand.Rand) int {
	s := sequence(t, e)
	defer s.Close()
	got := make([]float32, e.desc.Vocab)
	for i, id := range tokens {
		c := Chunk{Seq: s, Tokens: []int{id}, Logits: got, Top: []int{1, 2, 40}[r.IntN(3)]}
		for range r.IntN(5) {
			c.Keep = append(c.Keep, r.IntN(e.desc.Vocab))
		}
		if err := e.Forward(context.Background(), []Chunk{c}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for rank, m := range order21(want[i])[:c.Top+len(c.Keep)] {
			if rank >= c.Top && !slices.Contains(c.Keep, m) {
				continue
			}
			if got[m] != want[i][m] {
				t.Fatalf("%s: position %d: logit %d, of rank %d, is %v, want %v", name, i, m, rank, got[m], want[i][m])
			}
		}
		if g, w := order21(got)[:c.Top], order21(want[i])[:c.Top]; !slices.Equal(g, w) {
			t.Fatalf("%s: position %d: the largest are %v, want %v", name, i, g, w)
		}
		for _, m := range c.Keep {
			if got[m] != want[i][m] {
				t.Fatalf("%s: position %d: kept logit %d is %v, want %v", name, i, m, got[m], want[i][m])
			}
		}
	}
	return len(tokens)
}

// order21 sorts token ids by NUMERICS N21.
func order21(logits []float32) []int {
	ids := make([]int, len(logits))
	for i := range ids {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(a, b int) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	return ids
}

// TestScreenedTextIsTheSame: generation gives the same tokens with a screen as without one.
func TestScreenedTextIsTheSame(t *testing.T) {
	with := trainedHead(t)
	e, whole := engine(t, with, Options{Threads: 2}), engine(t, tiny(t), Options{})
	for _, s := range []Sampling{
		{}, {RepetitionPenalty: 1.3}, {RepetitionPenalty: 0.7}, {Temperature: 0.8, TopK: 40, TopP: 0.9,
			RepetitionPenalty: 1.1, Seed: 3},
		{Temperature: 1.5, TopK: 3, MinP: 0.1, Seed: 4}, {Temperature: 1, TopP: 0.9, Seed: 5},
	} {
		r := Request{Prompt: []int{2552, 2140, 392}, MaxTokens: 60, Sampling: s}
		before := e.ScreenedRows()
		got, _ := collect(t, e, r)
		want, _ := collect(t, whole, r)
		if !slices.Equal(got.Tokens, want.Tokens) {
			t.Errorf("%+v: %v, want %v", s, got.Tokens, want.Tokens)
		}
		if used := e.ScreenedRows() > before; used != (s.Temperature == 0 || s.TopK > 0) {
			t.Errorf("%+v: screened: %v", s, used)
		}
	}
}

// TestScreenOfBatches: several sequences at once, more than are screened together and more than have their logits
// computed together. One that needs all logits does not keep the others from being screened.
func TestScreenOfBatches(t *testing.T) {
	const most = mostHeadRows + 4
	e, whole := engine(t, trainedHead(t), Options{Sequences: most, Threads: 2}), engine(t, tiny(t), Options{})
	for _, n := range []int{1, 2, screenRows, screenRows + 1, mostHeadRows, most} {
		for _, everything := range []bool{false, true} {
			var batch []Chunk
			for i := range n {
				batch = append(batch, Chunk{Seq: sequence(t, e), Tokens: []int{10 * n, i},
					Logits: make([]float32, e.desc.Vocab),
					Top:    1 + 3*i%7, Keep: []int{7 * i, 100}})
			}
			if everything {
				batch[n/2].Top = 0
			}
			before := e.ScreenedRows()
			if err := e.Forward(context.Background(), batch); err != nil {
				t.Fatal(err)
			}
			if screened := e.ScreenedRows() > before; screened != (!everything || n > 1) {
				t.Errorf("%d sequences, one wants everything: %v; screened: %v", n, everything, screened)
			}
			for i, c := range batch {
				want, top := logits(t, whole, c.Tokens, 1)[0], c.Top
				if top == 0 {
					top = e.desc.Vocab
				}
				g, w := order21(c.Logits)[:top], order21(want)[:top]
				for _, m := range append(c.Keep, w...) {
					if c.Logits[m] != want[m] {
						t.Errorf("%d sequences: number %d: logit %d is %v, want %v", n, i, m, c.Logits[m], want[m])
					}
				}
				if !slices.Equal(g, w) {
					t.Errorf("%d sequences: number %d: %v, want %v", n, i, g, w)
				}
				c.Seq.Close()
			}
		}
	}
}
