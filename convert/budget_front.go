package convert

import (
	"context"
	"math"
)

// Front returns what Allocate would choose for sizes: one that the smallest forms fit, round ones, and one that the
// largest forms fit. Sizes that change nothing are left out. All is measured once.
func Front(ctx context.Context, path string, o Options, target string) ([]*Allocation, error) {
	a := &allocating{path: path, o: o, apart: o.Recipe.Head != ""}
	defer a.close()
	if err := a.plan(ctx); err != nil {
		return nil, err
	}
	if err := a.measure(ctx, target); err != nil {
		return nil, err
	}
	return a.front(ctx)
}

// front chooses for all sizes that make a difference.
func (a *allocating) front(ctx context.Context) (front []*Allocation, err error) {
	smallest, err := a.result(ctx, make([]int, len(a.items)))
	if err != nil {
		return nil, err
	}
	largest, err := a.result(ctx, a.heaviest())
	if err != nil {
		return nil, err
	}
	from, to := a.tableBytes()
	room := a.least + a.largest() - a.bytes[0] + to - from // of the largest forms, with the header of the smallest
	least, step, most := frontSizes(smallest.Bytes, max(largest.Bytes, room))
	for size := least; ; size = min((size/step+1)*step, most) {
		a.budget = Budget{Bytes: size}
		room, err := a.room()
		if err != nil {
			return nil, err
		}
		r, err := a.solve(ctx, room)
		if err != nil {
			return nil, err
		}
		if n := len(front); n == 0 || r.Bytes != front[n-1].Bytes || r.Divergence != front[n-1].Divergence {
			front = append(front, r)
		}
		if size == most {
			return front, nil
		}
	}
}

// frontSizes returns the first size of a front, what divides those behind it, and the last one: the ends are rounded up
// to few digits, as people type them, and 8 to 20 steps lie between them.
func frontSizes(from, to int64) (least, step, most int64) {
	unit := int64(1) // the power of ten of which there are 1,000 to 10,000 between the ends
	for (to-from)/unit >= 10_000 {
		unit *= 10
	}
	up := func(n int64) int64 { return (n + unit - 1) / unit * unit }
	step = unit
	for _, times := range []int64{2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		if (to-from)/(times*unit) >= 8 {
			step = times * unit
		}
	}
	return up(from), step, up(to)
}

// bitRange is the least and the largest number of bits per weight that there is a choice for, in hundredths that are
// enough for the smallest and for the largest form of all layers.
func (a *allocating) bitRange() (least, most float64) {
	bits := func(bytes int64) float64 { return math.Ceil(100*8*float64(bytes)/float64(a.count)) / 100 }
	return bits(a.bytes[0]), bits(a.largest())
}

// largest is what the layers take in the form of each that takes most, those that are kept left out.
func (a *allocating) largest() (bytes int64) {
	for _, row := range a.rows {
		most := int64(0)
		for _, s := range row[:kept] {
			most = max(most, s.row.BytesOut)
		}
		bytes += most
	}
	return bytes
}

// heaviest is the choice of the form of each group that takes most, those that are kept left out, with the tables as
// they are.
func (a *allocating) heaviest() []int {
	choice := a.uniform(0)
	for i, items := range a.items[:len(a.groups)] {
		for form, o := range items[:min(kept, len(items))] {
			if o.bytes > items[choice[i]].bytes {
				choice[i] = form
			}
		}
	}
	return choice
}
