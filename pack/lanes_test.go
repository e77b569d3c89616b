package pack

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
)

// TestLanes compares how this processor and plain Go decode layouts that have lanes: matrices of all numbers of columns
// around whole steps, between fences, with any byte changed.
func TestLanes(t *testing.T) {
	defer func(b bool) { translates = b }(translates)
	r := rand.New(rand.NewPCG(7, 8))
	in, out := fence.New(t, 1<<16), fence.New(t, 1<<17)
	for _, l := range everyLayout(t) {
		f := formulaOf(l)
		if f == nil || f.fast == nil || f.fast.lanes == nil {
			continue
		}
		for i := range 60 {
			s := Shape{M: 1 + r.IntN(3*f.fast.panel), K: 1 + r.IntN(200)}
			want := NewMatrix(s, alphabetOf(t, l))
			randomize(r, want.Codes, want.Alphabet)
			whole := packed(t, l, want)
			src := fence.Tail[byte](in, len(whole))
			copy(src, whole)
			damaged := i%3 == 0
			if damaged {
				src[r.IntN(len(src))] = byte(r.Uint32())
			}
			var first *answer
			for _, translates = range switches {
				for _, place := range []func(*fence.Memory, int) []int8{fence.Tail[int8], fence.Head[int8]} {
					got := &Matrix{Shape: s, Alphabet: want.Alphabet, Codes: place(out, s.M*s.K)}
					err := l.Unpack(got, src)
					out.Check(t)
					if !damaged && (err != nil || !slices.Equal(got.Codes, want.Codes)) {
						t.Fatalf("%s %v: other codes, or %v", label(l), s, err)
					}
					if a := answerOf(got, err); first == nil {
						first = &a
					} else if a.refusal != first.refusal || !slices.Equal(a.codes, first.codes) {
						t.Fatalf("%s %v: damaged bytes give different answers", label(l), s)
					}
				}
			}
		}
	}
}

// answer is the result of Unpack: a refusal or codes.
type answer struct {
	refusal string
	codes   []int8
}

func answerOf(m *Matrix, err error) answer {
	if err != nil {
		return answer{refusal: err.Error()}
	}
	return answer{codes: slices.Clone(m.Codes)} // the memory is used again
}
