package tokenizer

import (
	"syscall"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// cpuTime is the processor time that this process has used: on a busy machine it says more than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkLoad(b *testing.B) {
	data := readFile(b, shared.Path(b, "data/tokenizers/llama3/tokenizer.json"))
	start := cpuTime()
	for b.Loop() {
		fromJSON(b, data)
	}
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"llama3", "llama2-spm"} {
		b.Run(name, func(b *testing.B) {
			tok := fromJSON(b, readFile(b, shared.Path(b, "data/tokenizers/"+name+"/tokenizer.json")))
			text := string(readFile(b, shared.Path(b, "data/text/wiki.test.raw")))
			b.SetBytes(int64(len(text)))
			start := cpuTime()
			for b.Loop() {
				encode(b, tok, text, false)
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}
