//go:build !purego

package kernel

// The layout of rows, and the columns that it keeps together: 32 bytes.
const (
	rowLayout  = "i2s"
	rowColumns = 128
)

// indices: a tile is a field of 32 bytes.
func (r *lutRowsOf) indices(dst *[lutGroups * lutBlock]uint16, tile, m, rows int) {
	lutField(&dst[0], &r.packed[m*r.bytes+tile/4*32], r.bytes, rows, 6-2*(tile%4))
}
