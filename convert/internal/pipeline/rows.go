package pipeline

// rows returns the bytes of stored rows, starting at a row of a run: as many as are contiguous, or as fit in buf.
type rows interface {
	stored(buf []byte, part int, off int64, n int) (data []byte, rows int, err error)
}

// each calls do for n stored rows from row on, until all of [from, to) have had their turn.
func (s *Source) each(in rows, buf []byte, from, to int, do func(row, n int, stored []byte) error) error {
	first := 0 // row of a run
	for _, r := range s.Runs {
		for row := max(from, first); row < min(to, first+r.Rows); {
			off := r.Off + int64((row-first)/s.Panel.Rows*s.Panel.Bytes)
			data, n, err := in.stored(buf, r.Part, off, min(to, first+r.Rows)-row)
			if err != nil {
				return err
			}
			if err := do(row, n, data); err != nil {
				return inTensor(s.Parts[r.Part], err)
			}
			row += n
		}
		first += r.Rows
	}
	return nil
}

// fileRows reads rows from the file, as many as fit in a buffer.
type fileRows struct {
	read   ReadFunc
	source *Source
}

func (f *fileRows) stored(buf []byte, part int, off int64, n int) ([]byte, int, error) {
	p, t := &f.source.Panel, f.source.Parts[part]
	n = min(n, len(buf)/p.size(p.Rows)*p.Rows)
	buf = buf[:p.size(n)]
	line := len(buf) / p.Lines
	for i := range p.Lines {
		if err := f.read(t, buf[i*line:(i+1)*line], off+int64(i)*p.Stride); err != nil {
			return nil, 0, err
		}
	}
	return buf, n, nil
}

// keptRows returns rows from the chunks of a part.
type keptRows struct {
	source *Source
	chunks []*chunk
	unit   int64 // bytes of a chunk
}

// keep switches to rows from chunks.
func (c *coding) keep() *keptRows {
	k := &keptRows{&c.x.Source, make([]*chunk, c.chunkCount()), c.unit}
	c.rows = k
	return k
}

func (k *keptRows) stored(buf []byte, _ int, off int64, n int) ([]byte, int, error) {
	p := &k.source.Panel
	if p.Lines == 1 {
		data := k.chunks[off/k.unit].data[off%k.unit:]
		data = data[:min(len(data), p.size(n))]
		return data, len(data) / p.Bytes * p.Rows, nil
	}
	n = min(n, len(buf)/p.size(p.Rows)*p.Rows)
	buf = buf[:p.size(n)]
	line := len(buf) / p.Lines
	for i := range p.Lines {
		k.gather(buf[i*line:(i+1)*line], off+int64(i)*p.Stride)
	}
	return buf, n, nil
}

// gather copies bytes of the part.
func (k *keptRows) gather(dst []byte, off int64) {
	for len(dst) > 0 {
		n := copy(dst, k.chunks[off/k.unit].data[off%k.unit:])
		dst, off = dst[n:], off+int64(n)
	}
}

// releaseRows releases the chunks of some rows that the block of rows [from, to) used.
func (k *keptRows) releaseRows(from, to, rows int) {
	for i := from / rows; i <= (to-1)/rows; i++ {
		k.chunks[i].release()
	}
}

func (k *keptRows) releaseAll() {
	for _, c := range k.chunks {
		c.release()
	}
}
