package checkpoint

import (
	"math"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// Sizes of the latent attention of a file: a rank, heads, and the keys and values of each.
const latentRank, latentHeads, latentKey, latentValue = 32, 2, 4, 3

// latentModel is a file whose keys and values are of two types.
func latentModel(t *testing.T, keys, values gguf.Type) *Checkpoint {
	t.Helper()
	number := func(key string, n uint32) gguf.KV {
		return gguf.KV{Key: "deepseek2." + key, Value: gguf.U32Value(n)}
	}
	c, err := openGGUFFile(t, ggufBytes(t, []gguf.KV{
		{Key: "general.architecture", Value: gguf.TextValue("deepseek2")},
		{Key: "deepseek2.attention.layer_norm_rms_epsilon", Value: gguf.FloatValue(1e-6)},
		number("block_count", 1), number("context_length", 64), number("embedding_length", 32),
		number("feed_forward_length", 64), number("attention.head_count", latentHeads),
		number("attention.head_count_kv", 1), number("attention.kv_lora_rank", latentRank),
		number("attention.key_length", latentRank+2), number("attention.key_length_mla", latentKey+2),
		number("attention.value_length_mla", latentValue), number("rope.dimension_count", 2),
		number("expert_count", 4), number("expert_used_count", 2), number("expert_feed_forward_length", 32),
		number("expert_shared_count", 1),
	}, []gguf.TensorInfo{
		{Name: "token_embd.weight", Shape: []int64{8, 32}},
		{Name: "blk.0.attn_k_b.weight", Shape: []int64{latentHeads, latentRank, latentKey}, Type: keys},
		{Name: "blk.0.attn_v_b.weight", Shape: []int64{latentHeads, latentValue, latentRank}, Type: values},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stored is element i of a tensor of ggufBytes.
func stored(kind gguf.Type, i int) float32 {
	switch kind {
	case gguf.Q8_0:
		return float32(i / 32)
	case gguf.F32:
		return float32(i/32) + 2
	}
	return math.Float32frombits(uint32(i) << 16)
}

// TestJoined: the matrix of keys and values of latent attention has the rows of keys, which are stored transposed, and
// of values, head by head, in any pieces; of two types as floats.
func TestJoined(t *testing.T) {
	for _, c := range []struct {
		keys, values gguf.Type
		want         safetensors.DType
	}{
		{gguf.F32, gguf.F32, safetensors.F32},
		{gguf.BF16, gguf.BF16, safetensors.BF16},
		{gguf.BF16, gguf.F32, safetensors.F32},
		{gguf.F32, gguf.Q8_0, safetensors.F32},
		{gguf.BF16, gguf.Q8_0, safetensors.F32},
	} {
		var want []float32
		for h := range latentHeads {
			for row := range latentKey + latentValue {
				for k := range latentRank {
					x := stored(c.values, (h*latentValue+row-latentKey)*latentRank+k)
					if row < latentKey {
						x = stored(c.keys, (h*latentRank+k)*latentKey+row)
					}
					want = append(want, x)
				}
			}
		}
		file := latentModel(t, c.keys, c.values)
		x, _ := file.Lookup("model.layers.0.self_attn.kv_b_proj.weight")
		if x.DType != c.want || !slices.Equal(x.Shape, []int{latentHeads * (latentKey + latentValue), latentRank}) {
			t.Errorf("%s, %s: %s %v", c.keys, c.values, x.DType, x.Shape)
		}
		if kind, bytes := x.Stored(); kind != c.keys.String() || bytes >= x.Size && c.values == gguf.Q8_0 {
			t.Errorf("%s, %s: stored as %s in %d bytes", c.keys, c.values, kind, bytes)
		}
		for _, piece := range []int{4, 100, 1 << 20} {
			data := make([]byte, x.Size)
			for at := 0; at < len(data); at += piece {
				if err := file.ReadAt(x, data[at:min(at+piece, len(data))], int64(at)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range want {
				if got := element(x.DType, data, i); got != want[i] {
					t.Fatalf("%s, %s: element %d is %v, want %v", c.keys, c.values, i, got, want[i])
				}
			}
		}
	}
}

// element is a float of stored data.
func element(d safetensors.DType, data []byte, i int) float32 {
	if d == safetensors.BF16 {
		return math.Float32frombits((uint32(data[2*i]) | uint32(data[2*i+1])<<8) << 16)
	}
	b := data[4*i:]
	return math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
}
