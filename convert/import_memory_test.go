package convert

import (
	"runtime"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
)

// TestImportMemory: a plan that imports codes does not keep the scales that it has read.
func TestImportMemory(t *testing.T) {
	dir := mini(t, "qwen3-8b-gptq", func(o *synth.Options) {
		o.Mini = false
		o.Config = []byte(strings.NewReplacer(`"hidden_size": 4096`, `"hidden_size": 2048`,
			`"intermediate_size": 12288`,
			`"intermediate_size": 3072`, `"num_attention_heads": 32`, `"num_attention_heads": 16`,
			`"num_hidden_layers": 36`, `"num_hidden_layers": 6`, `"vocab_size": 151936`, `"vocab_size": 320`,
			`151643`, `301`,
			`151645`, `302`).Replace(string(o.Config)))
	})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	p, err := NewPlan(t.Context(), dir, Options{Recipe: packed.Recipe{Golden: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	kept, scales := heap()-before, int64(0)
	for _, e := range p.contents.Manifest.Packed {
		scales += e.AllBytes() - int64(e.StoredBytes())
	}
	if scales < 2<<20 || kept > scales/2 {
		t.Errorf("the plan keeps %d bytes; scales have %d", kept, scales)
	}
	if len(p.Tensors) == 0 {
		t.Error("the plan is empty")
	}
}
