package kernel

import (
	"sync"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// tokenGroups is the form of the activations that kernels with group-wise scales ask for beside the rows: what the
// results of each group of columns take from each token. It is made once per size of groups and factor, by whoever
// comes first.
type tokenGroups struct {
	mu   sync.Mutex
	list []*groupedTokens
}

type groupedTokens struct {
	group  int
	factor int32
	data   []asm.TokenGroup // [groups][N], with room for maxN
	ready  bool
}

// forget marks all of them as those of other activations.
func (a *tokenGroups) forget() {
	for _, g := range a.list {
		g.ready = false
	}
}

// groupTokens returns what groups take from tokens, [groups][N]: factor · Σ x, Σ x, and the scale.
func (x *Activations) groupTokens(group int, factor int32) []asm.TokenGroup {
	return x.tokenGroups.of(x, group, factor, func(_, _, _ int, sum int32) int32 { return factor * sum })
}

// of returns what groups take from tokens, with what add gives for a token, columns and their sum. It is the same for
// one factor.
func (a *tokenGroups) of(x *Activations, group int, factor int32, add func(t, lo, hi int,
	sum int32) int32) []asm.TokenGroup {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.find(group, factor)
	if g == nil {
		g = &groupedTokens{group, factor, make([]asm.TokenGroup, ceilDiv(x.K, group)*x.maxN), false}
		a.list = append(a.list, g)
	}
	if !g.ready {
		for t := range x.N {
			before := int32(0)
			for i := range ceilDiv(x.K, group) {
				lo, hi := i*group, min((i+1)*group, x.K)
				end := x.sumTo(t, hi)
				sum := end - before
				a := add(t, lo, hi, sum)
				g.data[i*x.N+t] = asm.TokenGroup{Add: a, Sum: sum, Scale: x.scale(t, lo), Fields: [2]int32{17 * a, 16 * a}}
				before = end
			}
		}
		g.ready = true
	}
	return g.data
}

// scale is that of column k of token t, 1 where the token has one for all columns: who multiplies by it then does so at
// the end.
func (x *Activations) scale(t, k int) float32 {
	if x.Group == 0 {
		return 1
	}
	return x.Scales(t)[k/x.Group]
}

func (a *tokenGroups) find(group int, factor int32) *groupedTokens {
	for _, g := range a.list {
		if g.group == group && g.factor == factor {
			return g
		}
	}
	return nil
}
