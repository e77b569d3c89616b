package tensor

import (
	"bytes"
	"testing"
)

// TestPrefetch asserts that what is prefetched is the first bytes of the rows in every panel of their page.
func TestPrefetch(t *testing.T) {
	const page = 256
	for _, typ := range []CacheType{CacheF32, CacheF16, CacheI8, CacheI4} {
		keys, values := newCaches(typ, 2*page, 80, page)
		for _, c := range []*Cache{keys, values} {
			for _, rows := range []Range{{0, 1}, {3, 9}, {page - 4, page + 6}, {page, 2 * page}} {
				at := rows.From / page * c.Stride // of the panel, in the page
				n := min(rows.To, rows.From/page*page+page) - rows.From
				for b := range c.beginnings(rows) {
					row := c.typ.bytes(min(c.panel, c.width-at%c.Stride/c.typ.bytes(page)))
					want := c.Bytes[at+rows.From%page*row:][:min(n*row, farAhead)]
					if &b[0] != &want[0] || len(b) != len(want) {
						t.Errorf("%s, rows %v: not the first %d bytes of a panel", typ, rows, len(want))
					}
					at += page * row
				}
				if at%c.Stride != c.typ.bytes(page*c.width) {
					t.Errorf("%s, rows %v: not all panels", typ, rows)
				}
			}
		}
	}
	eachLevel(t, func(t *testing.T) {
		for n := range 700 {
			b := make([]byte, n)
			if prefetch(b); !bytes.Equal(b, make([]byte, n)) {
				t.Fatalf("%d bytes changed", n)
			}
		}
	})
}
