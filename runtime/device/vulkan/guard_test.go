//go:build vulkan

package vulkan

import (
	"errors"
	"testing"
)

// TestCheckGuard: kernels whose guards do not keep the subnormal results of integers are noticed; those of a unit that
// flushes are good with guards.
func TestCheckGuard(t *testing.T) {
	if err := opened(t, settings{routes: &routes{bad: true}}).checkGuard(); !errors.Is(err, errInexact) {
		t.Errorf("without guards: %v", err)
	}
	g := opened(t, settings{routes: &routes{guard: guarded, bad: true}})
	if err := g.checkGuard(); err != nil || g.routes.guard != guarded {
		t.Errorf("with guards: %v, routes %+v", err, g.routes)
	}
}
