package convert

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/synth"
)

// BenchmarkConvert measures a conversion end to end, golden outputs apart: a slice of the 2B model, masters in BF16, from
// a warm page cache to a file, in GB/s of input. LOWPACK_BENCH_DIR names a directory for both (a tmpfs leaves the disk
// out).
func BenchmarkConvert(b *testing.B) {
	o, err := synth.Find("bitnet-2b4t-bf16")
	if err != nil {
		b.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(o.Config, &config); err != nil {
		b.Fatal(err)
	}
	config["num_hidden_layers"], config["vocab_size"], config["bos_token_id"], config["eos_token_id"] = 8, 34208, 1, 2 // the same share of embedding as in the whole model
	if o.Config, err = json.Marshal(config); err != nil {
		b.Fatal(err)
	}
	o.Stop = nil // they are beyond that vocabulary
	c, err := synth.New(o)
	if err != nil {
		b.Fatal(err)
	}
	root := os.Getenv("LOWPACK_BENCH_DIR")
	if root == "" {
		root = b.TempDir()
	}
	dir, target := filepath.Join(root, "bench-checkpoint"), filepath.Join(root, "bench-out.safetensors")
	defer os.RemoveAll(dir)
	defer os.Remove(target)
	if err := c.Write(context.Background(), dir, nil); err != nil {
		b.Fatal(err)
	}
	best := time.Duration(1 << 62)
	for b.Loop() {
		s, err := newPlan(b, dir, plain(packed.Recipe{})).Run(context.Background(), target, nil)
		if err != nil {
			b.Fatal(err)
		}
		best = min(best, s.Elapsed)
	}
	b.ReportMetric(float64(c.Bytes())/1e9/best.Seconds(), "GB/s(best)")
}
