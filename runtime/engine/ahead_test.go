package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/lowpack/lowpack/formats/packed"
)

// TestStages: each block reads its own linear layers ahead, and the head follows the blocks.
func TestStages(t *testing.T) {
	v := tiny(t)
	e := engine(t, v, Options{})
	nameOf := func(part []byte) string {
		for name, x := range v.tensors {
			if len(part) > 0 && len(x.Data) > 0 && unsafe.SliceData(x.Data) == unsafe.SliceData(part) {
				return name
			}
		}
		return ""
	}
	stages := e.weights.stages(func(_ portion, b []byte) []byte { return b })
	if len(stages) != len(e.weights.blocks)+1 {
		t.Fatalf("%d stages for %d blocks", len(stages), len(e.weights.blocks))
	}
	if stages[0][0] == nil {
		t.Error("nothing is read ahead")
	}
	for i, parts := range stages[:len(e.weights.blocks)] {
		if len(parts) != 7 {
			t.Errorf("block %d reads %d matrices ahead, want 7", i, len(parts))
		}
		for _, p := range parts {
			name, own := nameOf(p), fmt.Sprintf("model.layers.%d.", i)
			if p != nil && (!strings.HasPrefix(name, own) || !strings.HasSuffix(name, packed.PackedSuffix)) {
				t.Errorf("block %d reads %q ahead", i, name)
			}
		}
	}
	if last := stages[len(stages)-1]; len(last) != 1 || nameOf(last[0]) != e.desc.Head {
		t.Errorf("after the blocks %d matrices, want %s", len(last), e.desc.Head)
	}
}

// recorder notes the stages that a pass reaches.
type recorder []int

func (r *recorder) Reach(stage int) { *r = append(*r, stage) }

// TestReach: a pass tells the reader of each block, and of the head, before it uses them.
func TestReach(t *testing.T) {
	e := engine(t, tiny(t), Options{})
	var got recorder
	e.ahead = &got
	logits := make([]float32, e.desc.Vocab)
	chunk := Chunk{Seq: sequence(t, e), Tokens: []int{1}, Logits: logits}
	if err := e.Forward(context.Background(), []Chunk{chunk}); err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("reached %v, want %v", got, want)
	}
}
