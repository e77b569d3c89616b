package reference

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// TestRefusals: what does not fit together is refused with the name of the tensor or number at fault.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(d *model.Description)
		says   string
	}{
		{"no heads", func(d *model.Description) { d.Heads = 0 }, "heads"},
		{"uneven heads", func(d *model.Description) { d.KVHeads = 4 }, "share"},
		{"odd rotation", func(d *model.Description) { d.Rope.Dim = 5 }, "rotated"},
		{"rotation beyond the head", func(d *model.Description) { d.Rope.Dim = 12 }, "rotated"},
		{"heads of two sizes, one of which do not share", func(d *model.Description) {
			d.Global = &model.HeadShape{KVHeads: 4, HeadDim: 10}
		}, "share"},
		{"heads of two sizes and one rotation", func(d *model.Description) {
			d.Global = &model.HeadShape{KVHeads: 2, HeadDim: 10}
		}, "without a rotation of their own"},
		{"more pairs with a frequency than rotate", func(d *model.Description) { d.Rope.Rotating = 12 }, "rotated"},
		{"keys as values beside values", func(d *model.Description) { d.Blocks[1].KeysAsValues = true }, "layer 1"},
		{"a factor of another size", func(d *model.Description) { d.Blocks[1].Scalar = "0.an" }, `"0.an"`},
		{"no rotary base", func(d *model.Description) { d.Rope.Theta = 0 }, "base"},
		{"unknown activation", func(d *model.Description) { d.Activation = "swish" }, "swish"},
		{"no layers", func(d *model.Description) { d.Blocks = nil }, "layers"},
		{"missing tensor", func(d *model.Description) { d.Blocks[1].AttnNorm.Weight = "nowhere" }, "nowhere"},
		{"missing linear", func(d *model.Description) { d.Blocks[1].Up.Weight = "nowhere" }, "nowhere"},
		{"linear of another width", func(d *model.Description) { d.Blocks[2].Down.In = 41 }, `"2.d"`},
		{"norm of another width", func(d *model.Description) { d.FinalNorm.Weight = "0.k" }, `"0.k"`},
		{"rows beyond the tensor", func(d *model.Description) {
			d.Blocks[0].K.Rows = model.Rows{From: 10, To: 30}
		}, `"0.k"`},
		{"rows that are not as many", func(d *model.Description) {
			d.Blocks[0].K.Rows = model.Rows{From: 0, To: 30}
		}, `"0.k"`},
		{"vector as linear", func(d *model.Description) { d.Blocks[0].K.Weight = "0.an" }, `"0.an"`},
		{"embedding of another size", func(d *model.Description) { d.Vocab = 34 }, `"embed"`},
	} {
		d := plain()
		file, _ := randomModel(d, 3)
		c.change(d)
		_, err := New(file.Open(t), d)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s: the error has no class: %v", c.name, err)
		}
	}
}

// TestTokens: tokens outside the vocabulary and texts beyond the positions of the model are refused.
func TestTokens(t *testing.T) {
	d := plain()
	d.MaxPositions = 3
	file, _ := randomModel(d, 3)
	m, err := New(file.Open(t), d)
	if err != nil {
		t.Fatal(err)
	}
	for _, tokens := range [][]int{{-1}, {33}, {1, 2, 3, 4}} {
		if _, err := m.Logits(context.Background(), tokens); !errors.Is(err, pack.ErrLimit) {
			t.Errorf("tokens %v: %v", tokens, err)
		}
	}
}

// TestNotFinite: a NaN or an infinity ends the pass with its position and step (N4), wherever it arises.
func TestNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		name, tensor string
		value        float32
		quantized    bool
		says         string
	}{
		{"embedding", "embed", inf, false, "layer 0: attention: corrupt: position 2: the mean square"},
		{"overflow of a square", "embed", 1e30, false, "layer 0: attention: corrupt: position 2: the mean square"},
		{"attention", "0.o", inf, false, "layer 0: MLP: corrupt: position 0: the mean square"},
		{"input of a quantized linear", "1.fn", inf, true, `layer 1: MLP: corrupt: position 0: an input of "1.g"`},
		{"logit", "head", float32(math.NaN()), false, "output head: corrupt: position 0: the logit of token 2"},
	} {
		d := plain()
		file, _ := randomModel(d, 4)
		if c.quantized {
			quantizeBlocks(d, file)
		}
		for i := range file.Plain {
			if file.Plain[i].Name == c.tensor {
				x := sample.Floats("F32", file.Plain[i].Data)
				x[min(len(x)-1, 2*d.Hidden+1)] = c.value
				file.Plain[i].Data = sample.Bytes32(x)
			}
		}
		m, err := New(file.Open(t), d)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Logits(context.Background(), []int{0, 1, 2, 3})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestBadMatrix: broken scales and bytes of a quantized tensor are refused by name.
func TestBadMatrix(t *testing.T) {
	shape := pack.Shape{M: 33, K: 8}
	build := func(change func(q *sample.Quantized)) error {
		q := sample.Quantized{Name: "w", Matrix: pack.NewMatrix(shape, pack.Ternary), Layout: pack.Spec{Name: "vnni4i"},
			Scale: packed.Scale{Kind: packed.ScaleTensor}, Scales: []float32{1}}
		change(&q)
		_, err := openMatrix((&sample.Model{Quantized: []sample.Quantized{q}}).Open(t), "w", 0)
		return err
	}
	if err := build(func(*sample.Quantized) {}); err != nil {
		t.Error(err)
	}
	for _, s := range []float32{-1, float32(math.NaN()), float32(math.Inf(1))} {
		if err := build(func(q *sample.Quantized) { q.Scales[0] = s }); !errors.Is(err, pack.ErrCorrupt) ||
			!strings.Contains(err.Error(), `"w": scale 0`) {
			t.Errorf("scale %v: %v", s, err)
		}
	}
	q := sample.Quantized{Name: "w", Matrix: pack.NewMatrix(shape, pack.Ternary), Layout: pack.Spec{Name: "vnni4i"},
		Scale: packed.Scale{Kind: packed.ScaleTensor}, Scales: []float32{1}}
	w, err := openMatrix((&sample.Model{Quantized: []sample.Quantized{q}}).Open(t), "w", 0)
	if err != nil {
		t.Fatal(err)
	}
	w.bytes = append([]byte{}, w.bytes...)
	w.bytes[0] = 3 // the unused code
	err = w.products(context.Background(), [][]int8{make([]int8, 8)}, 0, 33, func(int, []int32) {})
	if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), `tensor "w", rows from 0`) {
		t.Errorf("unused code: %v", err)
	}
}
