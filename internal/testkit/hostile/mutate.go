package hostile

import (
	"math/rand/v2"
	"slices"
)

// tokens are what Mutate puts into JSON: its punctuation, and values that readers get wrong.
var tokens = []string{`"`, `{`, `}`, `[`, `]`, `,`, `:`, `0`, `1`, `-1`, `2147483648`, `9223372036854775807`,
	`18446744073709551615`, `1e3`, `1e400`, `0.5`, `NaN`, ` `, "\t",
	"\x00", "\xff", `\u0000`, `\ud800`, `\ud83d\ude00`, `null`, `true`, `""`, `"a"`, `[]`, `{}`}

// Mutate changes one to three tokens of a JSON text, so that most results are still nearly JSON, which blind changes of
// bytes hardly ever reach. Further pieces may be given that the reader knows. Seed 0 changes nothing.
func Mutate(seed uint64, text []byte, pieces ...string) []byte {
	if seed == 0 {
		return text
	}
	r := rand.New(rand.NewPCG(seed, 0))
	text = slices.Clone(text)
	for range 1 + r.IntN(3) {
		if len(text) == 0 {
			break
		}
		at, n := r.IntN(len(text)), r.IntN(len(tokens)+len(pieces))
		piece := append(tokens[:len(tokens):len(tokens)], pieces...)[n]
		switch r.IntN(5) {
		case 0:
			text = slices.Insert(text, at, []byte(piece)...)
		case 1:
			text = slices.Replace(text, at, min(at+1+r.IntN(4), len(text)), []byte(piece)...)
		case 2:
			text = slices.Delete(text, at, min(at+1+r.IntN(8), len(text)))
		case 3: // copy a part to another place
			end := min(at+1+r.IntN(60), len(text))
			text = slices.Insert(text, r.IntN(len(text)), slices.Clone(text[at:end])...)
		case 4: // another number
			for at < len(text) && (text[at] < '0' || text[at] > '9') {
				at++
			}
			end := at
			for end < len(text) && text[end] >= '0' && text[end] <= '9' {
				end++
			}
			text = slices.Replace(text, at, end, []byte(piece)...)
		}
	}
	return text
}
