package hf

import (
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// What llama.cpp computes for an architecture, where config.json can say something else.

// activations are the activations of MLPs under their names in config.json.
var activations = map[string]model.Activation{
	"silu": model.SiLU, "gelu_pytorch_tanh": model.GELUTanh, "gelu_new": model.GELUTanh, "relu2": model.ReLU2,
	"xielu": model.XIELU,
}

// every selects the last of each n blocks.
func every(n int) layers { return func(block, _ int) bool { return (block+1)%n == 0 } }

// allBut selects all blocks but the last of each n.
func allBut(n int) layers { return func(block, _ int) bool { return (block+1)%n != 0 } }

// Windows of EXAONE 4: llama.cpp recognizes the model that has them by its number of layers.
const exaoneWindowed = 64

func exaoneWindows(block, layers int) bool {
	return layers == exaoneWindowed && allBut(4)(block, layers)
}

func exaoneStill(block, layers int) bool { return layers == exaoneWindowed && every(4)(block, layers) }

// Local reports whether llama.cpp gives a block of a model a sliding window.
func (a Architecture) Local(d *model.Description, block int) bool {
	if a.family.follows(d) {
		return d.Blocks[block].Local
	}
	return a.family.local.of(block, d.Layers)
}

// follows reports whether a key gives windows to the blocks that have one in the model.
func (f *family) follows(d *model.Description) bool { return f.patterned && f.local.of(0, d.Layers) }

// Windowed reports whether windows are in other blocks of a model than older versions of llama.cpp have them in, which
// do not read the list.
func (a Architecture) Windowed(d *model.Description) bool {
	for i := range d.Blocks {
		if a.family.follows(d) && d.Blocks[i].Local != a.family.local.of(i, d.Layers) {
			return true
		}
	}
	return false
}

// stays reports whether llama.cpp does not rotate queries and keys of a block.
func (f *family) stays(d *model.Description, block int) bool {
	if f.still != nil && f.follows(d) {
		return !d.Blocks[block].Local
	}
	return f.still.of(block, d.Layers)
}

func (l layers) of(block, layers int) bool { return l != nil && l(block, layers) }

// HasFactors reports whether a tensor with factors of the rotary embedding is read.
func (a Architecture) HasFactors(tensor string) bool {
	return slices.Contains(a.family.rope, tensor)
}

// Fits rejects models that llama.cpp does not load, or computes differently. Activation and Local say what it computes
// besides, and a caller may allow another model.
func (a Architecture) Fits(d *model.Description) error {
	f := a.family
	switch own := d.Head != d.Embed; {
	case f.head == ownHead && !own:
		return refuse("an output head that is tied to the embedding, and architecture %s of llama.cpp has one of "+
			"its own", f.arch)
	case f.head == tiedHead && own:
		return refuse("an output head beside the embedding: architecture %s of llama.cpp reads none; if it is a "+
			"quantized one, convert without --head", f.arch)
	case f.square && d.Heads*d.HeadDim != d.Hidden:
		return refuse("%d heads of %d values; in architecture %s of llama.cpp they have the %d of the embedding",
			d.Heads, d.HeadDim, f.arch, d.Hidden)
	case f.still != nil && f.follows(d) && d.SlidingWindow == 0:
		return refuse("no block has a sliding window; architecture %s of llama.cpp takes such a file for one with "+
			"its own windows, and rotates there", f.arch)
	case d.LayerNorm && f.eps == "" && d.NormEps != usualEps:
		return refuse("an epsilon of %v; architecture %s of llama.cpp has %v", d.NormEps, f.arch, usualEps)
	}
	for i := range d.Blocks {
		if still := f.stays(d, i); d.Blocks[i].NoRope != still {
			return refuse("layer %d %s queries and keys; in architecture %s of llama.cpp it %s them", i,
				rotates[!d.Blocks[i].NoRope], f.arch, rotates[!still])
		}
	}
	if err := f.experts.fits(f.arch, d); err != nil || f.fits == nil {
		return err
	}
	return f.fits(d)
}

var rotates = map[bool]string{true: "rotates", false: "does not rotate"}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", pack.ErrUnsupported, fmt.Sprintf(format, args...))
}

// llama.cpp recognizes the largest Gemma of a generation by its number of layers; its queries are scaled by
// hidden/heads instead of the size of a head.
const gemma2Largest, gemma3Largest = 46, 62

func queriesScaled(largest int) func(d *model.Description) error {
	return func(d *model.Description) error {
		scale := 1 / math.Sqrt(float64(d.HeadDim))
		if d.Layers == largest {
			scale = 1 / math.Sqrt(float64(d.Hidden/d.Heads))
		}
		if d.AttnScale != 0 && d.AttnScale != float32(scale) {
			return refuse("queries are scaled by %v; llama.cpp scales them by %v", d.AttnScale, float32(scale))
		}
		return nil
	}
}

func clampedAsGptOss(d *model.Description) error {
	if d.GateAlpha != 1.702 || d.GateLimit != 7 {
		return refuse("swiglu_alpha %v and swiglu_limit %v; llama.cpp computes with 1.702 and 7", d.GateAlpha,
			d.GateLimit)
	}
	return nil
}

// oneBase: blocks with a window rotate by the base of the others. Newer versions of llama.cpp have a key for another.
func oneBase(d *model.Description) error {
	if d.Rope.LocalTheta != 0 && d.Rope.LocalTheta != d.Rope.Theta {
		return refuse("rope_theta %v in blocks with a sliding window and %v in others; llama.cpp has one for all",
			d.Rope.LocalTheta, d.Rope.Theta)
	}
	return nil
}

// Norms of heads in command-r: llama.cpp recognizes the models that have them by their number of layers.
const cohereNormed = 64

func cohereNorms(d *model.Description) error {
	if normed := !d.Blocks[0].QNorm.Skipped(); normed != (d.Layers >= cohereNormed) {
		return refuse("norms of heads (use_qk_norm): %v in a model of %d layers; llama.cpp has them from %d layers on",
			normed, d.Layers, cohereNormed)
	}
	return nil
}

// ownKeys: each head has keys and values of its own.
func ownKeys(d *model.Description) error {
	if d.KVHeads != d.Heads {
		return refuse("%d key/value heads of %d (num_key_value_heads); llama.cpp demands as many", d.KVHeads, d.Heads)
	}
	return nil
}

// usualScores: attention has the usual factor.
func usualScores(d *model.Description) error {
	if d.AttnScale != 0 {
		return refuse("scores are multiplied by %v (scale_attn_weights false); llama.cpp divides them by the root of "+
			"the size of a head", d.AttnScale)
	}
	return nil
}

func allBiased(d *model.Description) error {
	if d.Blocks[0].O.Bias == "" {
		return refuse("no biases (use_bias false); llama.cpp demands them")
	}
	return nil
}
