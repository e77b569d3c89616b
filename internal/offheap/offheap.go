// Package offheap holds large buffers outside the heap of the garbage collector, which would let garbage grow to the
// size of all that is alive before it looks.
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
