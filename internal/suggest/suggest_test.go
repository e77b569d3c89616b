package suggest

import (
	"strings"
	"testing"
)

func TestDidYouMean(t *testing.T) {
	words := []string{"vnni4i", "vnni4", "convert", "BitNetForCausalLM", "--layout"}
	for typed, want := range map[string]string{
		"vni4i":             "vnni4i",
		"VNNI4":             "vnni4",
		"conv":              "convert",
		"bitnetforcausallm": "BitNetForCausalLM",
		"--layut":           "--layout",
		"":                  "", "x": "", "frobnicate": "", "--": "", strings.Repeat("convert", 10): "",
	} {
		if want != "" {
			want = " (did you mean " + want + "?)"
		}
		if got := DidYouMean(typed, words); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}
