package reference

import (
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fmacheck"
)

// TestFMA compares fma with exact arithmetic.
func TestFMA(t *testing.T) { fmacheck.Run(t, fma) }
