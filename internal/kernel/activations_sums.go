package kernel

import "sync"

// groupSums is the form of the sums of activations that kernels ask for: those of each group of columns, times what the kernel's
// operands differ from weights by. They are made once per size of groups and factor, by whoever comes first.
type groupSums struct {
	mu   sync.Mutex
	list []*groupAdds
}

type groupAdds struct {
	group  int
	factor int32
	data   []int32 // [groups][maxN]
	ready  bool
}

// forget marks all of them as those of other activations.
func (a *groupSums) forget() {
	for _, g := range a.list {
		g.ready = false
	}
}

// groupAdds returns factor · Σ x over the columns of each group of each token, [groups][maxN].
func (x *Activations) groupAdds(group int, factor int32) []int32 {
	x.groupSums.mu.Lock()
	defer x.groupSums.mu.Unlock()
	g := x.groupSums.find(group, factor)
	if g == nil {
		g = &groupAdds{group, factor, make([]int32, ceilDiv(x.K, group)*x.maxN), false}
		x.groupSums.list = append(x.groupSums.list, g)
	}
	if !g.ready {
		for t := range x.N {
			before := int32(0)
			for i := range ceilDiv(x.K, group) {
				sum := x.sumTo(t, (i+1)*group)
				g.data[i*x.maxN+t] = factor * (sum - before)
				before = sum
			}
		}
		g.ready = true
	}
	return g.data
}

func (a *groupSums) find(group int, factor int32) *groupAdds {
	for _, g := range a.list {
		if g.group == group && g.factor == factor {
			return g
		}
	}
	return nil
}
