package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/pack"
)

// ggufModel is a one-block Llama with heads of four values; every matrix holds 0, 1, 2, … in Q8_0 or F32.
func ggufModel(t *testing.T, keys []gguf.KV, extra ...gguf.TensorInfo) []byte {
	t.Helper()
	keys = append([]gguf.KV{
		{Key: "general.architecture", Value: gguf.TextValue("llama")},
		{Key: "llama.block_count", Value: gguf.U32Value(1)},
		{Key: "llama.context_length", Value: gguf.U32Value(64)},
		{Key: "llama.embedding_length", Value: gguf.U32Value(32)},
		{Key: "llama.feed_forward_length", Value: gguf.U32Value(64)},
		{Key: "llama.attention.head_count", Value: gguf.U32Value(8)},
		{Key: "llama.attention.head_count_kv", Value: gguf.U32Value(2)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: gguf.FloatValue(1e-5)},
	}, keys...)
	ts := []gguf.TensorInfo{
		{Name: "token_embd.weight", Shape: []int64{8, 32}, Type: gguf.BF16},
		{Name: "output_norm.weight", Shape: []int64{32}},
		{Name: "blk.0.attn_norm.weight", Shape: []int64{32}}, {Name: "blk.0.ffn_norm.weight", Shape: []int64{32}},
		{Name: "blk.0.attn_q.weight", Shape: []int64{32, 32}, Type: gguf.Q8_0},
		{Name: "blk.0.attn_k.weight", Shape: []int64{8, 32}},
		{Name: "blk.0.attn_v.weight", Shape: []int64{8, 32}, Type: gguf.F16},
		{Name: "blk.0.attn_output.weight", Shape: []int64{32, 32}, Type: gguf.Q8_0},
		{Name: "blk.0.ffn_gate.weight", Shape: []int64{64, 32}, Type: gguf.Q8_0},
		{Name: "blk.0.ffn_gate.scale", Shape: []int64{1}},
		{Name: "blk.0.ffn_up.weight", Shape: []int64{64, 32}, Type: gguf.Q8_0},
		{Name: "blk.0.ffn_down.weight", Shape: []int64{32, 64}, Type: gguf.Q8_0},
	}
	return ggufBytes(t, keys, append(ts, extra...))
}

func ggufBytes(t *testing.T, keys []gguf.KV, ts []gguf.TensorInfo) []byte {
	t.Helper()
	if err := gguf.Place(ts); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, keys, ts)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range ts {
		var data []byte
		for i := range x.Weights() {
			switch x.Type {
			case gguf.Q8_0:
				if i%32 == 0 {
					data = append(data, 0, 0x3c) // 1.0 as float16
				}
				data = append(data, byte(i/32)) // number of the block
			case gguf.F32:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i/32)+2))
			default:
				data = binary.LittleEndian.AppendUint16(data, uint16(i))
			}
		}
		if x.Type == gguf.I2_S {
			data = make([]byte, x.Size)
		}
		if err := w.Write(x.Name, data); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func openGGUFFile(t *testing.T, file []byte) (*Checkpoint, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// valuesOf reads a tensor in pieces that are not aligned with rows.
func valuesOf(t *testing.T, c *Checkpoint, name string, piece int) []float32 {
	t.Helper()
	x, ok := c.Lookup(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	data := make([]byte, x.Size)
	for off := 0; off < len(data); off += piece {
		if err := c.ReadAt(x, data[off:min(off+piece, len(data))], int64(off)); err != nil {
			t.Fatal(err)
		}
	}
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

// TestGGUF: names, types, rows and scales equal the original checkpoint's.
func TestGGUF(t *testing.T) {
	c, err := openGGUFFile(t, ggufModel(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []int{1 << 20, 7, 130} {
		q := valuesOf(t, c, "model.layers.0.self_attn.q_proj.weight", piece)
		k := valuesOf(t, c, "model.layers.0.self_attn.k_proj.weight", piece)
		for m := range 32 { // stored interleaved instead of in halves
			stored := m/4*4 + m%2*2 + m%4/2
			if q[32*m+5] != float32(stored) || m < 8 && k[32*m+5] != float32(stored+2) {
				t.Fatalf("row %d: q %v, k %v, want row %d", m, q[32*m+5], k[32*m%256+5], stored)
			}
		}
		gate := valuesOf(t, c, "model.layers.0.mlp.gate_proj.weight", piece)
		up := valuesOf(t, c, "model.layers.0.mlp.up_proj.weight", piece)
		if gate[33] != 2 || up[33] != 1 || gate[63*32] != 126 {
			t.Errorf("gate %v, up %v: the scale of 2 is not applied to the one it belongs to", gate[33], up[33])
		}
	}
	for name, dtype := range map[string]string{"model.embed_tokens.weight": "BF16",
		"model.layers.0.self_attn.v_proj.weight": "F16",
		"model.norm.weight":                      "F32",
		"model.layers.0.mlp.down_proj.weight":    "F32"} {
		if x, ok := c.Lookup(name); !ok || string(x.DType) != dtype {
			t.Errorf("%s: %v", name, x)
		}
	}
	if v := c.Views(); len(v) != 1 || v[0].Name != "m.gguf (decoded)" || len(c.Sources()) != 1 ||
		c.Sources()[0].Name != "m.gguf" || len(c.Shards()) != 0 {
		t.Errorf("%v, %v, %v", v, c.Sources(), c.Shards())
	}
	for name, want := range map[string]string{"model.layers.0.self_attn.q_proj.weight": "Q8_0 1088",
		"model.norm.weight": "F32 128", "model.embed_tokens.weight": "BF16 512"} {
		x, _ := c.Lookup(name)
		if kind, bytes := x.Stored(); fmt.Sprint(kind, " ", bytes) != want {
			t.Errorf("%s: %s, %d bytes; want %s", name, kind, bytes, want)
		}
	}
	if len(c.Tensors()) != 11 || !strings.Contains(string(c.Config()), "LlamaForCausalLM") || c.Unchanged() != nil {
		t.Errorf("%d tensors, config %s", len(c.Tensors()), c.Config())
	}
}

// TestGGUFRefused: whatever would change the model is rejected by name.
func TestGGUFRefused(t *testing.T) {
	hadamard := gguf.KV{Key: "prism.hadamard.version", Value: gguf.U32Value(1)}
	for says, file := range map[string][]byte{
		`key "prism.hadamard.version"`: ggufModel(t, []gguf.KV{hadamard}),
		`unexpected tensor "blk.0.attn_sub_norm2.weight`: ggufModel(t, nil,
			gguf.TensorInfo{Name: "blk.0.attn_sub_norm2.weight", Shape: []int64{32}}),
		`unexpected tensor "golden"`: ggufModel(t, nil, gguf.TensorInfo{Name: "golden", Shape: []int64{32}}),
		`"mamba"; supported are llama`: ggufBytes(t,
			[]gguf.KV{{Key: "general.architecture", Value: gguf.TextValue("mamba")}},
			[]gguf.TensorInfo{{Name: "a", Shape: []int64{1}}}),
		"shape [3]; want one F32, or one for each expert": ggufModel(t, nil,
			gguf.TensorInfo{Name: "blk.0.attn_q.scale", Shape: []int64{3}}),
		"there is no output.weight that it multiplies": ggufModel(t, nil,
			gguf.TensorInfo{Name: "output.scale", Shape: []int64{1}}),
		"3 dimensions": ggufModel(t, nil, gguf.TensorInfo{Name: "blk.1.attn_v.weight", Shape: []int64{2, 2, 2}}),
	} {
		_, err := openGGUFFile(t, file)
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "m.gguf") {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
}

// TestGGUFParts: two parts form one model; a missing part is an error.
func TestGGUFParts(t *testing.T) {
	dir := t.TempDir()
	split := func(no uint32) []gguf.KV {
		return []gguf.KV{{Key: "split.no", Value: gguf.U32Value(no)}, {Key: "split.count", Value: gguf.U32Value(2)}}
	}
	first := filepath.Join(dir, "m-00001-of-00002.gguf")
	second := ggufBytes(t, split(1), []gguf.TensorInfo{{Name: "output.weight", Shape: []int64{8, 32}}})
	if err := os.WriteFile(first, ggufModel(t, split(0)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(first); err == nil || !strings.Contains(err.Error(), "m-00002-of-00002.gguf") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "m-00002-of-00002.gguf"), second, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(first)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, ok := c.Lookup("lm_head.weight"); !ok || len(c.Sources()) != 2 ||
		!strings.Contains(string(c.Config()), `"tie_word_embeddings": false`) {
		t.Errorf("%v %s", c.Sources(), c.Config())
	}
	if _, err := Open(filepath.Join(dir, "m-00002-of-00002.gguf")); !errors.Is(err, pack.ErrUnsupported) {
		t.Error(err)
	}
}

// TestGGUFShortened: truncation of the open file is an error.
func TestGGUFShortened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, ggufModel(t, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := os.Truncate(path, 2000); err != nil {
		t.Skip(err)
	}
	x, _ := c.Lookup("model.layers.0.mlp.down_proj.weight")
	if err := c.ReadAt(x, make([]byte, x.Size), 0); !errors.Is(err, pack.ErrCorrupt) || c.Unchanged() == nil {
		t.Error(err)
	}
}

// TestI2S: values are code · scale, read whole or in pieces.
func TestI2S(t *testing.T) {
	m := pack.NewMatrix(pack.Shape{M: 8, K: 128}, pack.Ternary)
	want := make([]float32, len(m.Codes))
	for i := range m.Codes {
		m.Codes[i] = int8(i*i%7%3) - 1
		want[i] = float32(m.Codes[i]) * 0.5
	}
	l, err := pack.Open(pack.Spec{Name: "i2s"})
	if err != nil {
		t.Fatal(err)
	}
	tail, data := pack.I2STail(0.5), make([]byte, len(m.Codes)/4)
	if err := l.Pack(data, m); err != nil {
		t.Fatal(err)
	}
	file := ggufModel(t, nil, gguf.TensorInfo{Name: "output.weight", Shape: []int64{8, 128}, Type: gguf.I2_S})
	copy(file[len(file)-len(data)-len(tail):], append(data, tail[:]...))
	c, err := openGGUFFile(t, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []int{1 << 20, 700} {
		if got := valuesOf(t, c, "lm_head.weight", piece); !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: %v", piece, got)
		}
	}
}
