package engine

import (
	"context"
	"os"
	"testing"
)

// BenchmarkDevice measures the packed file LOWPACK_BENCH_MODEL on LOWPACK_BENCH_DEVICE: a step of decode at several
// batch sizes and depths, and a prompt of 512 tokens.
func BenchmarkDevice(b *testing.B) {
	path, device := os.Getenv("LOWPACK_BENCH_MODEL"), os.Getenv("LOWPACK_BENCH_DEVICE")
	if path == "" {
		b.Skip("LOWPACK_BENCH_MODEL names no packed file")
	}
	e, err := Open(path, Options{Device: device, Context: 2048, Sequences: 16, Batch: 512})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	for _, c := range []struct {
		name                string
		prompt, depth, seqs int
	}{{"prompt512", 512, 0, 1}, {"decode", 0, 1, 1}, {"decode-depth1024", 0, 1024, 1}, {"decode-batch16", 0, 1, 16}} {
		b.Run(c.name, func(b *testing.B) {
			var batch []Chunk
			for range c.seqs {
				s := sequence(b, e)
				defer s.Close()
				batch = append(batch, Chunk{Seq: s, Logits: make([]float32, e.desc.Vocab)})
				if c.depth > 0 {
					batch[len(batch)-1].Tokens = repeated(c.depth, 1)
				}
			}
			step := func() {
				for i := range batch {
					batch[i].Seq.Truncate(c.depth)
					batch[i].Tokens = repeated(max(1, c.prompt), 2)
				}
				if err := e.Forward(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
			if c.depth > 0 {
				if err := e.Forward(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
			step()
			step() // the first one finds out how long a layer takes
			tokens := 0
			for b.Loop() {
				step()
				tokens += max(1, c.prompt) * c.seqs
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
			if _, ok := e.DeviceInfo(); device != "" && device != "cpu" && !ok {
				b.Fatal("the device has failed")
			}
		})
	}
}
