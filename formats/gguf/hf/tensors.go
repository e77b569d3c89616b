package hf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/pack"
)

// Tensor is a checkpoint tensor and its source in the GGUF.
type Tensor struct {
	Name  string // in the checkpoint
	From  gguf.TensorInfo
	Heads int              // > 0: rows are permuted within this many heads, see Row
	Less  float32          // subtracted from the stored values
	Scale *gguf.TensorInfo // multiplies the stored values: one for all, or one for each expert; nil = none
	// Values of latent attention, [heads, values, rank], where From has its keys, [heads, rank, keys]; nil in other
	// tensors. The checkpoint has both in one tensor, [heads·(keys + values), rank].
	Values *gguf.TensorInfo
	// Numbers are the elements where keys have them, and From is of no tensor; nil in others.
	Numbers []float32
}

// Row returns the stored row of checkpoint row m. The permutation interleaves the halves of a head.
func (t *Tensor) Row(m int64) int64 {
	return int64(RowIn(int(m), int(t.From.Shape[0]), t.Heads))
}

// List returns the checkpoint tensors, sorted by their GGUF names.
func (f *File) List() ([]Tensor, error) {
	family, err := f.family()
	if err != nil {
		return nil, err
	}
	k := &keys{h: f.Keys, arch: family.arch}
	heads := map[string]int64{"attn_q": k.must(".attention.head_count"), "attn_k": k.keyHeads(family)}
	if k.err != nil {
		return nil, k.err
	}
	layers, blocks := k.layers(), k.must(".block_count")
	if k.err != nil {
		return nil, k.err
	}
	var list []Tensor
	for _, name := range slices.Sorted(maps.Keys(f.Tensors)) {
		t := Tensor{From: f.Tensors[name]}
		if n, ok := blockOf(name); ok && n >= layers && n < blocks { // it predicts further tokens
			continue
		}
		joined, err := f.latentPart(family, name, &t)
		var part string
		if !joined {
			t.Name, part, err = family.rename(name)
		}
		switch {
		case err != nil:
			return nil, err
		case t.Name == "":
			if err := f.scales(name); err != nil {
				return nil, err
			}
			continue
		}
		if err := f.complete(&t, family, heads[part]); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		list = append(list, t)
	}
	if family.xielu {
		list = append(list, xieluTensors(k)...)
	}
	return list, k.err
}

// blockOf returns the number of the block that a tensor is of; false for other tensors.
func blockOf(name string) (int64, bool) {
	rest, ok := strings.CutPrefix(name, "blk.")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	return n, ok && err == nil
}

// rowVectors end the names of checkpoint tensors that are matrices of one row, and vectors in GGUF files.
var rowVectors = []string{"shared_expert_gate.weight", "moe_statics.e_score_correction_bias"}

func (f *File) complete(t *Tensor, family *family, heads int64) error {
	if n := len(t.From.Shape); n > 2 && t.Values == nil && !(n == 3 && strings.HasSuffix(t.From.Name,
		"_exps.weight")) {
		return fmt.Errorf("%w: it has %d dimensions", pack.ErrUnsupported, n)
	}
	if family.permuted && heads > 0 {
		if rows := t.From.Shape[0]; rows%2 != 0 || rows/2%heads != 0 || len(t.From.Shape) > 2 {
			return fmt.Errorf("%w: shape %v does not divide into %d heads", pack.ErrCorrupt, t.From.Shape, heads)
		}
		t.Heads = int(heads)
	}
	if n := t.From.Shape; family.convs && len(n) == 2 && strings.HasSuffix(t.From.Name, ConvPart+".weight") {
		t.From.Shape = []int64{n[0], 1, n[1]}
	}
	isRow := func(end string) bool { return strings.HasSuffix(t.Name, end) }
	if len(t.From.Shape) == 1 && slices.ContainsFunc(rowVectors, isRow) {
		t.From.Shape = []int64{1, t.From.Shape[0]}
	}
	if family.plusOne && strings.HasSuffix(t.From.Name, "norm.weight") {
		t.Less = 1
	}
	scale, ok := f.Tensors[strings.TrimSuffix(t.From.Name, ".weight")+".scale"]
	if !ok {
		return nil
	}
	n, experts := scale.Weights(), int64(1)
	if len(t.From.Shape) == 3 {
		experts = t.From.Shape[0]
	}
	if n != 1 && n != experts || scale.Type != gguf.F32 {
		return fmt.Errorf("%w: its .scale has type %s and shape %v; want one F32, or one for each expert",
			pack.ErrUnsupported, scale.Type, scale.Shape)
	}
	t.Scale = &scale
	return nil
}

// scales refuses a .scale without the tensor that it multiplies.
func (f *File) scales(name string) error {
	of, ok := strings.CutSuffix(name, ".scale")
	if _, held := f.Tensors[of+".weight"]; ok && !held {
		return fmt.Errorf("%w: tensor %q: there is no %s.weight that it multiplies", pack.ErrUnsupported, name, of)
	}
	return nil
}

// rename returns the checkpoint name of a tensor and its part of the block; "" for tensors that are covered by
// config.json or another tensor.
func (f *family) rename(name string) (to, part string, err error) {
	if slices.Contains(f.rope, name) {
		return "", "", nil
	}
	prefix, rest, usual := "", name, outerNames
	if in, ok := strings.CutPrefix(name, "blk."); ok {
		number, in, _ := strings.Cut(in, ".")
		prefix, rest, usual = cmp.Or(f.blocks, usualBlocks)+number+".", in, blockNames
	}
	dot := max(strings.LastIndexByte(rest, '.'), 0)
	part, end := rest[:dot], rest[dot:]
	if whole := f.names[rest]; whole != "" {
		return prefix + whole, part, nil
	}
	to, named := f.names[part]
	if !named {
		to = usual[part]
	}
	switch {
	case to == "":
	case (end == ".scale" || end == ".input_scale") && (prefix != "" || part == "output"):
		return "", "", nil // the latter is for activations of NVFP4
	case !f.has(part, end):
	case end == ".weight", end == ".bias":
		return prefix + to + end, part, nil
	}
	return "", "", errName(name, f.arch)
}
