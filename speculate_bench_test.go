package lowpack_test

import (
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

// BenchmarkSpeculation decodes given texts with a model, with and without drafts interleaved: the cost is the model's,
// the acceptance rate the text's, as if the model had written it.
//
//	LOWPACK_MODEL=m.safetensors go test -run xxx -bench Speculation -benchtime 3x .
func BenchmarkSpeculation(b *testing.B) {
	path := os.Getenv("LOWPACK_MODEL")
	if path == "" {
		b.Skip("LOWPACK_MODEL names no packed file")
	}
	m, err := lowpack.OpenWith(path, engine.Options{Context: promptTokens + forcedTokens, Sequences: 4})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for _, f := range speculationTexts(b, m) {
		b.Run(f.name, func(b *testing.B) { f.measure(b, m) })
	}
}

// forced are texts that a model is made to write after prompts.
type forced struct {
	name  string
	texts []text
}

type text struct {
	prompt, rest []int
	seq          *engine.Sequence
}

const promptTokens, forcedTokens = 1024, 128

// split makes a text of the first tokens of a list.
func split(ids []int) text {
	return text{prompt: ids[:promptTokens], rest: ids[promptTokens : promptTokens+forcedTokens]}
}

func speculationTexts(b *testing.B, m *lowpack.Model) []forced {
	ids := func(from int, path string) []int {
		data, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		list, err := m.Tokenizer.Encode(string(data[from:][:min(8000, len(data)-from)]), false)
		if err != nil {
			b.Fatal(err)
		}
		return list
	}
	var code, prose []text
	for i, path := range []string{"runtime/engine/engine.go", "convert/internal/pipeline/schedule.go",
		"cmd/lowpack/serve.go", "pack/pack.go"} {
		code = append(code, split(ids(0, path)))
		prose = append(prose, split(ids(100_000*i, shared.Path(b, "data/text/wiki.test.raw"))))
	}
	list := []forced{{"code", code}, {"prose", prose}}
	r := rand.New(rand.NewPCG(1, 2))
	for _, percent := range []int{2, 5, 15} {
		edited := slices.Clone(code[0].prompt[64:][:forcedTokens])
		for i := range edited {
			if r.IntN(100) < percent {
				edited[i] = prose[0].prompt[r.IntN(promptTokens)]
			}
		}
		list = append(list, forced{fmt.Sprintf("%d%%-edited", percent), []text{{prompt: code[0].prompt, rest: edited}}})
	}
	var noise []int // what follows has been seen often, and another token each time
	for range promptTokens + forcedTokens {
		noise = append(noise, prose[0].prompt[r.IntN(12)])
	}
	return append(list, forced{"misleading", []text{split(noise)}})
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

func (f *forced) measure(b *testing.B, m *lowpack.Model) {
	for i := range f.texts {
		f.texts[i].begin(b, m)
		defer f.texts[i].seq.Close()
		f.texts[i].decode(b, m, engine.SpeculateAuto) // learns what passes cost
	}
	var without, speedup []float64 // of each round
	var total engine.Result
	for b.Loop() {
		var one, auto time.Duration
		total = engine.Result{}
		for i := range f.texts {
			one += f.texts[i].decode(b, m, 0).Decode
			res := f.texts[i].decode(b, m, engine.SpeculateAuto)
			auto += res.Decode
			total.Steps, total.Drafted, total.Accepted = total.Steps+res.Steps, total.Drafted+
				res.Drafted, total.Accepted+
				res.Accepted
		}
		without, speedup = append(without, one.Seconds()), append(speedup, one.Seconds()/auto.Seconds())
	}
	n := float64(len(f.texts))
	b.ReportMetric(median(speedup), "speedup")
	b.ReportMetric(forcedTokens*n/median(without), "tokens/s-without")
	b.ReportMetric((forcedTokens-1)*n/float64(total.Steps), "tokens/step")
	b.ReportMetric(float64(total.Accepted)/float64(max(total.Drafted, 1)), "accepted")
}

// begin computes the prompt except for its last token.
func (t *text) begin(b *testing.B, m *lowpack.Model) {
	var err error
	if t.seq, err = m.Engine.NewSequence(); err != nil {
		b.Fatal(err)
	}
	logits := make([]float32, m.Engine.Description().Vocab)
	if err = m.Engine.Forward(b.Context(),
		[]engine.Chunk{{Seq: t.seq, Tokens: t.prompt[:promptTokens-1], Logits: logits}}); err != nil {
		b.Fatal(err)
	}
}

// decode writes the text after its prompt.
func (t *text) decode(b *testing.B, m *lowpack.Model, speculate int) engine.Result {
	const last = promptTokens - 1
	t.seq.Truncate(last)
	res, err := m.Engine.Generate(b.Context(), t.seq, engine.Request{
		Prompt: t.prompt[last:], History: t.prompt[:last], MaxTokens: forcedTokens, Speculate: speculate,
		Adjust: func(generated []int, logits []float32) { logits[t.rest[len(generated)]] = 1e30 },
	}, func(engine.Piece) bool { return true })
	if err != nil || !slices.Equal(res.Tokens, t.rest) {
		b.Fatal(err, "another text")
	}
	return res
}
