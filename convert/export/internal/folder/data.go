package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Intact checks the digest of a stored tensor.
func Intact(f *packed.File, name, digest string) error {
	t, err := f.Tensor(name)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(t.Data); hex.EncodeToString(sum[:]) != digest {
		return fmt.Errorf("%w: tensor %q does not match its digest: the file is damaged (F12)", pack.ErrCorrupt, name)
	}
	return nil
}

// Plain is the data of an unquantized tensor, which match their digest.
func Plain(f *packed.File, name string) (packed.Tensor, error) {
	list := f.Manifest().Plain
	i := slices.IndexFunc(list, func(p packed.Plain) bool { return p.Name == name })
	if i < 0 {
		return packed.Tensor{}, fmt.Errorf("%w: tensor %q is not in the manifest", pack.ErrCorrupt, name)
	}
	if err := Intact(f, name, list[i].SHA256); err != nil {
		return packed.Tensor{}, err
	}
	return f.Tensor(name)
}

// Scales returns the scales of an entry after checking their digest.
func Scales(f *packed.File, e *packed.Entry) ([]float32, error) {
	if err := Intact(f, e.Name+packed.ScaleSuffix, e.ScaleSHA); err != nil {
		return nil, err
	}
	return packed.Scales(f, e)
}

// Zeros returns the zero points of an entry after checking their digest; nil if it has none.
func Zeros(f *packed.File, e *packed.Entry) ([]int8, error) {
	if e.Zero {
		if err := Intact(f, e.Name+packed.ZeroSuffix, e.ZeroSHA); err != nil {
			return nil, err
		}
	}
	return packed.Zeros(f, e)
}

// Minima returns the minima of an entry after checking their digest; nil if it has none.
func Minima(f *packed.File, e *packed.Entry) ([]float32, error) {
	if e.Min {
		if err := Intact(f, e.Name+packed.MinSuffix, e.MinSHA); err != nil {
			return nil, err
		}
	}
	return packed.Minima(f, e)
}
