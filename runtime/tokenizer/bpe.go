package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// bpe turns words into tokens by merging adjacent ones, smallest rank first, leftmost first among equal ranks.
type bpe struct {
	vocab  *vocab
	merges *merges
	// bytewise: a word is a sequence of bytes, otherwise of characters.
	bytewise bool
	// byteID is the token of a single byte: in a bytewise vocabulary the byte itself, in others its fallback token
	// <0xXX>; −1 = none: such a byte, or a character with such a byte, becomes the unknown token, or is dropped if the
	// vocabulary has none (SmolLM2 lacks 21 bytes, most of which never occur in UTF-8; Gemma 2 lacks <0x09>).
	byteID [256]int32
	// wholeWords: a word that is a token becomes that token, regardless of the merges (ignore_merges).
	wholeWords bool
	unk        int32 // −1: none
	fuseUnk    bool
	// cuts: no rule joins a space mark to anything but preceding space marks, so a text may be cut before every mark
	// that follows something else without changing its tokens.
	cuts bool
	// seams and allBytes say where long words may be cut.
	seams    *seams
	allBytes bool // every byte has a token
}

// newBPE completes a model that has its vocabulary and merges.
func newBPE(b bpe, fallback bool) *bpe {
	switch {
	case b.bytewise:
		for i := range b.byteID {
			id, _ := b.vocab.find([]byte{byte(i)}) // −1 where it is not a token
			b.byteID[i] = int32(id)
		}
	case fallback:
		b.byteID = fallbackIDs(b.vocab)
	default:
		for i := range b.byteID {
			b.byteID[i] = -1
		}
	}
	b.cuts = !b.bytewise && b.canCut()
	b.seams, b.allBytes = b.findSeams(), !slices.Contains(b.byteID[:], -1)
	return &b
}

// dropped lists the bytes that are not tokens.
func (b *bpe) dropped() (out []byte) {
	for i, id := range b.byteID {
		if id < 0 {
			out = append(out, byte(i))
		}
	}
	return out
}

// fallbackIDs returns the tokens <0x00> … <0xFF>; −1 where there is none.
func fallbackIDs(v *vocab) (ids [256]int32) {
	for i := range ids {
		id, _ := v.findString(fmt.Sprintf("<0x%02X>", i))
		ids[i] = int32(id)
	}
	return ids
}

// appendBytes appends the tokens of bytes that all have one; false if one has none.
func appendBytes[ID int | int32](ids []ID, text string, byteID *[256]int32) ([]ID, bool) {
	for i := range len(text) {
		if byteID[text[i]] < 0 {
			return ids, false
		}
	}
	for i := range len(text) {
		ids = append(ids, ID(byteID[text[i]]))
	}
	return ids, true
}

// canCut reports whether no rule joins a token that does not end in a mark to one that starts with a mark.
func (b *bpe) canCut() bool {
	if _, ok := b.vocab.findString(mark); !ok {
		return false
	}
	for _, s := range b.merges.slots {
		if s.pair == 0 {
			continue
		}
		left, right := b.vocab.bytes(int(s.pair>>32)), b.vocab.bytes(int(uint32(s.pair)-1))
		if bytes.HasPrefix(right, []byte(mark)) && !bytes.HasSuffix(left, []byte(mark)) {
			return false
		}
	}
	return true
}

// mark is the character that stands for a space in SentencePiece vocabularies.
const mark = "▁"

// encode appends the tokens of a word.
func (b *bpe) encode(dst []int, word string, w *workspace) ([]int, error) {
	all := len(word)
	for word != "" {
		next := word
		if b.cuts {
			next = word[:cut(word)]
		}
		n, err := b.piece(next, longWord)
		if err != nil {
			return dst, err
		}
		dst = b.word(dst, word[:n], n == all, w)
		word = word[n:]
	}
	return dst, nil
}

// cut returns the position of the first mark that follows something else; the length of s when there is none.
func cut(s string) int {
	i := 0
	for strings.HasPrefix(s[i:], mark) {
		i += len(mark)
	}
	if j := strings.Index(s[i:], mark); j >= 0 {
		return i + j
	}
	return len(s)
}

// word appends the tokens of a word, or of a piece of one.
func (b *bpe) word(dst []int, word string, whole bool, w *workspace) []int {
	if whole && b.wholeWords {
		if id, ok := b.vocab.findString(word); ok {
			return append(dst, id)
		}
	}
	entry := w.cached(word)
	if entry != nil && entry.holds(word) {
		for _, id := range entry.ids[:entry.n] {
			dst = append(dst, int(id))
		}
		return dst
	}
	w.ids = b.symbols(w.ids[:0], word)
	if len(w.ids) <= shortWord {
		b.mergeShort(w)
	} else {
		b.mergeLong(w)
	}
	if entry != nil {
		entry.put(word, w.ids)
	}
	for _, id := range w.ids {
		dst = append(dst, int(id))
	}
	return dst
}

// symbols appends the initial tokens of a word: one per byte or character. An unknown token is held back until the next
// regular token or the end: fallback bytes do not flush it, are emitted before it, and do not end a run of unknowns.
// This matches the tokenizers library (testdata/pipelines.json).
func (b *bpe) symbols(ids []int32, word string) []int32 {
	waiting := false
	for i, n := 0, 0; i < len(word); i += n {
		var id int32
		if id, n = b.symbol(word[i:]); id < 0 && !b.bytewise {
			var known bool
			if ids, known = appendBytes(ids, word[i:i+n], &b.byteID); known {
				continue
			}
		}
		if waiting && (id >= 0 || !b.fuseUnk) {
			ids = append(ids, b.unk)
		}
		if id >= 0 {
			ids = append(ids, id)
		}
		waiting = id < 0 && b.unk >= 0
	}
	if waiting {
		ids = append(ids, b.unk)
	}
	return ids
}

// symbol returns the token of the byte or character at the start of s, −1 if it has none, and its length.
func (b *bpe) symbol(s string) (id int32, n int) {
	if b.bytewise {
		return b.byteID[s[0]], 1
	}
	_, n = utf8.DecodeRuneInString(s)
	found, _ := b.vocab.findString(s[:n])
	return int32(found), n
}

// shortWord is the maximum number of symbols for which searching a small array for the best pair is faster than keeping
// a heap.
const shortWord = 32

// mergeShort applies the rules to w.ids by searching for the best pair repeatedly.
func (b *bpe) mergeShort(w *workspace) {
	ids := w.ids
	var ranks [shortWord]uint32
	var made [shortWord]int32
	last := len(ids) - 1
	for i := 0; i < last; i++ {
		ranks[i], made[i] = b.merges.rank(ids[i], ids[i+1])
	}
	for last > 0 {
		best := 0
		for i := 1; i < last; i++ {
			if ranks[i] < ranks[best] {
				best = i
			}
		}
		if ranks[best] == noRank {
			break
		}
		ids[best] = made[best]
		copy(ids[best+1:], ids[best+2:last+1])
		copy(ranks[best:], ranks[best+1:last])
		copy(made[best:], made[best+1:last])
		last--
		if best < last {
			ranks[best], made[best] = b.merges.rank(ids[best], ids[best+1])
		}
		if best > 0 {
			ranks[best-1], made[best-1] = b.merges.rank(ids[best-1], ids[best])
		}
	}
	w.ids = ids[:last+1]
}

// mergeLong applies the rules to w.ids with a heap of pairs over a linked list: n·log n steps for n symbols. An entry
// of the heap is rank << 32 | position of the left symbol; an entry whose pair has changed since is skipped.
func (b *bpe) mergeLong(w *workspace) {
	ids := w.ids
	n := len(ids)
	w.next, w.prev = grown(w.next, n), grown(w.prev, n)
	h := heap(w.heap[:0])
	for i := range ids {
		w.next[i], w.prev[i] = int32(i+1), int32(i-1)
		if i+1 < n {
			if rank, _ := b.merges.rank(ids[i], ids[i+1]); rank != noRank {
				h = append(h, uint64(rank)<<32|uint64(i))
			}
		}
	}
	h.init()
	for len(h) > 0 {
		top := h.pop()
		i := int32(uint32(top))
		j := w.next[i]
		if ids[i] < 0 || int(j) >= n {
			continue
		}
		rank, id := b.merges.rank(ids[i], ids[j])
		if rank != uint32(top>>32) {
			continue
		}
		ids[i], ids[j] = id, -1
		after := w.next[j]
		w.next[i] = after
		if int(after) < n {
			w.prev[after] = i
			if rank, _ := b.merges.rank(ids[i], ids[after]); rank != noRank {
				h.push(uint64(rank)<<32 | uint64(i))
			}
		}
		if before := w.prev[i]; before >= 0 {
			if rank, _ := b.merges.rank(ids[before], ids[i]); rank != noRank {
				h.push(uint64(rank)<<32 | uint64(before))
			}
		}
	}
	w.heap = h[:0]
	kept := ids[:0]
	for _, id := range ids {
		if id >= 0 {
			kept = append(kept, id)
		}
	}
	w.ids = kept
}
