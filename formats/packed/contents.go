package packed

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Contents describes a packed file before it is written: everything but data and digests. It determines the offset of
// every byte.
type Contents struct {
	Manifest Manifest // without digests; Plain in any order, embedded files as lowpack/NAME
	Golden   int64    // bytes of lowpack/golden before padding; 0 = none
	Part     *Part    // the content of a part file; nil = everything
}

// placeholder has the length of every digest.
var placeholder = hex.EncodeToString(make([]byte, sha256.Size))

// plan completes the manifest with placeholders for digests and puts the tensors in order.
func (c *Contents) plan() (*Manifest, *frame, error) {
	m := c.Manifest
	m.Format = FormatVersion
	m.Packed, m.Plain, m.Sources = copied(m.Packed), copied(m.Plain), copied(m.Sources)
	m.Activation.Kind = cmp.Or(m.Activation.Kind, ActivationToken)
	for i := range m.Packed {
		e := &m.Packed[i]
		e.Shape = copied(e.Shape)
		e.Scale.DType = cmp.Or(e.Scale.DType, ScaleF32)
		e.SHA256, e.CodesSHA = placeholder, placeholder
		for _, b := range e.Beside() {
			*b.SHA256 = placeholder
		}
	}
	for i := range m.Plain {
		m.Plain[i].SHA256 = placeholder
		m.Plain[i].Shape = copied(m.Plain[i].Shape)
	}
	for i := range m.Sources {
		m.Sources[i].SHA256 = placeholder
	}
	m.Golden = ""
	if c.Golden > 0 {
		m.Golden = placeholder
	}
	f, err := newFrame(&m, c.Golden)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(m.Plain, f.inFileOrder)
	return &m, f, m.check()
}

// copied returns a copy of a list that is never nil: canonical JSON has empty lists but no null.
func copied[T any](list []T) []T { return append([]T{}, list...) }

// Size is the number of bytes of the file that Create will write. An error names the rule of the format that the
// contents would break.
func (c *Contents) Size() (int64, error) {
	w, err := newWriter(c)
	if err != nil {
		return 0, err
	}
	return w.Size(), nil
}
