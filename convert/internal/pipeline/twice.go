package pipeline

import "context"

// twice measures rows as they arrive and keeps them; after all have been measured they are decoded, and each chunk is
// kept until its blocks are packed.
type twice struct{ *once }

func newTwice(c *coding) *twice { return &twice{newOnce(c)} }

func (c *twice) uses(k *chunk, i int) int { return 1 + c.once.uses(k, i) }

func (c *twice) take(k *chunk, i int) {
	c.kept.chunks[i] = k
	c.measure(k, i)
}

func (c *twice) end(ctx context.Context) error {
	if err := c.beginWhole(ctx); err != nil {
		return err
	}
	return c.arrived()
}

// measure is the first pass of a Measurer over chunk i of rows in order, and releases it.
func (c *coding) measure(k *chunk, i int) {
	row := i * c.chunkRows()
	c.missing.Add(1)
	c.schedule.addFresh(k.at, func() error {
		if err := c.decoder.(Measurer).Measure(row, k.data); err != nil {
			return inTensor(c.part(0), err)
		}
		k.release()
		return c.arrived()
	})
}
