package engine

import (
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// TestAttentionGroups: every token of a pass is in one group, a group is tokens of one sequence whose scores have room
// at any depth, and there are groups for all workers where the pass has the tokens.
func TestAttentionGroups(t *testing.T) {
	const context, batch = 40_000, 128
	for _, workers := range []int{1, 2, 16} {
		for _, heads := range [][2]int{{1, 2}, {3, 2}, {4, 2}, {64, 2}, {4, 8}, {1, 32}} {
			per, kvHeads := heads[0], heads[1]
			shape := model.Config{Heads: kvHeads * per, KVHeads: kvHeads, HeadDim: 64}
			e := &Engine{opt: Options{Context: context, Threads: workers}, desc: &model.Description{Config: shape}}
			room, all := e.attentionScores()
			h := headShape{heads: shape.Heads, kvHeads: kvHeads}
			a := attention{shapes: [2]headShape{h, h},
				scratch: make([]scratch, workers), scores: make([]float32, all), room: room}
			for _, at := range []int{0, 1, 31, 500, 2047, 8000, 39_000} {
				sequences := []*Sequence{{}, {}}
				var tokens []token
				for i := range batch {
					tokens = append(tokens, token{seq: sequences[i/100], pos: at + i%100})
				}
				a.begin(tokens)
				next := 0
				for _, g := range a.groups {
					last := tokens[g.first+g.n-1]
					if g.first != next || tokens[g.first].seq != last.seq || g.n > tensor.TokensOf(per) ||
						tensor.ScoreSpace(g.n*per, last.pos+1) > room {
						t.Fatalf("%d workers, %d heads per KV head, position %d: group %v", workers, per, at, g)
					}
					next += g.n
				}
				if next != batch || len(a.groups)*kvHeads < min(groupsPerWorker*workers, batch/tensor.LeastTokens) {
					t.Errorf("%d workers, %d heads per KV head, position %d: %d groups of %d tokens", workers, per, at,
						len(a.groups), next)
				}
			}
		}
	}
}
