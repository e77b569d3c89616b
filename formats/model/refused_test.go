package model

import (
	"strings"
	"testing"
)

// TestRefusedNumbers: out-of-range numbers are rejected with the name of their key.
func TestRefusedNumbers(t *testing.T) {
	three := change(change(mistral01, "num_hidden_layers", "2"), "layer_types",
		`["full_attention","full_attention","full_attention"]`)
	for config, says := range map[string]string{
		change(phi3Mini, "partial_rotary_factor", "0.52"):      "partial_rotary_factor",
		change(mistral01, "rope_scaling", `{"type":"linear"}`): "factor is missing",
		three: "3 entries for 2 layers",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// TestPackedShape: four rows share a byte; so do the last ones, even if fewer.
func TestPackedShape(t *testing.T) {
	for rows, want := range map[int]int{1: 1, 4: 1, 5: 2, 6: 2, 8: 2, 9: 3} {
		n := Need{Shape: []int{rows, 7}}
		if got := n.PackedShape(); got[0] != want || got[1] != 7 {
			t.Errorf("%d rows: %v", rows, got)
		}
	}
}
