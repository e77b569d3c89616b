// Package long reports whether LOWPACK_LONG asks tests to run all of their cases. Without it a test takes a sample that
// still has every class of them.
package long

import (
	"os"
	"testing"
)

// All reports whether all cases are asked for.
var All = os.Getenv("LOWPACK_LONG") != ""

// Only skips a test that runs with all cases alone.
func Only(t testing.TB) {
	t.Helper()
	if !All {
		t.Skip("LOWPACK_LONG is not set")
	}
}
