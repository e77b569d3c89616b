package onnx

import (
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// heap is a writer that records the peak heap size.
type heap struct{ peak, written uint64 }

func (h *heap) Write(p []byte) (int, error) {
	h.written += uint64(len(p))
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapAlloc > h.peak {
		h.peak = m.HeapAlloc
	}
	return len(p), nil
}

// TestMemory: a directory is written in the memory of one tensor of codes, plus the graph and small buffers, for any
// number of tensors. Large tensors are aligned for mapping everywhere.
func TestMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory itself")
	}
	dir := filepath.Join(t.TempDir(), "llama")
	tinymodel.MiniatureWith(t, "llama-3.2-1b", dir, func(o *synth.Options) {
		o.Mini, o.Config = false, []byte(`{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_act":"silu","hidden_size":768,"intermediate_size":4096,
			"num_attention_heads":12,"num_hidden_layers":6,"num_key_value_heads":12,"vocab_size":512,"max_position_embeddings":256,"rms_norm_eps":1e-5,
			"rope_theta":10000,"tie_word_embeddings":true,"torch_dtype":"bfloat16"}`)
	})
	source := exports.Packed(t, dir, packed.Recipe{Quant: "int4", AllowLossy: true})
	f, err := packed.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	for _, a := range export.Arithmetics() {
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := plan(f, export.Arithmetic(a))
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.tensors {
			if x := &m.tensors[i]; x.bytes() >= 1<<20 && x.offset%(64<<10) != 0 {
				t.Errorf("%s: %d bytes at offset %d, which Windows does not map", x.name, x.bytes(), x.offset)
			}
		}
		h := &heap{}
		for _, file := range m.files() {
			if err := file.Write(h); err != nil {
				t.Fatal(err)
			}
		}
		const largest = 768 * 4096
		peak := h.peak - min(h.peak, before.HeapAlloc)
		t.Logf("%s: %d KiB for %d KiB of files; the largest tensor has %d KiB of codes", a, peak>>10, h.written>>10,
			largest>>10)
		if peak > 3*largest || h.written < 10*largest || peak < largest {
			t.Errorf("%s: %d bytes of heap for %d of files", a, peak, h.written)
		}
	}
}
