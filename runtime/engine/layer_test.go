//go:build amd64 && !purego

package engine

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/reference"
)

// layersOf calls do with layers of random models until every kind of layer has been there twice.
func layersOf(t *testing.T, kinds []string, do func(kind string, v *view, d *model.Description, layer int)) {
	t.Helper()
	left := map[string]int{}
	for _, k := range kinds {
		left[k] = 2
	}
	for seed := uint64(1); len(left) > 0; seed++ {
		v, d := randomModel(t, rand.New(rand.NewPCG(seed, 52)), everyFeature)
		for i := range d.Blocks {
			kind := "attention"
			switch b := &d.Blocks[i]; {
			case b.Mixer != nil:
				kind = string(b.Mixer.Kind)
			case b.MLA != nil:
				kind = "latent"
			}
			if left[kind] > 0 {
				if left[kind]--; left[kind] == 0 {
					delete(left, kind)
				}
				do(kind, v, d, i)
			}
		}
	}
}

// inputRows are random outputs of the first linear layers of a layer, [n][width].
func inputRows(r *rand.Rand, n, width int) []float32 {
	x := make([]float32, n*width)
	for i := range x {
		x[i] = 2*r.Float32() - 1
	}
	return x
}

// wantedOf are the outputs of the reference, token by token.
func wantedOf(t *testing.T, l *reference.Layer, rows []float32, n int) (want []float32) {
	t.Helper()
	for part := range slices.Chunk(rows, len(rows)/n) {
		out, err := l.Append(part, true)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, out...)
	}
	return want
}

// TestRecurrentLayers: in calls of any number of tokens, outputs are those of the reference.
func TestRecurrentLayers(t *testing.T) {
	kinds := []string{string(model.ShortConv), string(model.Mamba2), string(model.GatedDelta), string(model.Mamba)}
	layersOf(t, kinds, func(kind string, v *view, d *model.Description, layer int) {
		const n = 21
		width := d.Blocks[layer].Mixer.Inputs()
		rows := inputRows(rand.New(rand.NewPCG(7, uint64(layer))), n, width)
		ref, err := reference.NewRecurrentLayer(v, d, layer)
		if err != nil {
			t.Fatal(err)
		}
		want := wantedOf(t, ref, rows, n)
		for _, chunk := range []int{1, 8, n} {
			l, err := newRecurrentLayer(v, d, layer, Options{Threads: 2, Batch: n})
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, len(want))
			if err := l.Append(rows, got[1:]); !errors.Is(err, pack.ErrLimit) { // the state stays what it was
				t.Errorf("%s: room for too few outputs: %v", kind, err)
			}
			for at := 0; at < n; at += chunk {
				end := min(at+chunk, n)
				if err := l.Append(rows[at*width:end*width], got[at*len(want)/n:end*len(want)/n]); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %d tokens at once: other outputs than the reference", kind, chunk)
			}
			if err := l.Load(append(rows, rows...)); !errors.Is(err, pack.ErrLimit) {
				t.Errorf("%s: more tokens than a batch: %v", kind, err)
			}
			l.Close()
		}
	})
}

// TestRecurrentLayerComputesAgain: Load and Compute go on where Append was.
func TestRecurrentLayerComputesAgain(t *testing.T) {
	layersOf(t, []string{string(model.GatedDelta)}, func(_ string, v *view, d *model.Description, layer int) {
		rows := inputRows(rand.New(rand.NewPCG(8, 1)), 3, d.Blocks[layer].Mixer.Inputs())
		ref, err := reference.NewRecurrentLayer(v, d, layer)
		if err != nil {
			t.Fatal(err)
		}
		wantedOf(t, ref, rows, 3)
		want := wantedOf(t, ref, rows, 3)
		l, err := newRecurrentLayer(v, d, layer, Options{Threads: 1, Batch: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := l.Load(rows); err != nil {
			t.Fatal(err)
		}
		if err := l.Compute(); err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(want))
		if err := l.Append(rows, got); err != nil || !slices.Equal(got, want) {
			t.Errorf("other outputs than the reference after two calls: %v", err)
		}
	})
}

// TestRecurrentLayerRefuses: a layer with attention alone is not recurrent.
func TestRecurrentLayerRefuses(t *testing.T) {
	layersOf(t, []string{"attention"}, func(_ string, v *view, d *model.Description, layer int) {
		if l, err := newRecurrentLayer(v, d, layer, Options{}); l != nil || !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%v", err)
		}
	})
}

// TestLatentAttentionLayers: in calls of any number of tokens, at short and long context depth, attention is that of
// the reference; rows that are computed twice at the same depth are the same.
func TestLatentAttentionLayers(t *testing.T) {
	layersOf(t, []string{"latent"}, func(_ string, v *view, d *model.Description, layer int) {
		const n = 40
		width := d.Heads*(d.Latent.Nope+d.Rope.Dim) + d.HeadDim
		rows := inputRows(rand.New(rand.NewPCG(9, uint64(layer))), n, width)
		ref, err := reference.NewLayer(v, d, layer, string(CacheF32))
		if err != nil {
			t.Fatal(err)
		}
		want := wantedOf(t, ref, rows, n)
		for _, chunk := range []int{1, 7, n} {
			l, err := newAttentionLayer(v, d, layer, Options{Threads: 2, Batch: n, Context: n, Sequences: 1, Page: 32})
			if err != nil {
				t.Fatal(err)
			}
			if chunk == 1 {
				l.e.pass.attention.long = 1
			}
			appendsEqual(t, l, rows, want, n, chunk)
			l.Close()
		}
	})
}

// TestAttentionLayerOuts: each rows with an Out receive their own attention, whatever others have none.
func TestAttentionLayerOuts(t *testing.T) {
	layersOf(t, []string{"latent"}, func(_ string, v *view, d *model.Description, layer int) {
		const n = 3
		rows := inputRows(rand.New(rand.NewPCG(10, uint64(layer))), 3*n, d.Heads*(d.Latent.Nope+d.Rope.Dim)+d.HeadDim)
		third := rows[2*len(rows)/3:]
		ref, err := reference.NewLayer(v, d, layer, string(CacheF32))
		if err != nil {
			t.Fatal(err)
		}
		want := wantedOf(t, ref, third, n)
		l, err := newAttentionLayer(v, d, layer, Options{Threads: 2, Batch: 3 * n, Context: n, Sequences: 3, Page: 32})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var batch []AttentionRows
		for in := range slices.Chunk(rows, len(third)) {
			seq, err := l.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			batch = append(batch, AttentionRows{Seq: seq, In: in})
		}
		batch[0].Out, batch[2].Out = make([]float32, len(want)), make([]float32, len(want))
		if err := l.Append(batch); err != nil || !slices.Equal(batch[2].Out, want) {
			t.Errorf("other attention than the reference: %v", err)
		}
	})
}

// appendsEqual appends the first half of n tokens without and the others with their attention, and compares these.
func appendsEqual(t *testing.T, l *AttentionLayer, rows, want []float32, n, chunk int) {
	t.Helper()
	seq, err := l.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	width, size := len(rows)/n, len(want)/n
	for at := 0; at < n; at += chunk {
		end := min(at+chunk, n)
		in := []AttentionRows{{Seq: seq, In: rows[at*width : end*width]}}
		if at >= n/2 || chunk == n {
			if err := l.Load(in); err != nil {
				t.Fatal(err)
			}
			if err := l.Compute(); err != nil {
				t.Fatal(err)
			}
			in[0].Out = make([]float32, (end-at)*size)
		}
		if err := l.Append(in); err != nil {
			t.Fatal(err)
		}
		if in[0].Out != nil && !slices.Equal(in[0].Out, want[at*size:end*size]) {
			t.Errorf("%d tokens at once, position %d: other attention than the reference", chunk, at)
		}
	}
}
