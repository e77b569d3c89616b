// Package kernel multiplies packed weights by int8 activations, exactly: the result of every kernel is the int32 sum of
// products that the codes define, whatever the layout, instruction set or order of summation.
package kernel
