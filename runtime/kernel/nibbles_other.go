//go:build purego || !(amd64 || arm64)

package kernel

import "unsafe"

func nibbleTables(tables *byte, x *int8, n int) {
	nibbleTablesGeneric(unsafe.Slice(tables, 64*n), unsafe.Slice(x, 8*n))
}
