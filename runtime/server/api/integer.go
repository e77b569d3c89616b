package api

import (
	"errors"
	"math"
	"strconv"
)

// Integer is an integer as JSON schemas understand it: 2.0 is one, null is none.
type Integer int64

var errNoInteger = errors.New("want an integer of 64 bits")

// UnmarshalJSON reads one.
func (n *Integer) UnmarshalJSON(text []byte) error {
	if whole, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*n = Integer(whole)
		return nil
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) >= 1<<53 { // beyond, the digits would not be those of the text
		return errNoInteger
	}
	*n = Integer(x)
	return nil
}

// Ints are the values of integers.
func Ints(list []Integer) []int {
	ints := make([]int, len(list))
	for i, n := range list {
		ints[i] = int(n)
	}
	return ints
}
