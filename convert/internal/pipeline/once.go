package pipeline

import "context"

// once decodes rows as they arrive, in order. A chunk is kept until its blocks are packed.
type once struct {
	*coding
	kept *keptRows
}

func newOnce(c *coding) *once {
	k := c.keep()
	c.packing.fill = func(s *slot, codes []int8, from, to int) error {
		if err := c.decode(s, codes, from, to); err != nil {
			return err
		}
		k.releaseRows(from, to, c.chunkRows())
		return nil
	}
	return &once{c, k}
}

func (c *once) uses(k *chunk, i int) int { return c.blocksIn(k, i) }

func (c *once) take(k *chunk, i int) {
	c.kept.chunks[i] = k
	c.beginBlocks(i*c.chunkRows() + c.rowsIn(k))
}

func (c *once) end(context.Context) error { return c.arrived() }

// rowsIn a chunk of rows in order.
func (c *coding) rowsIn(k *chunk) int {
	p := c.x.Source.Panel
	return len(k.data) / p.Bytes * p.Rows
}

// blocksIn returns the number of blocks in chunk i, partial ones included.
func (c *coding) blocksIn(k *chunk, i int) int {
	first := i * c.chunkRows()
	return c.packing.blocks.overlap(first, first+c.rowsIn(k))
}
