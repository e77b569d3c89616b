package engine

// spaceTask prepares the rows of tokens for the steps of their heads.
type spaceTask struct{ recurrentTask }

func (k *spaceTask) Do(from, to int) {
	for t := from; t < to; t++ {
		k.space.prepare(k.mixed[t*k.conv.channels:][:k.conv.channels])
	}
}

// headTask computes the states of heads; item i is run i mod runs and head i / runs.
type headTask struct{ recurrentTask }

func (k *headTask) Do(from, to int) {
	for i := from; i < to; i++ {
		k.head(k.runs[i%len(k.runs)], i/len(k.runs))
	}
}

// head takes a head through the tokens of a run.
func (k *headTask) head(r run, h int) {
	size, channels := k.space.headSize(), k.conv.channels
	at := k.conv.state() + h*size
	seq, start := k.tokens[r.first].seq, k.tokens[r.first].pos
	state := k.states.of(seq.state, k.layer)[at:][:size]
	for i := range r.n {
		in, row := k.y[(r.first+i)*k.width:][:k.width], k.mixed[(r.first+i)*channels:][:channels]
		k.space.step(h, in, row, state)
		for _, kept := range seq.snapshots {
			if kept.position == start+i+1 {
				copy(k.states.of(kept.slot, k.layer)[at:], state)
			}
		}
	}
}

// gateTask finishes the outputs of tokens.
type gateTask struct {
	recurrentTask
	*finiteCheck
}

func (k *gateTask) Do(from, to int) {
	for t := from; t < to; t++ {
		k.check(t, k.space.finish(k.y[t*k.in.out:][:k.in.out], k.mixed[t*k.conv.channels:][:k.conv.channels]))
	}
}
