package tokenizer

import (
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/cpu"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

func BenchmarkLoad(b *testing.B) {
	data := readFile(b, shared.Path(b, "data/tokenizers/llama3/tokenizer.json"))
	start := cpu.Time()
	for b.Loop() {
		fromJSON(b, data)
	}
	b.ReportMetric(float64(cpu.Time()-start)/float64(b.N), "cpu-ns/op")
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"llama3", "llama2-spm"} {
		b.Run(name, func(b *testing.B) {
			tok := fromJSON(b, readFile(b, shared.Path(b, "data/tokenizers/"+name+"/tokenizer.json")))
			text := string(readFile(b, shared.Path(b, "data/text/wiki.test.raw")))
			b.SetBytes(int64(len(text)))
			start := cpu.Time()
			for b.Loop() {
				encode(b, tok, text, false)
			}
			b.ReportMetric(float64(cpu.Time()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}
