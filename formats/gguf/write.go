package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/lowpack/lowpack/pack"
)

// Place sets the sizes and offsets of tensors stored in the given order.
func Place(ts []TensorInfo) error {
	at := int64(0)
	for i := range ts {
		t := &ts[i]
		var err error
		if len(t.Shape) < 1 || len(t.Shape) > maxDims {
			return fmt.Errorf("%w: tensor %q has %d dimensions", pack.ErrUnsupported, t.Name, len(t.Shape))
		}
		if t.Size, err = t.Type.Size(t.Shape); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		t.Begin = at
		size, ok := padded(t.Size, defaultAlign)
		if !ok || at > 1<<62-size {
			return fmt.Errorf("%w: tensor %q: its end overflows", pack.ErrLimit, t.Name)
		}
		at += size
	}
	return nil
}

// AppendHeader appends a version 3 header: the keys and tensor infos in the given order, with the offsets that Place
// sets, and zero padding up to the data. It returns an error for a header that Parse would reject.
func AppendHeader(dst []byte, keys []KV, ts []TensorInfo) ([]byte, error) {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, 3)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(ts)))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(keys)))
	for _, kv := range keys {
		dst = appendText(dst, kv.Key)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(kv.Value.Kind))
		dst = appendValue(dst, kv.Value)
	}
	for _, t := range ts {
		dst = appendText(dst, t.Name)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(t.Shape)))
		for i := range t.Shape {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Shape[len(t.Shape)-1-i]))
		}
		dst = binary.LittleEndian.AppendUint32(dst, t.Type.number())
		dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Begin))
	}
	for (len(dst)-start)%defaultAlign != 0 {
		dst = append(dst, 0)
	}
	return dst, reread(dst[start:], ts)
}

// reread parses a header that was just written, so that no caller can write what readers reject.
func reread(header []byte, ts []TensorInfo) error {
	size := int64(len(header))
	if n := len(ts); n > 0 {
		data, _ := padded(ts[n-1].Begin+ts[n-1].Size, defaultAlign)
		size += data
	}
	h, err := Parse(bytes.NewReader(header), size)
	if err != nil {
		return fmt.Errorf("writing a GGUF header: %w", err)
	}
	for i := range ts {
		if h.Tensors[i].Type != ts[i].Type {
			return fmt.Errorf("writing a GGUF header: %w: tensor %q of type %s would be read as %s",
				pack.ErrUnsupported,
				ts[i].Name, ts[i].Type, h.Tensors[i].Type)
		}
	}
	return nil
}

func appendText(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(dst, uint64(len(s))), s...)
}

func appendValue(dst []byte, v Value) []byte {
	switch {
	case v.Kind == String:
		return appendText(dst, v.text)
	case v.Kind != Array:
		return append(dst, binary.LittleEndian.AppendUint64(nil, v.bits)[:kindSizes[v.Kind]]...)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(v.Elem))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(v.Len()))
	for _, s := range v.list {
		dst = appendText(dst, s)
	}
	return append(dst, v.raw...)
}

// Writer writes tensor data in file order, in any number of pieces per tensor, with the padding after each tensor.
type Writer struct {
	w    io.Writer
	ts   []TensorInfo
	next int   // current tensor
	done int64 // bytes written of it
}

// NewWriter writes the header and returns a writer for the data. ts are in file order with the offsets that Place sets.
func NewWriter(w io.Writer, keys []KV, ts []TensorInfo) (*Writer, error) {
	header, err := AppendHeader(nil, keys, ts)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(header)
	return &Writer{w: w, ts: ts}, err
}

// Write appends bytes to the named tensor, which must be the current one.
func (w *Writer) Write(name string, p []byte) error {
	if w.next == len(w.ts) || w.ts[w.next].Name != name {
		return fmt.Errorf("GGUF writer: tensor %q is not the next one", name)
	}
	t := &w.ts[w.next]
	if w.done += int64(len(p)); w.done > t.Size {
		return fmt.Errorf("GGUF writer: tensor %q: more than its %d bytes", name, t.Size)
	}
	if _, err := w.w.Write(p); err != nil || w.done < t.Size {
		return err
	}
	w.next, w.done = w.next+1, 0
	end, _ := padded(t.Size, defaultAlign)
	_, err := w.w.Write(make([]byte, end-t.Size))
	return err
}

// Close reports an error if a tensor is incomplete. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.next == len(w.ts) {
		return nil
	}
	t := w.ts[w.next]
	return fmt.Errorf("GGUF writer: tensor %q has %d of its %d bytes", t.Name, w.done, t.Size)
}
