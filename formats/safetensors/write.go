package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Order sorts tensors like the reference writer: by descending element size, then by name. Every tensor is then aligned
// to its element size.
func Order(ts []TensorInfo) {
	slices.SortFunc(ts, func(a, b TensorInfo) int {
		if d := b.DType.Size() - a.DType.Size(); d != 0 {
			return int(d)
		}
		return cmp.Compare(a.Name, b.Name)
	})
}

// Place sets the offsets of tensors stored in the given order.
func Place(ts []TensorInfo) error {
	at := int64(0)
	for i := range ts {
		n, err := byteSize(ts[i].Shape, ts[i].DType)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", ts[i].Name, err)
		}
		ts[i].Begin, ts[i].End = at, at+n
		at += n
	}
	return nil
}

// AppendHeader appends a header in canonical form: the length, then JSON with the metadata (omitted if empty) and the
// tensors in the given order, without white space and with the fewest escapes, padded with spaces so that the data
// starts at a multiple of align bytes. It returns an error for a header that Parse would reject.
func AppendHeader(dst []byte, meta []KV, ts []TensorInfo, align int) ([]byte, error) {
	start := len(dst)
	dst = append(dst, make([]byte, prefixLen)...)
	dst = append(dst, '{')
	if len(meta) > 0 {
		dst = appendString(dst, metadataKey)
		dst = append(dst, ':')
		for i, kv := range meta {
			dst = append(dst, "{,"[min(i, 1)])
			dst = appendString(dst, kv.Key)
			dst = append(dst, ':')
			dst = appendString(dst, kv.Value)
		}
		dst = append(dst, '}')
	}
	for i, t := range ts {
		if i > 0 || len(meta) > 0 {
			dst = append(dst, ',')
		}
		dst = appendTensor(dst, &t)
	}
	dst = append(dst, '}')
	for (len(dst)-start)%align != 0 {
		dst = append(dst, ' ')
	}
	binary.LittleEndian.PutUint64(dst[start:], uint64(len(dst)-start-prefixLen))
	return dst, reread(dst[start:], ts)
}

// reread parses a header that was just written, so that no caller can write what readers reject.
func reread(header []byte, ts []TensorInfo) error {
	data := int64(0)
	if len(ts) > 0 {
		data = ts[len(ts)-1].End
	}
	h, err := Parse(bytes.NewReader(header), int64(len(header))+data)
	if err != nil {
		return fmt.Errorf("writing a safetensors header: %w", err)
	}
	for i := range ts {
		if h.Tensors[i].Name != ts[i].Name {
			return fmt.Errorf("writing a safetensors header: tensor %q is not in the order of the offsets", ts[i].Name)
		}
	}
	return nil
}

func appendTensor(dst []byte, t *TensorInfo) []byte {
	dst = appendString(dst, t.Name)
	dst = append(dst, `:{"dtype":`...)
	dst = appendString(dst, string(t.DType))
	dst = append(dst, `,"shape":`...)
	dst = appendInts(dst, t.Shape...)
	dst = append(dst, `,"data_offsets":`...)
	dst = appendInts(dst, t.Begin, t.End)
	return append(dst, '}')
}

func appendInts(dst []byte, v ...int64) []byte {
	dst = append(dst, '[')
	for i, n := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, n, 10)
	}
	return append(dst, ']')
}

// short escapes of control characters; the others are \u00xx.
var short = map[byte]byte{'\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= 0x20:
			dst = append(dst, c)
		case short[c] != 0:
			dst = append(dst, '\\', short[c])
		default:
			dst = fmt.Appendf(dst, "\\u%04x", c)
		}
	}
	return append(dst, '"')
}

// Writer writes tensor data in file order, in any number of pieces per tensor.
type Writer struct {
	w    io.Writer
	ts   []TensorInfo
	next int   // current tensor
	done int64 // bytes written of it
}

// NewWriter writes the header and returns a writer for the data. ts are in file order with the offsets that Place sets.
// The data starts at a multiple of align bytes; the reference writer uses 8.
func NewWriter(w io.Writer, meta []KV, ts []TensorInfo, align int) (*Writer, error) {
	header, err := AppendHeader(nil, meta, ts, align)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(header); err != nil {
		return nil, err
	}
	return &Writer{w: w, ts: ts}, nil
}

// Write appends bytes to the named tensor. Tensors are written in order, each completely.
func (w *Writer) Write(name string, p []byte) error {
	for w.next < len(w.ts) && w.done == w.ts[w.next].Size() && w.ts[w.next].Name != name {
		w.next, w.done = w.next+1, 0
	}
	if w.next == len(w.ts) || w.ts[w.next].Name != name {
		return fmt.Errorf("safetensors writer: tensor %q is not the next one", name)
	}
	if w.done+int64(len(p)) > w.ts[w.next].Size() {
		return fmt.Errorf("safetensors writer: tensor %q: more than its %d bytes", name, w.ts[w.next].Size())
	}
	n, err := w.w.Write(p)
	w.done += int64(n)
	return err
}

// Close reports an error if a tensor is incomplete. It does not close the underlying writer.
func (w *Writer) Close() error {
	for ; w.next < len(w.ts); w.next, w.done = w.next+1, 0 {
		if w.done != w.ts[w.next].Size() {
			return fmt.Errorf("safetensors writer: tensor %q has %d of its %d bytes", w.ts[w.next].Name, w.done,
				w.ts[w.next].Size())
		}
	}
	return nil
}
