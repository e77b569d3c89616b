package textcolumns

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// Types of the compact protocol of Thrift.
const (
	thriftStop = iota
	thriftTrue
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

var errShort = errors.New("it ends early")

// maxStructs limits the structs in the lists of a header: an empty one has a byte, and up to 560 when it is decoded.
// Writers spend 20 bytes or more on one, so that a footer of maxFooter has fewer.
const maxStructs = 1 << 18

// structure returns the length of the struct at the start of b. Every list in it has as many elements as it says, and
// at most maxStructs of them are structs: what is made of b takes bounded memory.
func structure(b []byte) (int, error) {
	w := walker{b: b}
	if err := w.fields(0); err != nil {
		return 0, err
	}
	return len(b) - len(w.b), nil
}

// walker skips values.
type walker struct {
	b       []byte
	structs int // in lists
}

func (w *walker) skip(n uint64) error {
	if n > uint64(len(w.b)) {
		return errShort
	}
	w.b = w.b[n:]
	return nil
}

func (w *walker) uvarint() (uint64, error) {
	v, n := binary.Uvarint(w.b)
	if n <= 0 {
		return 0, errShort
	}
	w.b = w.b[n:]
	return v, nil
}

func (w *walker) byte() (byte, error) {
	if len(w.b) == 0 {
		return 0, errShort
	}
	b := w.b[0]
	w.b = w.b[1:]
	return b, nil
}

// fields skips the fields of a struct. A field has its type in the lower half of a byte; where the upper half is 0, its
// number follows. Booleans have their value in the type.
func (w *walker) fields(depth int) error {
	for {
		head, err := w.byte()
		if err != nil || head == thriftStop {
			return err
		}
		if head>>4 == 0 {
			if _, err := w.uvarint(); err != nil {
				return err
			}
		}
		if kind := head & 15; kind != thriftTrue && kind != thriftFalse {
			if err := w.value(kind, depth); err != nil {
				return err
			}
		}
	}
}

// value skips a value that is not the boolean of a field.
func (w *walker) value(kind byte, depth int) (err error) {
	const deepest = 32
	n := uint64(0)
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return w.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err = w.uvarint()
		return err
	case thriftDouble:
		return w.skip(8)
	case thriftBinary:
		if n, err = w.uvarint(); err != nil {
			return err
		}
		return w.skip(n)
	case thriftList, thriftSet, thriftStruct:
		if depth == deepest {
			return fmt.Errorf("it is nested more than %d deep", deepest)
		}
		if kind == thriftStruct {
			return w.fields(depth + 1)
		}
		return w.list(depth + 1)
	}
	return fmt.Errorf("a value of type %d, which Parquet has none of", kind) // maps included
}

// list skips a list: its type in the lower half of a byte, its length in the upper one, or behind it where that is 15.
func (w *walker) list(depth int) error {
	head, err := w.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = w.uvarint(); err != nil {
			return err
		}
	}
	for range n { // each takes a byte at least
		if head&15 == thriftStruct {
			w.structs++
		}
		if w.structs > maxStructs {
			return fmt.Errorf("%w: lists of more than %d structs", pack.ErrLimit, maxStructs)
		}
		if err := w.value(head&15, depth); err != nil {
			return err
		}
	}
	return nil
}
