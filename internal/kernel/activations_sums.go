package kernel

import (
	"sync"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// tokenGroups is the form of the activations for kernels with group-wise scales: the terms that each token contributes
// to the results of each group of columns. It is built once per group size and factor, by the first caller.
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

// forget marks all terms as stale.
func (a *tokenGroups) forget() {
	for _, g := range a.list {
		g.ready = false
	}
}

// groupTokens returns the terms of the groups, [groups][N]: factor · Σ x, Σ x, and the scale.
func (x *Activations) groupTokens(group int, factor int32) []asm.TokenGroup {
	return x.tokenGroups.of(x, group, factor, func(_, _, _ int, sum int32) int32 { return factor * sum })
}

// of returns the terms of the groups; add gives the term to add for a token, columns and their sum. It must be the same
// for equal factors.
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
				g.data[i*x.N+t] = asm.TokenGroup{Add: a, Sum: sum, Scale: x.scale(t, lo),
					Fields: [2]int32{17 * a, 16 * a}}
				before = end
			}
		}
		g.ready = true
	}
	return g.data
}

// scale returns the scale of column k of token t, or 1 if the token has one scale for all columns, which the caller
// then applies at the end.
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
