package questions

import (
	"fmt"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"unicode/utf8"
)

// depths are where a passage states the key, in percent of its characters, from question to question.
var depths = [...]int{10, 30, 50, 70, 90}

// leastSentences is the number of sentences that a passage needs for the depths to differ.
const leastSentences = 5

// asks ends the contexts of passkeys.
const asks = "What is the pass key? The pass key is"

// Fits reports whether a question is short enough.
type Fits func(*Question) (bool, error)

// Progress is told how many sentences of a text are in passages, or left out.
type Progress func(done, total int)

// passkeys asks for a number of five digits that a sentence between those of a passage states: passkey retrieval, as in
// Landmark Attention (Mohtashami and Jaggi 2023, arXiv 2305.16300). A passage has as many sentences as fit, whatever
// headings are between them; what is left at the end of the text makes none.
func passkeys(blocks iter.Seq[[]string], fits Fits, progress Progress) (list []Question, err error) {
	rest, random := slices.Concat(slices.Collect(blocks)...), rand.NewPCG(1, 2)
	for all := len(rest); ; progress(all-len(rest), all) {
		digits, _ := bits.Mul64(random.Uint64(), 90_000) // below 90,000
		key, depth := fmt.Sprint(10_000+digits), depths[len(list)%len(depths)]
		n, err := most(len(rest), func(n int) (bool, error) { return fits(hide(key, rest[:n], depth)) })
		if err != nil || n == len(rest) {
			return list, err
		}
		if n >= leastSentences {
			list = append(list, *hide(key, rest[:n], depth))
		}
		rest = rest[max(n, 1):]
	}
}

// most returns the largest n up to a limit that is accepted, if all below it are.
func most(limit int, accepts func(n int) (bool, error)) (n int, err error) {
	for step, grows := 1, true; step > 0; {
		accepted := n+step <= limit
		if accepted {
			if accepted, err = accepts(n + step); err != nil {
				return 0, err
			}
		}
		if accepted {
			n += step
		}
		if grows = grows && accepted; grows {
			step *= 2
		} else {
			step /= 2
		}
	}
	return n, nil
}

// hide asks for a key that is stated before the first sentence that begins at a depth or below it, or before the last.
func hide(key string, sentences []string, depth int) *Question {
	total, at, above := 0, 0, 0
	for _, s := range sentences {
		total += utf8.RuneCountInString(s)
	}
	for at < len(sentences)-1 && 100*above < depth*total {
		above += utf8.RuneCountInString(sentences[at])
		at++
	}
	parts := slices.Concat(sentences[:at], []string{"The pass key is " + key + "."}, sentences[at:], []string{asks})
	return &Question{Context: join(parts) + " ", Endings: []string{key}}
}
