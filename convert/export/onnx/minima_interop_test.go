package onnx

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestInteropMinima: with minima of every type, plain graphs have the logits of the unpacked floats, and exact graphs
// lowpack's logits, except for activation codes on the other side of a tie; an embedding has minima too.
func TestInteropMinima(t *testing.T) {
	ids := []int{1, 5, 9, 33, 2, 71, 100, 18, 9, 9, 44}
	for name, source := range withMinima(t) {
		for _, a := range []export.Arithmetic{export.Plain, export.Exact} {
			dir, _ := exportedOf(t, source, a)
			_, got := onnxruntime(t, dir, session{Threads: 2, Level: everything, Prompts: [][]int{ids}, Logits: true})
			switch {
			case a == export.Plain:
				exports.Near(t, name+" plain", got, exports.Logits(t, exports.Unpacked(t, source), ids), 1e-5)
			case name == "one scale per token": // a flipped code is a larger part of its scale (TestInteropGroups)
				exports.Near(t, name+" exact", got, exports.Logits(t, source, ids), 0.05)
			default:
				exports.Near(t, name+" exact", got, exports.Logits(t, source, ids), 0.02)
			}
		}
	}
}

// TestInteropMinimaExperts: minima of experts go through the loop over them.
func TestInteropMinimaExperts(t *testing.T) {
	checkpoint := shared.Path(t, filepath.Join("data", "transformers", "granitemoe"))
	source := exports.WithMinima(t, exports.Packed(t, checkpoint, inGroups("int4", "group:32", "")), packed.ScaleF16)
	var ids []int
	exports.ReadJSON(t, filepath.Join(checkpoint, "tokens.json"), &ids)
	ids = ids[:24]
	for _, a := range []export.Arithmetic{export.Plain, export.Exact} {
		dir, _ := exportedOf(t, source, a)
		tokens, got := onnxruntime(t, dir,
			session{Threads: 2, Level: everything, Prompts: [][]int{ids}, New: 4, Logits: true})
		text := append(slices.Clone(ids), tokens[0]...)
		if a == export.Plain {
			exports.Near(t, "plain", got, exports.Logits(t, exports.Unpacked(t, source), text), 1e-5)
		} else {
			exports.Near(t, "exact", got, exports.Logits(t, source, text), 0.02)
		}
	}
}

// TestInteropMinimaSums: in the first layer the sums that minima multiply are those of the activation codes, by ==, in
// onnxruntime and in OpenVINO, and so are the accumulators beside them.
func TestInteropMinimaSums(t *testing.T) {
	prompt := []int{1, 5, 9, 33, 2, 71, 100, 18, 9, 9, 44}
	sources := withMinima(t)
	for _, name := range []string{"K-quants of four bits", "large groups", "small groups", "one scale per token"} {
		f, err := packed.Open(sources[name])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := plan(f, export.Exact)
		if err != nil {
			t.Fatal(err)
		}
		w := m.watch(t, roles[0])
		n, err := integersOf(w.entry, f.Manifest().Activation)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(m.nodes, func(n node) bool {
			return n.op == "FusedMatMul" &&
				n.out[0] == "layers.0.attention.q/minima"
		})
		sums := m.nodes[i].in[0] + "/integers"
		m.show(value{sums, float32Kind, []any{batch, tokens, int64(n.blocks), int64(1)}})
		dir := written(t, m)
		for _, runtime := range []string{"onnxruntime", "openvino"} {
			_, values := in(t, runtime, dir, session{Threads: 2, Level: everything, Prompts: [][]int{prompt},
				Outputs: []string{w.codes, w.sums, sums}})
			x, rest := values[:len(prompt)*w.columns], values[len(prompt)*w.columns:]
			w.sameSums(t, f, x, rest[:len(prompt)*w.blocks*w.entry.MatrixShape().M])
			got := rest[len(prompt)*w.blocks*w.entry.MatrixShape().M:]
			for b := range len(prompt) * n.blocks {
				sum := float32(0)
				for _, code := range x[b*n.block:][:n.block] {
					sum += code
				}
				if got[b] != sum {
					t.Fatalf("%s in %s: block %d has the sum %v; of its codes it is %v", name, runtime, b, got[b], sum)
				}
			}
		}
	}
}
