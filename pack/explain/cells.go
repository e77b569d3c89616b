package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// example is a small packed matrix: where its weights lie, and what its first bytes hold.
type example struct {
	addressed pack.Addressed
	shape     pack.Shape // with padding
	bytes     [][]slot   // the first bytes
}

// slot is a digit in a byte.
type slot struct {
	m, k  int
	plane int // which of several places of the weight it is, 0 for the first; −1 where there is but one
	place pack.Place
}

// example lays out the example of a layout with its default alphabet, and looks into the first n bytes.
func (l *Layout) example(n int) (*example, error) {
	a, err := l.open(l.Alphabets[0].Name)
	if err != nil {
		return nil, err
	}
	s, err := a.Padded(l.info.Example)
	if err != nil {
		return nil, err
	}
	e := &example{addressed: a, shape: s, bytes: make([][]slot, n)}
	for m := range s.M {
		for k := range s.K {
			if err := e.collect(m, k); err != nil {
				return nil, err
			}
		}
	}
	for _, slots := range e.bytes {
		slices.SortFunc(slots, func(a, b slot) int {
			return cmp.Or(cmp.Compare(b.place.Bit, a.place.Bit), cmp.Compare(b.place.Unit, a.place.Unit))
		})
	}
	return e, nil
}

func (e *example) collect(m, k int) error {
	places, err := e.addressed.Places(e.shape, m, k)
	if err != nil {
		return err
	}
	for i, p := range places {
		if len(places) == 1 {
			i = -1
		}
		if p.Byte < len(e.bytes) {
			e.bytes[p.Byte] = append(e.bytes[p.Byte], slot{m, k, i, p})
		}
	}
	return nil
}

// position says where a weight lies: "byte.bit", with "×unit" where digits share a number.
func (e *example) position(m, k int) (string, error) {
	places, err := e.addressed.Places(e.shape, m, k)
	if err != nil {
		return "", err
	}
	var text []string
	for _, p := range places {
		switch {
		case p.Bits == 8:
			text = append(text, fmt.Sprint(p.Byte)+times(p.Unit))
		default:
			text = append(text, fmt.Sprintf("%d.%d", p.Byte, p.Bit)+times(p.Unit))
		}
	}
	return strings.Join(text, ", "), nil
}

func times(unit int) string {
	if unit == 1 {
		return ""
	}
	return fmt.Sprintf("×%d", unit)
}

// label names the weight of a slot.
func (s slot) label() string {
	text := fmt.Sprintf("%d,%d", s.m, s.k)
	if s.place.Unit > 1 {
		text = fmt.Sprintf("%d·(%s)", s.place.Unit, text)
	}
	return text
}
