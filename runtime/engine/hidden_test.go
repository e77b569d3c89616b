package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// hidden returns the hidden states of the last n tokens of a text.
func hidden(t testing.TB, e *Engine, tokens []int, n int) []float32 {
	t.Helper()
	s := sequence(t, e)
	defer s.Close()
	states := make([]float32, n*e.desc.Hidden)
	if err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: tokens, Hidden: states}}); err != nil {
		t.Fatal(err)
	}
	return states
}

// TestHidden: hidden states have the same bits alone, in batches, in chunks of every size, and with any number of
// threads, and ask for no logits; logits asked for at the same time are those of other requests.
func TestHidden(t *testing.T) {
	texts := [][]int{{1, 5, 9, 200, 31, 77, 4, 18, 2, 90, 41}, {1, 7, 7}, {12}}
	e := engine(t, tiny(t), Options{Threads: 1})
	var want [][]float32
	for _, tokens := range texts {
		want = append(want, hidden(t, e, tokens, len(tokens)))
	}
	scores := logits(t, e, texts[0], 2)
	for _, o := range []Options{{Threads: 1, Batch: 4}, {Threads: 2, Batch: 5}, {Threads: 3}} {
		o.Sequences = len(texts)
		e := engine(t, tiny(t), o)
		batch := make([]Chunk, len(texts))
		for i, tokens := range texts {
			batch[i] = Chunk{Seq: sequence(t, e), Tokens: tokens, Hidden: make([]float32, len(want[i]))}
		}
		batch[0].Logits = make([]float32, 2*e.desc.Vocab)
		if err := e.Forward(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
		for i := range batch {
			if !slices.Equal(batch[i].Hidden, want[i]) {
				t.Errorf("%+v: the hidden states of text %d differ in a batch", o, i)
			}
			batch[i].Seq.Close()
		}
		if !slices.Equal(batch[0].Logits, slices.Concat(scores...)) {
			t.Errorf("%+v: logits beside hidden states differ", o)
		}
		for size := 1; size < 6; size++ {
			if got := hiddenBy(t, e, texts[0], size); !slices.Equal(got, want[0]) {
				t.Errorf("%+v: the hidden states differ in chunks of %d tokens", o, size)
			}
		}
		if got := hidden(t, e, texts[0], 3); !slices.Equal(got, want[0][len(want[0])-3*e.desc.Hidden:]) {
			t.Errorf("%+v: the hidden states of the last 3 tokens differ", o)
		}
	}
}

// hiddenBy returns the hidden states of a text that is computed in chunks of some size.
func hiddenBy(t testing.TB, e *Engine, tokens []int, size int) (all []float32) {
	t.Helper()
	s := sequence(t, e)
	defer s.Close()
	for part := range slices.Chunk(tokens, size) {
		states := make([]float32, len(part)*e.desc.Hidden)
		if err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: part, Hidden: states}}); err != nil {
			t.Fatal(err)
		}
		all = append(all, states...)
	}
	return all
}

// TestHiddenRefused: room for other than whole hidden states of the tokens of a chunk is an error.
func TestHiddenRefused(t *testing.T) {
	e := engine(t, tiny(t), Options{})
	s := sequence(t, e)
	for _, n := range []int{1, e.desc.Hidden - 1, 3 * e.desc.Hidden} {
		err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: []int{1, 2}, Hidden: make([]float32, n)}})
		if !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("room for %d values: %v", n, err)
		}
	}
}

// hiddenTexts are texts of which TestHiddenOnDevice asks for the last hidden states.
var hiddenTexts = []struct{ tokens, rows, scores int }{{23, 23, 0}, {9, 0, 2}, {14, 1, 3}, {5, 5, 5}}

// hiddenBeside computes hidden states and logits of several texts in one batch.
func hiddenBeside(t *testing.T, e *Engine) (rows [][][]float32) {
	batch := make([]Chunk, len(hiddenTexts))
	for i, x := range hiddenTexts {
		batch[i] = Chunk{Seq: sequence(t, e), Tokens: repeated(x.tokens, i), Hidden: make([]float32,
			x.rows*e.desc.Hidden), Logits: make([]float32, x.scores*e.desc.Vocab)}
	}
	if err := e.Forward(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	for i := range batch {
		rows = append(rows, [][]float32{batch[i].Hidden, batch[i].Logits})
		batch[i].Seq.Close()
	}
	return rows
}

// TestHiddenOnDevice: a device gives the hidden states of the CPU, bit for bit, in passes of any size and beside the
// logits of other texts; so does the CPU where the device fails in whatever call.
func TestHiddenOnDevice(t *testing.T) {
	o := Options{Context: 128, Sequences: len(hiddenTexts)}
	want := hiddenBeside(t, engine(t, tiny(t), o))
	for _, name := range append(devices, "narrow") {
		for _, o.Batch = range []int{6, 100} {
			for _, o.DeviceLayers = range divisions[:2] {
				o.Device = name
				e := engine(t, tiny(t), o)
				compareRows(t, hiddenBeside(t, e), want)
				computes(t, e)
			}
		}
	}
	o.Device, o.Batch = "failing", 10
	planted.after.Store(0)
	e := engine(t, tiny(t), o)
	planted.calls.Store(0)
	hiddenBeside(t, e)
	all := planted.calls.Load()
	for at := int64(1); at <= all; at += 3 {
		e := engine(t, tiny(t), o)
		planted.calls.Store(0)
		planted.after.Store(at)
		compareRows(t, hiddenBeside(t, e), want)
		planted.after.Store(0)
		e.Close()
	}
}

// TestHiddenNonFinite: a hidden state that overflows is the error of its chunk alone, on a device too.
func TestHiddenNonFinite(t *testing.T) {
	for _, name := range append([]string{device.CPU}, devices...) {
		hiddenOverflows(t, engine(t, tiny(t), Options{Sequences: 2, Device: name}))
	}
}

// TestHiddenAfterNonFinite: a chunk with hidden states has the error of the first step that is not finite, on a device
// the same as on the CPU.
func TestHiddenAfterNonFinite(t *testing.T) {
	v := tiny(t)
	v.set(t, "model.embed_tokens.weight", 9*256+3, float32(math.NaN()))
	for _, name := range append([]string{device.CPU}, devices...) {
		e := engine(t, v, Options{Device: name, Context: 64})
		s := sequence(t, e)
		err := e.Forward(context.Background(),
			[]Chunk{{Seq: s, Tokens: []int{7, 8, 9, 11}, Hidden: make([]float32, 4*e.desc.Hidden)}})
		wantNonFinite(t, err, NonFinite{0, 2, "attention of layer 0"})
	}
}

func hiddenOverflows(t *testing.T, e *Engine) {
	e.weights.norm.weights = slices.Clone(e.weights.norm.weights)
	for i := range e.weights.norm.weights {
		e.weights.norm.weights[i] = math.MaxFloat32
	}
	batch := make([]Chunk, 2)
	for i := range batch {
		batch[i] = Chunk{Seq: sequence(t, e), Tokens: []int{1, 2, 3}}
	}
	batch[1].Hidden = make([]float32, e.desc.Hidden)
	err := e.Forward(context.Background(), batch)
	var wrong *NonFinite
	if !errors.As(err, &wrong) || batch[0].Err != nil || batch[1].Err == nil {
		t.Fatal(err, batch[0].Err)
	}
	if got, want := fmt.Sprintf("%d %d %s", wrong.Chunk, wrong.Position, wrong.Step), "1 2 final norm"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
