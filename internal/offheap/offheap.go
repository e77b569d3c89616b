// Package offheap allocates large buffers outside the Go heap, where they would count as live memory: the garbage
// collector lets garbage grow in proportion to that.
package offheap

// Buffer is zeroed memory. It must not be used after Free.
type Buffer struct{ Bytes []byte }

// New returns a buffer of n bytes.
func New(n int) (*Buffer, error) {
	if n == 0 {
		return &Buffer{}, nil
	}
	b, err := alloc(n)
	return &Buffer{b}, err
}

// Free gives the memory back. A second call does nothing.
func (b *Buffer) Free() {
	if b != nil && len(b.Bytes) > 0 {
		free(b.Bytes)
		b.Bytes = nil
	}
}
