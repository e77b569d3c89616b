//go:build !purego

package tensor

import "github.com/lowpack/lowpack/runtime/kernel"

// levels lists what this process may use, by the one choice that kernel makes, the best first.
func levels() (list []isa) {
	if kernel.Have(kernel.DotProd) {
		list = append(list, levelNEON)
	}
	return append(list, levelGeneric)
}
