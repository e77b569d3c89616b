package textcolumns

import "encoding/binary"

// deltas decodes n lengths that are stored as differences: blocks with a least difference, and in them smaller blocks
// with a width each, of which the last one may end early. It returns the bytes behind them.
func deltas(b []byte, n int) (lengths []int64, rest []byte, err error) {
	d := deltaReader{b: b}
	block, parts, count, value := d.uvarint(), d.uvarint(), d.uvarint(), d.varint()
	if d.short || parts < 1 || parts > 1<<10 || block > 1<<20 || block%(32*parts) != 0 || count != uint64(n) {
		return nil, nil, corrupt("%d lengths in blocks of %d in %d parts, for %d values", count, block, parts, n)
	}
	lengths = make([]int64, 0, n)
	if n > 0 {
		lengths = append(lengths, value)
	}
	for len(lengths) < n {
		least, widths := d.varint(), d.bytes(int(parts))
		for _, width := range widths {
			if len(lengths) == n {
				break
			}
			packed := d.bytes(int(block/parts) * int(width) / 8)
			if d.short || width > 32 {
				return nil, nil, corrupt("lengths that end early")
			}
			for i := 0; i < int(block/parts) && len(lengths) < n; i++ {
				value += least + int64(bitsAt(packed, i*int(width), int(width)))
				lengths = append(lengths, value)
			}
		}
		if d.short {
			return nil, nil, corrupt("lengths that end early")
		}
	}
	return lengths, d.b, nil
}

// deltaReader reads numbers; short says that there were too few bytes.
type deltaReader struct {
	b     []byte
	short bool
}

func (d *deltaReader) bytes(n int) []byte {
	if d.short = d.short || n > len(d.b); d.short {
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *deltaReader) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.short = d.short || n <= 0
	d.bytes(max(n, 0))
	return v
}

func (d *deltaReader) varint() int64 {
	v, n := binary.Varint(d.b)
	d.short = d.short || n <= 0
	d.bytes(max(n, 0))
	return v
}

// measured cuts data into n texts, whose lengths are in front of all of them.
func measured(data []byte, n int) ([][]byte, error) {
	lengths, data, err := deltas(data, n)
	if err != nil {
		return nil, err
	}
	texts := make([][]byte, n)
	for i, size := range lengths {
		if size < 0 || size > int64(len(data)) {
			return nil, corrupt("value %d of %d ends early", i, n)
		}
		texts[i], data = data[:size], data[size:]
	}
	return texts, nil
}
