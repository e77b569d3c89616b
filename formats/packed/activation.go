package packed

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Activations lists all activations that a file may have (FORMAT F22), those of 8 bits first.
func Activations() (list []Activation) {
	for _, kinds := range [][2]ActivationKind{{ActivationToken, ActivationGroup},
		{ActivationToken16, ActivationGroup16}} {
		list = append(list, Activation{Kind: kinds[0]})
		for _, size := range []int{32, 64, 128} {
			list = append(list, Activation{Kind: kinds[1], Size: size})
		}
	}
	return list
}

// Check rejects undefined kinds of activations (F22).
func (a Activation) Check() error {
	if slices.Contains(Activations(), a) {
		return nil
	}
	return fmt.Errorf("%w: manifest: activation scales of kind %q, size %d; there are token and token16, and group "+
		"and group16 of 32, 64 or 128 columns (F22)", pack.ErrUnsupported, a.Kind, a.Size)
}

// Planes is the number of int8 vectors that an input becomes: 1 with 8 bits (NUMERICS N14), 2 with 16 (N83).
func (a Activation) Planes() int {
	if a.Kind == ActivationToken16 || a.Kind == ActivationGroup16 {
		return 2
	}
	return 1
}

// Bits is the width of a code: 8 or 16.
func (a Activation) Bits() int { return 8 * a.Planes() }

// Per names what shares a scale: token or group:N.
func (a Activation) Per() string {
	if a.Size > 0 {
		return fmt.Sprintf("%s:%d", ActivationGroup, a.Size)
	}
	return string(ActivationToken)
}

// String returns the form of --activation: token, group:N, token16 or group16:N.
func (a Activation) String() string {
	if a.Size > 0 {
		return fmt.Sprintf("%s:%d", a.Kind, a.Size)
	}
	return string(a.Kind)
}
