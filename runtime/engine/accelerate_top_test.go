package engine

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/runtime/device"
)

// sampledTexts are texts that are sampled together: of some the largest logits of a device are enough, of others all
// are needed, for the number, for a penalty and without top-k.
var sampledTexts = []struct {
	Sampling
	few bool
}{
	{Sampling{Temperature: 1.5, TopK: 40, Seed: 3}, true},
	{Sampling{}, true},
	{Sampling{Temperature: 3, TopP: 0.95, Seed: 4}, false},
	{Sampling{Temperature: 2, TopK: device.TopMost, TopP: 0.9, MinP: 0.001, Seed: 5}, true},
	{Sampling{Temperature: 2, TopK: device.TopMost + 1, Seed: 6}, false},
	{Sampling{Temperature: 1, TopK: 7, RepetitionPenalty: 1.3, Seed: 7}, false},
	{Sampling{Temperature: 30, TopK: 2, Seed: 8}, true},
}

// sampled writes the texts, and counts the logits of each that its last step returned.
func sampled(t *testing.T, e *Engine, steps int) (ids [][]int, finite []int) {
	t.Helper()
	ids, finite = make([][]int, len(sampledTexts)), make([]int, len(sampledTexts))
	gens, batch := make([]*Generation, len(sampledTexts)), make([]Chunk, len(sampledTexts))
	for i := range sampledTexts {
		prompt := repeated(3+i, i)
		g, err := e.NewGeneration(Request{Prompt: prompt, Sampling: sampledTexts[i].Sampling, MaxTokens: steps + 1})
		if err != nil {
			t.Fatal(err)
		}
		gens[i], batch[i] = g, g.Chunk(sequence(t, e), prompt, make([]float32, e.desc.Vocab))
	}
	for range steps {
		if err := e.Forward(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		for i, g := range gens {
			finite[i] = 0
			for _, z := range batch[i].Logits {
				if !math.IsInf(float64(z), -1) {
					finite[i]++
				}
			}
			piece, _ := g.Next(batch[i].Logits)
			ids[i] = append(ids[i], piece.Token)
			batch[i] = g.Chunk(batch[i].Seq, []int{piece.Token}, batch[i].Logits)
		}
	}
	return ids, finite
}

// TestDeviceTop: texts that are sampled from the largest logits, which are all that a device returns of them, are those
// of the CPU, beside texts that need all logits; and so they are on a device that has no kernel for that.
func TestDeviceTop(t *testing.T) {
	steps := 12
	if slow(devices[0]) {
		steps = 5
	}
	o := Options{Context: 64, Sequences: len(sampledTexts), Threads: 1}
	want, _ := sampled(t, engine(t, tiny(t), o), steps)
	for _, name := range append([]string{"no-top"}, devices...) {
		for _, batch := range []int{16, 3} {
			if slow(name) && batch == 3 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", name, batch), func(t *testing.T) {
				o.Device, o.Batch = name, batch
				e := engine(t, tiny(t), o)
				got, finite := sampled(t, e, steps)
				computes(t, e)
				for i, text := range sampledTexts {
					if !slices.Equal(got[i], want[i]) {
						t.Errorf("%+v: tokens %v, on the CPU %v", text.Sampling, got[i], want[i])
					}
					returned := e.desc.Vocab
					if text.few && e.device.pass.HasTop() {
						returned = device.TopMost
					}
					if finite[i] != returned {
						t.Errorf("%+v: %d logits, want %d", text.Sampling, finite[i], returned)
					}
				}
			})
		}
	}
}
