package kernel

import (
	"regexp"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestThresholds: each set with another way for large batches has a line for every layout, with its origin, and the
// line of a layout comes before that of all others.
func TestThresholds(t *testing.T) {
	origin := regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}, revision [0-9a-f]{8}$|^estimated`)
	for _, table := range [][]threshold{vecLUTTokens, openedTokens} {
		others := map[ISA]bool{}
		for _, line := range table {
			if others[line.isa] || line.tokens < 1 || !origin.MatchString(line.from) {
				t.Errorf("%+v: after all others, or without tokens or an origin", line)
			}
			others[line.isa] = line.layout == ""
		}
	}
	for _, c := range []struct {
		isa    ISA
		layout string
		want   int
	}{{AVX2, "vnni4i", 26}, {AVX2, "i1", 20}, {NEON, "vnni4i", 12}, {AVX512VNNI, "vnni4i", 0}} {
		l, err := pack.Open(pack.Spec{Name: c.layout, Alphabet: pack.Ternary.Name})
		if err != nil {
			t.Fatal(err)
		}
		if got := tokensFrom(vecLUTTokens, &Weights{Kernel: &Kernel{ISA: c.isa}, Layout: l}); got != c.want {
			t.Errorf("%s on %s from %d tokens on, want %d", c.layout, c.isa, got, c.want)
		}
	}
}

// TestOpens: on 512 bits the tuning says whether digits in two planes become int8, elsewhere the table.
func TestOpens(t *testing.T) {
	was := tuned
	defer func() { tuned = was }()
	for _, c := range []struct {
		tuning     Tuning
		own, least int // 0 = never
	}{{oneStream, 0, 0}, {ramps, 0, 24}, {oneStream, 8, 8}, {ramps, 8, 8}} {
		tuned = c.tuning
		p := &tiled{opened: &opening{tokens: c.own}}
		for n := 1; n < 200; n++ {
			if got, want := p.opens(n), c.least > 0 && n >= c.least; got != want {
				t.Errorf("%s, %d: %d tokens: %v", c.tuning.Name, c.own, n, got)
			}
		}
	}
	if (&tiled{}).opens(100) {
		t.Error("codes in one plane are opened")
	}
}
