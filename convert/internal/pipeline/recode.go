package pipeline

import "context"

// Recode packs a matrix whose codes are already known.
type Recode struct {
	Target Target
	Panel  int  // Codes returns a multiple of so many rows
	Whole  bool // Codes gives all rows at once

	Codes func(codes []int8, row int) error // of some rows; concurrently, unless Whole
	Done  func(Result) error

	Bytes    int64 // reported to Progress in total
	Progress func(name string, bytes int64)

	packing *packing
	done    chan struct{}
}

// RecodeAll packs one matrix after another on several goroutines, and runs beside concurrently.
func RecodeAll(ctx context.Context, to Writer, list []*Recode, l Limits, workers int,
	beside func(context.Context) error) error {
	var d demand
	for _, x := range list {
		var err error
		if x.packing, err = newPacking(to, x.Target, x.Panel, x.Whole); err != nil {
			return err
		}
		x.packing.demand(&d, 0)
	}
	m, err := newMemory(l, d, workers)
	if err != nil {
		return err
	}
	defer m.close()
	s := newSchedule(workers, m.slots)
	return s.run(ctx, beside, func(ctx context.Context) error {
		for _, x := range list {
			if err := x.run(ctx, s, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// run hands all blocks out and waits until they are written.
func (x *Recode) run(ctx context.Context, s *schedule, m *memory) error {
	matrix := <-m.matrix
	defer func() { m.matrix <- matrix }()
	x.done = make(chan struct{})
	p := x.packing
	p.fill, p.finish, p.total, p.progress = x.fill, x.finish, x.Bytes, x.Progress
	if err := p.begin(s, matrix); err != nil {
		return err
	}
	if x.Whole {
		if err := x.Codes(p.matrix, 0); err != nil {
			return err
		}
	}
	for i := range p.blocks.Count() {
		s.addBlock(int64(i), func(s *slot) error { return p.block(s, i) })
	}
	select {
	case <-x.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (x *Recode) fill(_ *slot, codes []int8, from, _ int) error {
	if x.Whole {
		return nil // they are already in place
	}
	return x.Codes(codes, from)
}

func (x *Recode) finish(codesSHA string) error {
	defer close(x.done)
	return x.Done(Result{CodesSHA: codesSHA})
}
