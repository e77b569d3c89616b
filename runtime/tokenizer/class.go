package tokenizer

import (
	"cmp"
	"slices"
	"unicode"
	"unicode/utf8"
)

// class is a set of characters: a bitmap for the basic plane, ranges for the rest.
type class struct {
	low  [1 << 16 / 64]uint64
	high []runeRange
}

type runeRange struct{ lo, hi rune }

func (c *class) has(r rune) bool {
	if r < 1<<16 {
		return c.low[r>>6]>>(r&63)&1 != 0
	}
	_, found := slices.BinarySearchFunc(c.high, r, func(x runeRange, r rune) int {
		switch {
		case x.hi < r:
			return -1
		case x.lo > r:
			return 1
		}
		return 0
	})
	return found
}

// run returns the number of bytes of s, at most limit characters, that belong to the class, and the number of characters.
func (c *class) run(s string, limit int) (size, chars int) {
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
		if !c.has(r) {
			break
		}
		size += n
		chars++
	}
	return size, chars
}

// runeSet is a class under construction: ranges in any order.
type runeSet []runeRange

// build makes the class of a set.
func (s runeSet) build() *class {
	c := &class{}
	for _, r := range s.sorted() {
		for i := r.lo; i <= min(r.hi, 1<<16-1); i++ {
			c.low[i>>6] |= 1 << (i & 63)
		}
		if r.hi >= 1<<16 {
			c.high = append(c.high, runeRange{max(r.lo, 1<<16), r.hi})
		}
	}
	return c
}

// sorted returns the set as ascending ranges that neither touch nor overlap.
func (s runeSet) sorted() runeSet {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b runeRange) int { return cmp.Compare(a.lo, b.lo) })
	var out runeSet
	for _, r := range s {
		if n := len(out); n > 0 && r.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// not returns the characters outside the set.
func (s runeSet) not() runeSet {
	var out runeSet
	from := rune(0)
	for _, r := range s.sorted() {
		if r.lo > from {
			out = append(out, runeRange{from, r.lo - 1})
		}
		from = r.hi + 1
	}
	if from <= unicode.MaxRune {
		out = append(out, runeRange{from, unicode.MaxRune})
	}
	return out
}

// foldCase adds every character that differs from one of the set in case only; foldings to several characters, as of ß to ss,
// are left out. The tables are Go's, unlike those of classes. Unicode never changes how a character folds, so versions differ only in
// letters that were added since; the patterns of the recorded tokenizers ignore the case of ASCII letters (and so of U+017F and
// U+212A) alone.
func (s runeSet) foldCase() runeSet {
	out := slices.Clone(s)
	for _, r := range s {
		for c := r.lo; c <= r.hi; c++ {
			for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
				out = append(out, runeRange{f, f})
			}
		}
	}
	return out
}

// size is the number of characters, counted as often as they are listed.
func (s runeSet) size() (n int) {
	for _, r := range s {
		n += int(r.hi-r.lo) + 1
	}
	return n
}
