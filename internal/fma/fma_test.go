package fma

import (
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fmacheck"
)

// TestFloat32 compares Float32 with exact arithmetic.
func TestFloat32(t *testing.T) { fmacheck.Run(t, Float32) }
