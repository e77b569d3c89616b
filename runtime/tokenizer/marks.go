package tokenizer

import (
	"fmt"
	"strings"

	"github.com/lowpack/lowpack/internal/marked"
	"github.com/lowpack/lowpack/pack"
)

// maxMarking bounds the bytes that are normalized again to locate marks: each run costs as much as the text.
const maxMarking = 1 << 30

// normalized normalizes a text and keeps its marks, where a control token could still be matched in the result.
func (e *encoder) normalized(text marked.Text) (marked.Text, error) {
	s, err := e.t.normalizer.normalize(text.S)
	if err != nil || !e.t.normal.special || !text.Marked(0, len(text.S)) {
		return marked.Text{S: s}, err
	}
	runs := markedRuns(text.Input)
	if len(runs)*len(text.S) > maxMarking {
		return marked.Text{}, fmt.Errorf("%w: %d pieces in a text of %d bytes, in which control tokens are normalized",
			pack.ErrLimit, len(runs), len(text.S))
	}
	marks := make([]byte, len(s))
	for _, run := range runs {
		from, to, err := e.moved(text.S, s, run)
		if err != nil {
			return marked.Text{}, err
		}
		for i := from; i < to; i++ {
			marks[i] = 1
		}
	}
	return marked.Text{S: s, Input: string(marks)}, nil
}

// moved returns the range in the normalized text of a range of a text: after the normalized prefix, and before the
// normalized suffix. Where a normalizer lets adjacent characters interact, the range is too large, never too small.
func (e *encoder) moved(text, normalized string, run [2]int) (from, to int, err error) {
	front, err := e.t.normalizer.normalize(text[:run[0]])
	if err != nil {
		return 0, 0, err
	}
	behind, err := e.t.normalizer.normalize(text[run[1]:])
	if err != nil {
		return 0, 0, err
	}
	for from < min(len(front), len(normalized)) && front[from] == normalized[from] {
		from++
	}
	to = len(normalized)
	for i := len(behind) - 1; i >= 0 && to > from && behind[i] == normalized[to-1]; i-- {
		to--
	}
	return from, to, nil
}

// markedRuns lists the ranges of marked bytes.
func markedRuns(marks string) (runs [][2]int) {
	for at := 0; ; {
		from := strings.IndexByte(marks[at:], 1)
		if from < 0 {
			return runs
		}
		from += at
		if at = strings.IndexByte(marks[from:], 0); at < 0 {
			at = len(marks)
		} else {
			at += from
		}
		runs = append(runs, [2]int{from, at})
	}
}
