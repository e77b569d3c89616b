package pattern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2"

	"github.com/lowpack/lowpack/internal/testkit/cpu"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// published holds patterns of published tokenizers, and one that covers the rest of the syntax ("groups").
var published = map[string]string{
	"gpt2":   GPT2,
	"llama3": Llama3,
	"qwen2":  Qwen2,
	"gpt4":   `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`,
	"gpt4o": `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	"tekken": `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	"falcon":    `[\p{P}\$\+<=>\^~\|` + "`" + `]+`,
	"digits":    `[0-9][0-9][0-9]`,
	"deepseek":  `\p{N}{1,3}`,
	"deepseek2": `[一-龥぀-ゟ゠-ヿ]+`,
	"deepseek3": `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" +
		`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	"groups": `(?:ab|a(?:b|c)*d){1,3}|(a|b)+c|x(?=y)|\d+\S`,
}

// oracle lists the matches that regexp2 finds.
func oracle(t testing.TB, re *regexp2.Regexp, s string) (out []string) {
	t.Helper()
	m, err := re.FindStringMatch(s)
	for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
		out = append(out, m.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func matches(t testing.TB, p *Pattern, s string) (out []string) {
	t.Helper()
	if err := p.Each(s, func(piece string, match bool) error {
		if match {
			out = append(out, piece)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// forOracle rewrites a pattern for regexp2, which has no possessive quantifiers but atomic groups.
func forOracle(source string) *regexp2.Regexp {
	source = strings.ReplaceAll(source, `[^\r\n\p{L}\p{N}]?+`, `(?>[^\r\n\p{L}\p{N}]?)`)
	source = strings.ReplaceAll(source, `[^\s\p{L}\p{N}]++`, `(?>[^\s\p{L}\p{N}]+)`)
	return regexp2.MustCompile(source, regexp2.None)
}

// interesting are characters of every class in the patterns, with one and several bytes.
func interesting(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../testdata/characters.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPatternsAgainstRegexp2: on real text and on random text of interesting characters every published pattern has the
// same matches as in an independent engine.
func TestPatternsAgainstRegexp2(t *testing.T) {
	wiki, err := os.ReadFile(shared.Path(t, "data/text/wiki.test.raw"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(wiki[:150_000])
	alphabet := []rune(interesting(t))
	rng := rand.New(rand.NewPCG(1, 2))
	for name, source := range published {
		p, err := Compile(source)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		re := forOracle(source)
		inputs := []string{text}
		for range 3000 {
			var b strings.Builder
			for range rng.IntN(40) {
				c := alphabet[rng.IntN(len(alphabet))]
				for range 1 + rng.IntN(3)*rng.IntN(3) {
					b.WriteRune(c)
				}
			}
			inputs = append(inputs, b.String())
		}
		for _, s := range inputs {
			got, want := matches(t, p, s), oracle(t, re, s)
			if strings.Join(got, "\x00") != strings.Join(want, "\x00") {
				for i := range want {
					if i >= len(got) || got[i] != want[i] {
						t.Fatalf("%s: match %d is %q, want %q", name, i, got[min(i, len(got)-1)], want[i])
					}
				}
				t.Fatalf("%s on %.100q\ngot  %.200q\nwant %.200q", name, s, got, want)
			}
		}
	}
}

// TestLongS: ſ and K (Kelvin) are case variants of s and k in Unicode, but not in regexp2.
func TestLongS(t *testing.T) {
	p, err := Compile(`(?i:'s|k)`)
	if err != nil {
		t.Fatal(err)
	}
	if got := matches(t, p, "'ſ'S\u212a"); len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// TestPublishedPatternsAreLinear: on texts made to provoke backtracking no published pattern comes near its limit.
func TestPublishedPatternsAreLinear(t *testing.T) {
	const most = 25 // steps per byte; the limit is stepsPerByte
	var texts []string
	for _, a := range interesting(t) {
		texts = append(texts, strings.Repeat(string(a), 2000))
		for _, b := range "aZ1 \n'.é中" {
			texts = append(texts, strings.Repeat(string(a)+string(b), 1000), strings.Repeat(string(a), 2000)+string(b))
		}
	}
	for name, source := range published {
		if name == "groups" { // not published
			continue
		}
		p, err := Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		for _, s := range texts {
			m := p.matcher(len(s))
			before := m.budget
			for pos := 0; pos < len(s); {
				end, err := m.at(s, pos)
				if err != nil {
					t.Fatalf("%s on %.20q…: %v", name, s, err)
				}
				pos = max(end, pos+1)
			}
			worst = max(worst, float64(before-m.budget)/float64(len(s)))
		}
		if worst > most {
			t.Errorf("%s takes %.1f steps per byte", name, worst)
		}
		t.Logf("%s: %.1f steps per byte", name, worst)
	}
}

func TestPatternsRefused(t *testing.T) {
	for source, class := range map[string]error{
		`^a`:      pack.ErrUnsupported,
		`a$`:      pack.ErrUnsupported,
		`\bword`:  pack.ErrUnsupported,
		`(?<=a)b`: pack.ErrUnsupported,
		`(?<n>a)`: pack.ErrUnsupported,
		`(a)\1`:   pack.ErrUnsupported,
		`a*?b`:    pack.ErrUnsupported,
		`a*`:      pack.ErrUnsupported,
		`a|`:      pack.ErrUnsupported,
		`(a*)*b`:  pack.ErrUnsupported,
		`(?!ab)c`: pack.ErrUnsupported, `[a-z&&[b]]`: pack.ErrUnsupported, `[[:alpha:]]`: pack.ErrUnsupported,
		`\p{Nobody}`: pack.ErrUnsupported, `\pL`: pack.ErrUnsupported,
		`(a`: pack.ErrUnsupported, `a)`: pack.ErrUnsupported, `[a`: pack.ErrUnsupported, `a\`: pack.ErrUnsupported,
		`*a`: pack.ErrUnsupported, `a**`: pack.ErrUnsupported,
		`a{2,1}`: pack.ErrUnsupported, `a{1000000}`: pack.ErrUnsupported, `[z-a]`: pack.ErrUnsupported,
		`\x{110000}`: pack.ErrUnsupported, `\z`: pack.ErrUnsupported,
		`(?m:a)`: pack.ErrUnsupported, `(?i:[^a])`: pack.ErrUnsupported, "": pack.ErrUnsupported,
		strings.Repeat("a", 5000):                                 pack.ErrLimit,
		strings.Repeat("(", 500) + "a" + strings.Repeat(")", 500): pack.ErrLimit,
		`(?:(?:(?:ab){1000}){1000}){1000}`:                        pack.ErrLimit,
		`(?i:` + strings.Repeat(`\S`, 100) + `)`:                  pack.ErrLimit,
	} {
		cpu.Within(t, 5*time.Second, fmt.Sprintf("to refuse %.60q", source), func() {
			if _, err := Compile(source); !errors.Is(err, class) {
				t.Errorf("%.60q: %v, want %v", source, err, class)
			}
		})
	}
}

// TestPatternIsBounded: a pattern with catastrophic backtracking is stopped with an error, and a harmless one with
// nested repetition is fast.
func TestPatternIsBounded(t *testing.T) {
	text := strings.Repeat("a", 1<<18/race.Every(16))
	for source, limited := range map[string]bool{`(a+)+`: false, `(a+)+b`: true, `(a|a)*b`: true,
		`(?:a?){30}a{30}b`: false, `a+b`: true, `(?:aa|a)+c`: true} {
		p, err := Compile(source)
		if err != nil {
			t.Logf("%s: %v", source, err)
			continue
		}
		took := cpu.Within(t, 20*time.Second, source,
			func() { err = p.Each(text, func(string, bool) error { return nil }) })
		if errors.Is(err, pack.ErrLimit) != limited || err != nil && !limited {
			t.Errorf("%s: %v", source, err)
		}
		t.Logf("%s: %v %v", source, took, err)
	}
}
