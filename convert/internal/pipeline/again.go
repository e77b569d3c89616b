package pipeline

import "context"

// again reads blocks a second time, from the page cache if they are still there: after all rows have been measured, if
// they arrive in order; otherwise for both passes.
type again struct {
	*coding
	flows bool // rows are measured as they arrive
}

func (c *again) uses(*chunk, int) int {
	if c.flows {
		return 1
	}
	return 0
}

func (c *again) take(k *chunk, i int) {
	if c.flows {
		c.measure(k, i)
	}
}

func (c *again) end(ctx context.Context) error {
	if err := c.beginWhole(ctx); err != nil {
		return err
	}
	if c.x.Measured && !c.flows {
		c.measureAgain()
	}
	return c.arrived()
}

// measureAgain reads blocks for the first pass.
func (c *again) measureAgain() {
	m := c.decoder.(Measurer)
	for i := range c.packing.blocks.Count() {
		from, to := c.packing.blocks.At(i)
		c.missing.Add(1)
		c.schedule.addBlock(c.place(from), func(s *slot) error {
			err := c.x.Source.each(c.rows, s.in, from, to,
				func(row, _ int, stored []byte) error { return m.Measure(row, stored) })
			if err != nil {
				return err
			}
			c.schedule.giveBack(s)
			return c.arrived()
		})
	}
}
