package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// Integer is an integer as JSON schemas understand it: 2.0 and 2e3 are, 2.5 and null are not. All of its digits count.
type Integer int64

var errNoInteger = errors.New("want an integer of 64 bits")

// UnmarshalJSON reads one.
func (n *Integer) UnmarshalJSON(text []byte) error {
	whole, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		if whole, err = strconv.ParseInt(plainInteger(string(text)), 10, 64); err != nil {
			return errNoInteger
		}
	}
	*n = Integer(whole)
	return nil
}

// maxIntegerDigits is how many digits an integer of 64 bits has at most.
const maxIntegerDigits = 19

// plainInteger writes a number of JSON, if it is an integer, without point and exponent; "" = it is none, or has too
// many digits. What is not a number does not become one.
func plainInteger(number string) string {
	mantissa, power := number, ""
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, power = number[:i], number[i+1:]
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	shift := 0
	if power != "" {
		var err error
		if shift, err = strconv.Atoi(power); err != nil {
			return ""
		}
	}
	short := strings.TrimRight(digits, "0")
	zeros := len(digits) - len(short) - len(fraction) + shift
	if zeros < 0 || zeros > maxIntegerDigits || len(short)+zeros > maxIntegerDigits {
		return ""
	}
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + short + strings.Repeat("0", zeros)
}

// Integers is a list of integers, of which a request can have millions.
type Integers []int

// UnmarshalJSON reads one: nearly always digits alone, without a detour for each.
func (list *Integers) UnmarshalJSON(text []byte) error {
	r := jsonread.NewReader(text)
	*list = make(Integers, 0, bytes.Count(text, []byte(","))+1)
	err := r.Array(func(int) error {
		n, err := r.Int()
		*list = append(*list, int(n))
		return err
	})
	if err == nil {
		return nil
	}
	var each []Integer
	if err := json.Unmarshal(text, &each); err != nil || each == nil {
		return errNoInteger
	}
	*list = (*list)[:0]
	for _, n := range each {
		*list = append(*list, int(n))
	}
	return nil
}
