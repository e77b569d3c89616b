package engine

import "github.com/lowpack/lowpack/internal/tensor"

// shortText is the number of floating-point multiplications, a few microseconds' worth, below which dividing the work
// costs more than it gains.
const shortText = 1 << 15

// isShort reports whether one worker computes the attention of a pass sooner than several would.
func (l *attentionLayer) isShort() bool {
	return len(l.groups) == 1 && (l.tokens[0].pos+1)*l.heads*l.dim < shortText
}

// prefill computes attention by whole heads: a worker takes a key/value head and a group of tokens at a time, or
// several where groups are single tokens, whose keys and values it prefetches then.
func (l *attentionLayer) prefill() {
	l.prefillTask = prefillTask{*l}
	items := len(l.groups) * l.kvHeads
	if l.isShort() {
		l.prefillTask.Do(0, items)
		return
	}
	chunk := 1
	if len(l.groups) == len(l.tokens) {
		chunk = max(1, items/(groupsPerWorker*len(l.scratch)))
	}
	distribute(l.pool, items, chunk, &l.prefillTask)
}

// prefillTask computes attention; item i is key/value head i / groups and group i mod groups: a head stays in the L2
// cache while the groups of a prompt read it.
type prefillTask struct{ attentionLayer }

func (k *prefillTask) Do(from, to int) {
	s := k.take()
	defer s.taken.Store(false)
	for i := from; i < to; i++ {
		if i+1 < to {
			k.prefetch(k.item(i + 1))
		}
		g, kv := k.item(i)
		for j := range g.n {
			s.queries[j] = k.query(g.first+j, kv)
		}
		queries := tensor.Queries{Q: k.queries(g.first, g.n, kv), Tokens: s.queries[:g.n]}
		k.Heads(queries, k.perKV(), k.dim, k.keys(g.first, kv), k.values(g.first, kv), s.Scratch)
	}
}

// item returns the group and the key/value head of an item.
func (k *prefillTask) item(i int) (g group, kv int) {
	return k.groups[i%len(k.groups)], i / len(k.groups)
}

// prefetch prefetches the keys and values that a group reads first.
func (k *prefillTask) prefetch(g group, kv int) {
	span := k.span(g.first)
	k.keys(g.first, kv).Prefetch(span)
	k.values(g.first, kv).Prefetch(span)
}
