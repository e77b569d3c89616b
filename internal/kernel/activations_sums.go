package kernel

import (
	"sync"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// tokenGroups is the form of the activations for kernels with group-wise scales: the terms that each token contributes
// to the results of each group of columns, by group size and factor.
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

// groupTokens returns the terms of the groups, [groups][N]: factor · Σ x, Σ x, and the scale. The first call computes
// those of all tokens; from then on FinishRow does, so that the workers that make the rows share them.
func (x *Activations) groupTokens(group int, factor int32) []asm.TokenGroup {
	return x.tokenGroups.of(x, group, factor, nil)
}

// of returns the terms of the groups; add gives the term to add for a token and columns, the same for equal factors;
// nil = the factor times their sum. It is not kept, so that callers need not allocate it.
func (a *tokenGroups) of(x *Activations, group int, factor int32, add func(t, lo, hi int) int32) []asm.TokenGroup {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.find(group, factor)
	if g == nil {
		g = &groupedTokens{group, factor, make([]asm.TokenGroup, ceilDiv(x.K, group)*x.maxN), false}
		a.list = append(a.list, g)
	}
	if !g.ready {
		for t := range x.N {
			g.finishRow(x, t, add)
		}
		g.ready = true
	}
	return g.data
}

// finishRow computes the terms of token t; add as in of.
func (g *groupedTokens) finishRow(x *Activations, t int, add func(t, lo, hi int) int32) {
	before, scales := int32(0), x.Scales(t)
	scale := float32(1) // as in Activations.scale
	for i, lo := t, 0; lo < x.K; i, lo = i+x.N, lo+g.group {
		hi := min(lo+g.group, x.K)
		end := x.sumTo(t, hi)
		sum := end - before
		term := g.factor * sum
		if add != nil {
			term = add(t, lo, hi)
		}
		if x.Group != 0 {
			scale = scales[lo/x.Group]
		}
		d := &g.data[i] // field by field: a literal is made on the stack first, and read before its stores are done
		d.Add, d.Sum, d.Scale = term, sum, scale
		d.Fields[0], d.Fields[1] = 17*term, 16*term
		before = end
	}
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
