package lowpack_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/runtime/engine"
)

// BenchmarkSpeculation decodes given texts with a model, with and without drafts interleaved: the costs are those of the
// model, the share of right guesses that of the text, as if the model had written it.
//
//	LOWPACK_MODEL=m.safetensors go test -run xxx -bench Speculation -benchtime 3x .
func BenchmarkSpeculation(b *testing.B) {
	path := os.Getenv("LOWPACK_MODEL")
	if path == "" {
		b.Skip("LOWPACK_MODEL names no packed file")
	}
	m, err := lowpack.OpenWith(path, engine.Options{Context: 1024})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for _, text := range speculationTexts(b, m) {
		b.Run(text.name, func(b *testing.B) { text.measure(b, m) })
	}
}

// forced is a text that a model is made to write behind a prompt.
type forced struct {
	name         string
	prompt, text []int
}

const forcedTokens = 128

func speculationTexts(b *testing.B, m *lowpack.Model) []forced {
	ids := func(path string) []int {
		data, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		list, err := m.Tokenizer.Encode(string(data[:min(len(data), 20000)]), false)
		if err != nil {
			b.Fatal(err)
		}
		return list
	}
	r := rand.New(rand.NewPCG(1, 2))
	code, prose := ids("lowpack.go"), ids(shared.Path(b, "data/text/wiki.test.raw"))
	code = append(code, ids("model.go")...)
	texts := []forced{{name: "code", prompt: code[:384], text: code[384:]}, {name: "prose", prompt: prose[:384], text: prose[384:]}}
	for _, percent := range []int{2, 5, 15} {
		edited := slices.Clone(code[64:384])
		for i := range edited {
			if r.IntN(100) < percent {
				edited[i] = prose[r.IntN(len(prose))]
			}
		}
		texts = append(texts, forced{name: fmt.Sprintf("%d%%-edited", percent), prompt: code[:384], text: edited})
	}
	var noise []int // what follows has been seen often, and another token each time
	for range 384 + forcedTokens {
		noise = append(noise, prose[r.IntN(12)])
	}
	return append(texts, forced{name: "misleading", prompt: noise[:384], text: noise[384:]})
}

func (f *forced) measure(b *testing.B, m *lowpack.Model) {
	ctx, vocab := context.Background(), m.Engine.Description().Vocab
	seq, err := m.Engine.NewSequence()
	if err != nil {
		b.Fatal(err)
	}
	defer seq.Close()
	last := len(f.prompt) - 1
	if err := m.Engine.Forward(ctx, []engine.Chunk{{Seq: seq, Tokens: f.prompt[:last], Logits: make([]float32, vocab)}}); err != nil {
		b.Fatal(err)
	}
	decode := func(speculate int) engine.Result {
		seq.Truncate(last)
		res, err := m.Engine.Generate(ctx, seq, engine.Request{
			Prompt: f.prompt[last:], History: f.prompt[:last], MaxTokens: forcedTokens, Speculate: speculate,
			Adjust: func(generated []int, logits []float32) { logits[f.text[len(generated)]] = 1e30 },
		}, func(engine.Piece) bool { return true })
		if err != nil || !slices.Equal(res.Tokens, f.text[:forcedTokens]) {
			b.Fatal(err, "another text")
		}
		return res
	}
	decode(engine.SpeculateAuto) // learns what passes cost
	var without, with time.Duration
	var res engine.Result
	for b.Loop() {
		without += decode(0).Decode
		res = decode(engine.SpeculateAuto)
		with += res.Decode
	}
	b.ReportMetric(float64(without)/float64(with), "speedup")
	b.ReportMetric(float64(forcedTokens*b.N)/without.Seconds(), "tokens/s-without")
	b.ReportMetric(float64(forcedTokens-1)/float64(res.Steps), "tokens/step")
	b.ReportMetric(float64(res.Accepted)/float64(max(res.Drafted, 1)), "accepted")
}
