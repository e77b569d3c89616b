package questions

import (
	"cmp"
	"iter"
	"slices"
	"unicode/utf8"
)

// Bounds of the endings of clozes, in characters.
const (
	leastEnding = 20
	mostEnding  = 150
)

// choices is the number of endings of a cloze.
const choices = 4

// clozes asks which of four sentences follows a context. The wrong ones are the right ones of other questions: those
// nearest in length, so that length tells nothing. The right one is at each place equally often.
func clozes(blocks iter.Seq[[]string]) (list []Question) {
	for block := range blocks {
		first := 0
		for i, s := range block {
			begin, ok := passage(block, first, i)
			if n := utf8.RuneCountInString(s); !ok || n < leastEnding || n > mostEnding {
				continue
			}
			context := join(block[begin:i]) + space(block[i-1], s)
			list = append(list, Question{Context: context, Endings: []string{s}})
			first = i + 1
		}
	}
	all := byLength(list)
	if len(all) < choices {
		return nil
	}
	for i := range list {
		q := &list[i]
		at, _ := slices.BinarySearchFunc(all, q.Endings[0], shorter)
		q.Right = i % choices
		q.Endings = slices.Insert(nearest(all, at), q.Right, q.Endings[0])
	}
	return list
}

// byLength returns the different endings of questions, shortest first.
func byLength(list []Question) (endings []string) {
	for _, q := range list {
		endings = append(endings, q.Endings[0])
	}
	slices.SortFunc(endings, shorter)
	return slices.Compact(endings)
}

func shorter(a, b string) int {
	return cmp.Or(cmp.Compare(utf8.RuneCountInString(a), utf8.RuneCountInString(b)), cmp.Compare(a, b))
}

// nearest returns the endings that are nearest in length to that at an index, in order of length. Of two that are as
// near, it takes the shorter.
func nearest(all []string, at int) []string {
	length := func(i int) int { return utf8.RuneCountInString(all[i]) }
	low, high := at, at+1
	for high-low < choices {
		if high == len(all) || low > 0 && length(at)-length(low-1) <= length(high)-length(at) {
			low--
		} else {
			high++
		}
	}
	return slices.Concat(all[low:at], all[at+1:high])
}
