package export

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// routed reports whether the experts of a block are chosen or weighted by more than a softmax (NUMERICS N35).
func routed(b model.Block) bool {
	x := b.Experts
	return x != nil && (x.Routing != model.Routing{Normalize: x.Normalize} || x.ChoiceBias != "")
}

// Expressible refuses models with operations whose graphs of ONNX or OpenVINO have not been compared with lowpack.
func Expressible(d *model.Description) error {
	plain := func(b model.Block) bool { return b.Gate.Weight == "" && b.Up.Weight != "" }
	for _, step := range []struct {
		name string
		has  bool
	}{
		{"recurrent layers", d.Recurrent() != ""}, {"learned positions", d.Positions != ""}, {"ALiBi", d.ALiBi},
		{"a norm of the embeddings", !d.EmbedNorm.Skipped()},
		{"gelu by the error function", d.Activation == model.GELU}, {"relu", d.Activation == model.ReLU},
		{"LayerNorm", d.LayerNorm}, {"attention and MLP in parallel", d.Parallel},
		{"a rotation of adjacent values", d.Rope.Pairs}, {"norms of single heads", d.HeadNorm == model.OwnHead},
		{"an MLP without a gate", slices.ContainsFunc(d.Blocks, plain)}, {"clamped queries", d.ClipQKV != 0},
		{"a factor of logits", d.LogitScale != 0}, {"a bias of the output head", d.HeadBias != ""},
		{"queries scaled by position", d.Rope.QueryBeta != 0}, {"parts for images", len(d.Outside) > 0},
		{"latent attention", d.Latent != nil}, {"chunked attention", d.Chunked},
		{"several residual streams", d.Streams != nil}, {"inputs of layers", d.LayerInputs != nil},
		{"a linear layer of low rank beside attention", slices.ContainsFunc(d.Blocks,
			func(b model.Block) bool { return b.Laurel != nil })},
		{"shared keys and values, or a norm of values", slices.ContainsFunc(d.Blocks,
			func(b model.Block) bool { return b.KVOf != 0 || !b.VNorm.Skipped() })},
		{"heads of two sizes", d.Global != nil}, {"a rotation of some pairs of a head only", d.Rope.Rotating != 0},
		{"keys as values, or a factor of the residual stream", slices.ContainsFunc(d.Blocks,
			func(b model.Block) bool { return b.KeysAsValues || b.Scalar != "" })},
		{"experts beside an MLP", slices.ContainsFunc(d.Blocks,
			func(b model.Block) bool { return b.Experts != nil && b.Experts.BesideMLP != nil })},
		{"sparse gates", slices.ContainsFunc(d.Blocks, func(b model.Block) bool { return b.Sparsity != 0 })},
		{"queries that grow without a rotation", d.Rope.StillBeta != 0},
		{"a router with more than a softmax", slices.ContainsFunc(d.Blocks, routed)},
	} {
		if step.has {
			return fmt.Errorf("%w: family %s has %s, which is not written to this format", pack.ErrUnsupported,
				d.Family, step.name)
		}
	}
	return nil
}
