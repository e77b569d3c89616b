package convert

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/pack"
)

// BenchmarkConvert measures a conversion end to end, without golden outputs: a slice of the 2B model, master weights in
// BF16, from a warm page cache to a file, in GB/s of input. LOWPACK_BENCH_DIR names a directory for both (a tmpfs
// leaves the disk out).
func BenchmarkConvert(b *testing.B) {
	o, err := synth.Find("bitnet-2b4t-bf16")
	if err != nil {
		b.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(o.Config, &config); err != nil {
		b.Fatal(err)
	}
	// the same share of embedding as in the whole model
	config["num_hidden_layers"], config["vocab_size"], config["bos_token_id"], config["eos_token_id"] = 8, 34208, 1, 2
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
		s, err := newPlan(b, dir, plain(packed.Recipe{})).Run(context.Background(), target)
		if err != nil {
			b.Fatal(err)
		}
		best = min(best, s.Elapsed)
	}
	b.ReportMetric(float64(c.Bytes())/1e9/best.Seconds(), "GB/s(best)")
}

// BenchmarkBlock measures what one core does with blocks of BF16 master weights, as the pipeline cuts them, in GB/s of
// input: pass 1 of absmean, pass 2, packing as vnni4i, and their total. "read" is the ceiling: the same blocks read
// from the page cache.
func BenchmarkBlock(b *testing.B) {
	s := pack.Shape{M: 1 << 12, K: 2560}
	src := make([]byte, 2*s.M*s.K)
	for i := 0; i < len(src); i += 2 { // ±2⁻⁷ … 2⁻⁶, and zeros
		src[i], src[i+1] = byte(i*i>>7), []byte{0x3c, 0xbc, 0}[i*i>>3%3]
	}
	path := filepath.Join(b.TempDir(), "blocks")
	if err := os.WriteFile(path, src, 0o644); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	q, err := quantize.New(quantize.Job{Rule: "absmean", DType: quantize.BF16, Shape: s})
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(q.Measure(0, src), q.Fix()); err != nil {
		b.Fatal(err)
	}
	l, err := pack.Open(pack.Spec{Name: "vnni4i", Alphabet: pack.Ternary.Name})
	if err != nil {
		b.Fatal(err)
	}
	blocks := pipeline.NewBlocks(s, 1, 32)
	codes, bytes, in := make([]int8, blocks.Rows*s.K), make([]byte, blocks.Rows*s.K/4), make([]byte, 2*blocks.Rows*s.K)
	part := &pack.Matrix{Shape: pack.Shape{M: blocks.Rows, K: s.K}, Alphabet: pack.Ternary, Codes: codes}
	read := func(row int) error { _, err := f.ReadAt(in, int64(2*row*s.K)); return err }
	measure := func(row int) error { return q.Measure(row, in) }
	second := func(row int) error { return q.Quantize(codes, row, in) }
	packed := func(int) error { return l.Pack(bytes, part) }
	for _, c := range []struct {
		name string
		do   []func(row int) error
	}{
		{"read", []func(int) error{read}}, {"measure", []func(int) error{measure}},
		{"codes", []func(int) error{second}},
		{"pack", []func(int) error{packed}},
		{"codes+pack", []func(int) error{second, packed}},
		{"measure+codes+pack", []func(int) error{measure, second, packed}},
		{"read+measure+read+codes+pack", []func(int) error{read, measure, read, second, packed}},
	} {
		b.Run(c.name, func(b *testing.B) {
			best := time.Duration(1 << 62)
			whole := s.M / blocks.Rows
			for b.Loop() {
				start := time.Now()
				for i := range whole {
					for _, do := range c.do {
						if err := do(i * blocks.Rows); err != nil {
							b.Fatal(err)
						}
					}
				}
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(whole*len(in))/1e9/best.Seconds(), "GB/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
