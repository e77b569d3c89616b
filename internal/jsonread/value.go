package jsonread

import (
	"bytes"
	"fmt"
	"slices"
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
func Parse(data []byte, limit int) (*Value, error) { return parse(NewReader(data), limit) }

// ParsePython is Parse of a text that Python may have written: where a value is expected, the words NaN, Infinity and
// -Infinity are what transformers 5 writes for them, an object {"__float__": "NaN"}.
func ParsePython(data []byte, limit int) (*Value, error) {
	r := NewReader(data)
	r.python = true
	return parse(r, limit)
}

func parse(r *Reader, limit int) (*Value, error) {
	data := r.data
	if len(data) > limit {
		return nil, fmt.Errorf("%w: %d bytes of JSON, more than %d", pack.ErrLimit, len(data), limit)
	}
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
	if word := r.nonFinite(); word != "" {
		return Value{Kind: Object, Members: []Member{{floatKey, Value{Kind: String, Text: word}}}}, nil
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

// floatKey is the key of a number that is not finite, in files of transformers 5.
const floatKey = "__float__"

var nonFinite = []string{"NaN", "Infinity", "-Infinity"}

// nonFinite skips the word of a number that is not finite, if the text may have such words and one follows, and returns
// it.
func (r *Reader) nonFinite() string {
	if !r.python {
		return ""
	}
	r.blanks()
	for _, word := range nonFinite {
		if bytes.HasPrefix(r.data[r.pos:], []byte(word)) {
			r.pos += len(word)
			return word
		}
	}
	return ""
}

// NonFinite returns the word of a number that is not finite.
func (v *Value) NonFinite() (word string, ok bool) {
	if v == nil || len(v.Members) != 1 {
		return "", false
	}
	word, _ = v.Get(floatKey).Str()
	return word, slices.Contains(nonFinite, word)
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
