//go:build amd64 && !purego

package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/race"
)

// TestSpeculationOnEveryModel is TestSpeculationChangesNothing for random models that between them have everything that a
// description can ask for, with windows, pages and passes of several sizes.
func TestSpeculationOnEveryModel(t *testing.T) {
	accepted := 0
	for seed := range uint64(60 / race.Every(20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			v, d := randomModel(t, r, false)
			e, err := build(v, d, Options{Threads: 1 + r.IntN(4), Batch: 1 + r.IntN(20), Cache: caches[r.IntN(len(caches))], Page: 32 * r.IntN(2)})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if r.IntN(2) == 0 {
				e.pass.attention.long = 1
			}
			drafts, err := e.newDraftModel(v, d)
			if err != nil {
				t.Fatal(err)
			}
			defer drafts.Close()
			q := Request{Drafts: drafts, MaxTokens: min(20, e.opt.Context-4), Sampling: Sampling{Seed: seed, Temperature: float32(r.IntN(3)) * 0.7, RepetitionPenalty: 1 + float32(r.IntN(2))*0.4}}
			for range 1 + r.IntN(3) {
				q.Prompt = append(q.Prompt, r.IntN(d.Vocab))
			}
			accepted += speculateEveryWay(t, e, q, 3, 1, 15)
		})
	}
	if accepted == 0 {
		t.Error("no guess was right: this test shows nothing")
	}
}
