//go:build purego || !amd64

package kernel

import "unsafe"

func makeQuads(order bitOrder, tables *byte, sums *int32, x *int8, n int) {
	quadTablesGeneric(order, unsafe.Slice(tables, n*quadBytes), unsafe.Slice(sums, n), unsafe.Slice(x, n*quadColumns))
}
