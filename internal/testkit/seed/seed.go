// Package seed seeds the random numbers of tests, so that a failed run can be repeated.
package seed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Env is the environment variable that sets the seed.
const Env = "LOWPACK_SEED"

// Rand returns a generator that differs from run to run, unless LOWPACK_SEED is set. The log of the test says the seed,
// and the command that repeats a failure sets it. It must not be used by several goroutines at once.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	n := rand.Uint64()
	if text := os.Getenv(Env); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", Env, err)
		}
	}
	t.Log(line(n))
	return rand.New(rand.NewPCG(n, 0))
}

func line(n uint64) string { return fmt.Sprintf("%s=%d", Env, n) }
