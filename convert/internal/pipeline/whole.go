package pipeline

import "context"

// whole keeps a part whose rows are scattered over it until all of them are decoded.
type whole struct {
	*coding
	kept *keptRows
}

func newWhole(c *coding) *whole {
	k := c.keep()
	c.released = k.releaseAll
	return &whole{c, k}
}

func (*whole) uses(*chunk, int) int { return 1 }

func (c *whole) take(k *chunk, i int) { c.kept.chunks[i] = k }

func (c *whole) end(ctx context.Context) error {
	if err := c.beginWhole(ctx); err != nil {
		return err
	}
	return c.arrived()
}
