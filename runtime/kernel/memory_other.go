//go:build !unix

package kernel

// memory is aligned memory of the Go heap, where there is no portable way around it.
type memory struct{ bytes []byte }

// alloc gets n zero bytes.
func (m *memory) alloc(n int) error {
	m.bytes = alignedBytes(n)
	return nil
}

func (m *memory) free() { m.bytes = nil }
