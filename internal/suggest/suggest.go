// Package suggest finds the word that a misspelled one was meant to be.
package suggest

import (
	"strings"

	"github.com/xrash/smetrics"
)

// longestTypo is the longest word whose meaning is guessed.
const longestTypo = 64

// DidYouMean names the word that somebody may have meant, as " (did you mean WORD?)": one with few letters changed, or
// that begins alike, whatever the case. "" if there is none.
func DidYouMean(typed string, words []string) string {
	if len(typed) > longestTypo {
		return ""
	}
	best, least := "", 1+len(typed)/3
	typed = strings.ToLower(typed)
	for _, w := range words {
		lower := strings.ToLower(w)
		d := smetrics.WagnerFischer(typed, lower, 1, 1, 1)
		switch {
		case lower == typed:
			d = -1 // nothing is nearer
		case len(strings.Trim(typed, "-")) > 1 && strings.HasPrefix(lower, typed):
			d = 0
		}
		if d < least {
			best, least = w, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}
