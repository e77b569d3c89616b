package jsonread

import (
	"fmt"
	"strconv"

	"github.com/lowpack/lowpack/pack"
)

// Value is a parsed value. The zero Value is null.
type Value struct {
	Kind    Kind
	Bool    bool
	Text    string // string, or the characters of a number
	Items   []Value
	Members []Member // in text order
}

// Member is a key with its value.
type Member struct {
	Key   string
	Value Value
}

// Parse parses a text of at most limit bytes.
func Parse(data []byte, limit int) (*Value, error) {
	if len(data) > limit {
		return nil, fmt.Errorf("%w: %d bytes of JSON, more than %d", pack.ErrLimit, len(data), limit)
	}
	r := NewReader(data)
	v, err := r.Value()
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// Value reads a value of any kind as a tree of at most MaxValues values.
func (r *Reader) Value() (Value, error) { return r.ValueUpTo(MaxValues) }

// ValueUpTo reads a value of any kind as a tree of at most limit values.
func (r *Reader) ValueUpTo(limit int) (Value, error) {
	r.values, r.limit = 0, limit
	return r.value()
}

func (r *Reader) value() (v Value, err error) {
	if r.values++; r.values > r.limit {
		return v, r.Limitf("more than %d values", r.limit)
	}
	if v.Kind, err = r.Kind(); err != nil {
		return v, err
	}
	switch v.Kind {
	case Null:
		_, err = r.Null()
	case Bool:
		v.Bool, err = r.Bool()
	case Number:
		v.Text, err = r.Number()
	case String:
		v.Text, err = r.String()
	case Array:
		err = r.Array(func(int) error {
			item, err := r.value()
			v.Items = append(v.Items, item)
			return err
		})
	case Object:
		err = r.Object(func(key string) error {
			value, err := r.value()
			v.Members = append(v.Members, Member{key, value})
			return err
		})
	}
	return v, err
}

// Get returns the value of a key; nil if v is not an object, the key is absent, or the value is null.
func (v *Value) Get(key string) *Value {
	if v == nil {
		return nil
	}
	for i := range v.Members {
		if m := &v.Members[i]; m.Key == key && m.Value.Kind != Null {
			return &m.Value
		}
	}
	return nil
}

// Str returns a string value.
func (v *Value) Str() (string, bool) {
	if v == nil || v.Kind != String {
		return "", false
	}
	return v.Text, true
}

// Int returns an integer without fraction and exponent.
func (v *Value) Int() (int64, bool) {
	if v == nil || v.Kind != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	return n, err == nil
}

// Float returns a number. It is finite: Parse rejects others.
func (v *Value) Float() (float64, bool) {
	if v == nil || v.Kind != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	return f, err == nil
}
