package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// Integer is an integer in the sense of JSON Schema: 2.0 and 2e3 are integers, 2.5 and null are not. All digits are
// exact.
type Integer int64

var errNotInteger = errors.New("want a 64-bit integer")

// UnmarshalJSON reads an integer.
func (n *Integer) UnmarshalJSON(text []byte) error {
	whole, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		if whole, err = strconv.ParseInt(plainInteger(string(text)), 10, 64); err != nil {
			return errNotInteger
		}
	}
	*n = Integer(whole)
	return nil
}

// maxIntegerDigits is the number of digits of the largest int64.
const maxIntegerDigits = 19

// plainInteger returns a JSON integer without fraction and exponent; "" = not an integer, or too many digits. Text that
// is not a number stays invalid.
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

// Integers is a list of integers, possibly millions.
type Integers []int

// UnmarshalJSON reads plain digits directly and falls back to Integer for other spellings.
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
		return errNotInteger
	}
	*list = (*list)[:0]
	for _, n := range each {
		*list = append(*list, int(n))
	}
	return nil
}
