package quantize

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// readModel reads a safetensors file without using another package of this module.
func readModel(t *testing.T, path string) (tensor func(name string) (dtype string, shape []int, data []byte),
	names []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	head := map[string]struct {
		DType   string `json:"dtype"`
		Shape   []int
		Offsets [2]int `json:"data_offsets"`
	}{}
	if err := json.Unmarshal(b[8:8+n], &head); err != nil {
		t.Fatal(err)
	}
	for name := range head {
		names = append(names, name)
	}
	return func(name string) (string, []int, []byte) {
		h := head[name]
		return h.DType, h.Shape, b[8+n:][h.Offsets[0]:h.Offsets[1]]
	}, names
}

// TestTinyBitnet compares scales and code counts of every linear layer with the results of an independent float64
// program, and all codes with the packed form of the same model.
func TestTinyBitnet(t *testing.T) {
	text, err := os.ReadFile(shared.Testdata(t, "tiny-bitnet-golden/tiny-bitnet.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Ternary map[string]struct {
			Scale             float64
			Minus, Zero, Plus int64
		}
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Ternary) != 42 {
		t.Fatalf("%d ternary tensors, want 42", len(golden.Ternary))
	}
	masterWeights, _ := readModel(t, shared.Testdata(t, "tiny-bitnet/model.safetensors"))
	packed, _ := readModel(t, shared.Testdata(t, "tiny-bitnet-packed/model.safetensors"))
	for name, want := range golden.Ternary {
		dtype, shape, data := masterWeights(name)
		s := pack.Shape{M: shape[0], K: shape[1]}
		q, codes := run(t, Job{Rule: "absmean", DType: DType(dtype), Shape: s, Stats: true}, data)
		if got, s := q.Scales()[0], 1/float32(want.Scale); got != 1/s {
			t.Errorf("%s: scale %v, want %v", name, got, 1/s)
		}
		if c := q.Stats().Counts; c[0] != want.Minus || c[1] != want.Zero || c[2] != want.Plus {
			t.Errorf("%s: codes %v, want %v", name, c, want)
		}
		_, _, data = packed(name)
		imported := make([]int8, len(codes))
		if err := unpackU8(imported, s, data, 0, s.M); err != nil {
			t.Fatal(err)
		}
		for i := range codes {
			if codes[i] != imported[i] {
				t.Fatalf("%s: code %d is %d, in the packed form %d", name, i, codes[i], imported[i])
			}
		}
		_, _, data = packed(name + "_scale")
		var scale [1]float32
		BF16.Widen(scale[:], data)
		if math.Abs(float64(scale[0])-want.Scale) > want.Scale/256 {
			t.Errorf("%s: stored scale %v, want about %v", name, scale[0], want.Scale)
		}
	}
}
