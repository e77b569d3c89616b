// Package overlap finds what may become a word when text arrives in pieces.
package overlap

import "strings"

// Of returns the length of the longest proper prefix of word that ends text.
func Of(text, word string) int {
	for n := min(len(text), len(word)-1); n > 0; n-- {
		if strings.HasSuffix(text, word[:n]) {
			return n
		}
	}
	return 0
}
