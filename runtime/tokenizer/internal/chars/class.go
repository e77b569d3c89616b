package chars

import (
	"cmp"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Class is a set of characters: a bitmap for the basic plane, ranges for the rest.
type Class struct {
	low  [1 << 16 / 64]uint64
	high []Range
}

// Range is the characters from Lo to Hi.
type Range struct{ Lo, Hi rune }

// Has says whether a character belongs to the class.
func (c *Class) Has(r rune) bool {
	if r < 1<<16 {
		return c.low[r>>6]>>(r&63)&1 != 0
	}
	_, found := slices.BinarySearchFunc(c.high, r, func(x Range, r rune) int {
		switch {
		case x.Hi < r:
			return -1
		case x.Lo > r:
			return 1
		}
		return 0
	})
	return found
}

// Run returns the number of bytes and characters at the start of s that belong to the class, at most limit characters.
func (c *Class) Run(s string, limit int) (size, chars int) {
	for size < len(s) && chars < limit {
		if b := s[size]; b < utf8.RuneSelf {
			if c.low[b>>6]>>(b&63)&1 == 0 {
				break
			}
			size++
			chars++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[size:])
		if !c.Has(r) {
			break
		}
		size += n
		chars++
	}
	return size, chars
}

// Set is a class under construction: ranges in any order.
type Set []Range

// Of is the set of the characters from lo to hi.
func Of(lo, hi rune) Set { return Set{{lo, hi}} }

// Class returns the set as a class.
func (s Set) Class() *Class {
	c := &Class{}
	for _, r := range s.sorted() {
		for i := r.Lo; i <= min(r.Hi, 1<<16-1); i++ {
			c.low[i>>6] |= 1 << (i & 63)
		}
		if r.Hi >= 1<<16 {
			c.high = append(c.high, Range{max(r.Lo, 1<<16), r.Hi})
		}
	}
	return c
}

// sorted returns the set as ascending ranges that neither touch nor overlap.
func (s Set) sorted() Set {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b Range) int { return cmp.Compare(a.Lo, b.Lo) })
	var out Set
	for _, r := range s {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// Not returns the characters outside the set.
func (s Set) Not() Set {
	var out Set
	from := rune(0)
	for _, r := range s.sorted() {
		if r.Lo > from {
			out = append(out, Range{from, r.Lo - 1})
		}
		from = r.Hi + 1
	}
	if from <= unicode.MaxRune {
		out = append(out, Range{from, unicode.MaxRune})
	}
	return out
}

// FoldCase adds every character that differs from one of the set in case only; foldings to several characters, such as
// ß to ss, are excluded. It uses Go's tables, unlike the classes. Unicode never changes how a character folds, so
// versions differ only in letters that were added since; the patterns of the recorded tokenizers ignore the case of
// ASCII letters only (and so of U+017F and U+212A).
func (s Set) FoldCase() Set {
	out := slices.Clone(s)
	for _, r := range s {
		for c := r.Lo; c <= r.Hi; c++ {
			for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
				out = append(out, Range{f, f})
			}
		}
	}
	return out
}

// Size is the number of characters, counting duplicates.
func (s Set) Size() (n int) {
	for _, r := range s {
		n += int(r.Hi-r.Lo) + 1
	}
	return n
}
