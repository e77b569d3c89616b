package seed

import "testing"

// TestRand: a seed that is set gives the same numbers, others differ.
func TestRand(t *testing.T) {
	t.Setenv(Env, "")
	if a, b := Rand(t).Uint64(), Rand(t).Uint64(); a == b {
		t.Errorf("%d twice", a)
	}
	t.Setenv(Env, "7")
	if a, b := Rand(t).Uint64(), Rand(t).Uint64(); a != b {
		t.Errorf("%d, %d with one seed", a, b)
	}
	if got := line(7); got != "LOWPACK_SEED=7" {
		t.Errorf("%q", got)
	}
}
