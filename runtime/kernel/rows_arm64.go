//go:build !purego

package kernel

// The layout of rows, and the columns that it keeps together: 16 bytes.
const (
	rowLayout  = "i2s-arm"
	rowColumns = 64
)

// indices: a tile is two fields of 16 bytes.
func (r *lutRowsOf) indices(dst *[lutGroups * lutBlock]uint16, tile, m, rows int) {
	packed := &r.packed[m*r.bytes+tile/2*16]
	if tile%2 == 0 {
		lutRows0(&dst[0], packed, r.bytes, rows)
	} else {
		lutRows2(&dst[0], packed, r.bytes, rows)
	}
}
