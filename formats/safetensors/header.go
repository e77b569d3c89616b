// Package safetensors reads and writes the safetensors format, with strict checks of the header.
//
// A file is a length N (u64, little-endian), N bytes of JSON, and the tensor data. Parse is stricter than other
// readers. It rejects what the format forbids (duplicate names, blanks before the JSON, holes, overlaps, bytes after
// the last tensor) and what two readers could interpret differently (invalid UTF-8, lone surrogates, NUL, numbers that
// overflow). Every length is bounded, so that memory is proportional to the header.
//
// The rules are those of the reference implementation (huggingface/safetensors, tensor.rs) and of the format's
// description; where they differ, the stricter one applies.
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// Limits of a header. Published checkpoints stay far below: the largest headers have some ten thousand tensors of rank
// 4 or less in a few megabytes.
const (
	MaxHeader   = 16 << 20 // bytes of JSON
	MaxTensors  = 65536
	MaxRank     = 8
	MaxName     = 512     // bytes of a tensor name
	MaxMetadata = 1 << 20 // bytes of all keys and values of __metadata__; see own
)

const (
	metadataKey = "__metadata__"
	prefixLen   = 8 // bytes of the length before the JSON
)

// own reports whether the metadata starts like a packed file's. Its manifest has a few hundred bytes per tensor, so
// only MaxHeader limits it.
func own(m []KV) bool { return len(m) > 0 && m[0] == KV{"format", "lowpack"} }

// KV is a metadata entry.
type KV struct{ Key, Value string }

// TensorInfo describes a tensor of a file.
type TensorInfo struct {
	Name       string
	DType      DType
	Shape      []int64
	Begin, End int64 // byte offsets from the start of the data
}

// Size returns the bytes of the tensor.
func (t *TensorInfo) Size() int64 { return t.End - t.Begin }

// Header is the header of a file.
type Header struct {
	Metadata  []KV         // in file order; nil = none
	Tensors   []TensorInfo // by ascending offset
	DataStart int64        // file offset of the data
}

// Meta returns the value of a metadata key.
func (h *Header) Meta(key string) (string, bool) {
	for _, kv := range h.Metadata {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return "", false
}

// Parse reads and checks the header of a file of size bytes, without tensor data. Errors wrap pack.ErrCorrupt,
// pack.ErrLimit or pack.ErrUnsupported and name the tensor; the caller adds the file name.
func Parse(r io.ReaderAt, size int64) (*Header, error) {
	n, err := headerLength(r, size)
	if err != nil {
		return nil, err
	}
	text := make([]byte, n)
	switch got, err := io.ReadFull(io.NewSectionReader(r, prefixLen, n), text); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%w: the file became shorter while it was read: its header of %d bytes ends after %d",
			pack.ErrCorrupt, n, got)
	case err != nil:
		return nil, err
	}
	h, err := parseHeader(text)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	h.DataStart = prefixLen + n
	if err := checkOffsets(h.Tensors, size-h.DataStart); err != nil {
		return nil, err
	}
	return h, nil
}

// headerLength reads and checks N.
func headerLength(r io.ReaderAt, size int64) (int64, error) {
	head, err := filekind.Head(r)
	if err != nil {
		return 0, err
	}
	if err := filekind.Weights(head); err != nil {
		return 0, err
	}
	if size < prefixLen || len(head) < prefixLen {
		return 0, fmt.Errorf("%w: %d bytes are too few for a safetensors file", pack.ErrCorrupt, size)
	}
	n := binary.LittleEndian.Uint64(head)
	if n > MaxHeader {
		return 0, fmt.Errorf("%w: header of %d bytes; at most %d are read", pack.ErrLimit, n, MaxHeader)
	}
	if int64(n) > size-prefixLen {
		return 0, fmt.Errorf("%w: header of %d bytes in a file of %d: truncated (download it again), or not a "+
			"safetensors file", pack.ErrCorrupt, n, size)
	}
	return int64(n), nil
}

// parseHeader parses the JSON of a header: an object, followed by spaces only.
func parseHeader(text []byte) (*Header, error) {
	p := parser{Reader: jsonread.NewReader(text)}
	if len(text) == 0 || text[0] != '{' {
		return nil, p.Errorf("the first byte is not '{'")
	}
	if err := p.object(MaxName, p.entry); err != nil {
		return nil, err
	}
	if len(bytes.TrimLeft(text[p.Offset():], " ")) != 0 {
		return nil, p.Errorf("only spaces may follow the object")
	}
	return &p.Header, nil
}

// parser fills a Header as it reads.
type parser struct {
	*jsonread.Reader
	Header
}

// object reads an object whose keys have at most limit bytes.
func (p *parser) object(limit int, field func(key string) error) error {
	return p.Object(func(key string) error {
		if len(key) > limit {
			return p.Limitf("a key of more than %d bytes", limit)
		}
		if err := p.noNUL(key); err != nil {
			return err
		}
		return field(key)
	})
}

// text reads a string of at most limit bytes.
func (p *parser) text(limit int) (string, error) {
	s, err := p.StringUpTo(limit)
	if err != nil {
		return "", err
	}
	return s, p.noNUL(s)
}

// noNUL rejects NUL, which terminates strings in C programs.
func (p *parser) noNUL(s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return p.Errorf("NUL inside a string")
	}
	return nil
}

// entry reads the value of a header key.
func (p *parser) entry(name string) error {
	switch {
	case name == metadataKey:
		return p.metadata()
	case name == "":
		return p.Errorf("a tensor without a name")
	case len(p.Tensors) == MaxTensors:
		return p.Limitf("more than %d tensors", MaxTensors)
	}
	t := TensorInfo{Name: name}
	if err := p.tensor(&t); err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	p.Tensors = append(p.Tensors, t)
	return nil
}

func (p *parser) metadata() error {
	total := 0
	err := p.object(MaxMetadata, func(key string) error {
		limit := MaxMetadata
		if own(p.Metadata) {
			limit = MaxHeader
		}
		value, err := p.text(limit)
		if err != nil {
			return err
		}
		if total += len(key) + len(value); total > limit {
			return p.Limitf("more than %d bytes of metadata", limit)
		}
		p.Metadata = append(p.Metadata, KV{key, value})
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", metadataKey, err)
	}
	return nil
}

// tensor reads {"dtype": …, "shape": […], "data_offsets": [begin, end]}: exactly these keys, in any order.
func (p *parser) tensor(t *TensorInfo) error {
	var keys int
	var offsets []int64
	err := p.object(64, func(key string) (err error) {
		keys++
		switch key {
		case "dtype":
			t.DType, err = p.dtype()
		case "shape":
			t.Shape, err = p.uints(MaxRank)
		case "data_offsets":
			offsets, err = p.uints(2)
		default:
			err = p.Errorf("unknown key %q", key)
		}
		return err
	})
	if err != nil {
		return err
	}
	if keys != 3 || len(offsets) != 2 {
		return p.Errorf("dtype, shape and two data_offsets are required")
	}
	t.Begin, t.End = offsets[0], offsets[1]
	return checkSize(t)
}

func (p *parser) dtype() (DType, error) {
	name, err := p.text(64)
	if err != nil {
		return "", err
	}
	d := DType(name)
	if d.Size() == 0 {
		return "", fmt.Errorf("%w: dtype %q", pack.ErrUnsupported, name)
	}
	return d, nil
}

func (p *parser) uints(limit int) ([]int64, error) {
	v := make([]int64, 0, 2)
	err := p.Array(func(i int) error {
		if i == limit {
			return p.Limitf("more than %d numbers", limit)
		}
		n, err := p.Uint()
		v = append(v, n)
		return err
	})
	return v, err
}

// checkSize compares the size by shape and type with the offsets.
func checkSize(t *TensorInfo) error {
	n, err := byteSize(t.Shape, t.DType)
	if err != nil {
		return err
	}
	if t.End < t.Begin {
		return fmt.Errorf("%w: data_offsets [%d, %d] end before they start", pack.ErrCorrupt, t.Begin, t.End)
	}
	if t.Size() != n {
		return fmt.Errorf("%w: %s %v needs %d bytes, data_offsets [%d, %d] hold %d",
			pack.ErrCorrupt, t.DType, t.Shape, n, t.Begin, t.End, t.Size())
	}
	return nil
}

// byteSize returns the bytes of a tensor. The product of all nonzero dimensions must fit int64, so that the result does
// not depend on the order of the dimensions.
func byteSize(shape []int64, d DType) (int64, error) {
	product, empty := uint64(d.Size()), false
	for _, dim := range shape {
		if dim == 0 {
			empty = true
			continue
		}
		high, low := bits.Mul64(product, uint64(dim))
		if high != 0 || low > math.MaxInt64 {
			return 0, fmt.Errorf("%w: the size of shape %v overflows", pack.ErrCorrupt, shape)
		}
		product = low
	}
	if empty {
		return 0, nil
	}
	return int64(product), nil
}

// checkOffsets sorts the tensors by offset and checks that they cover the data exactly.
func checkOffsets(ts []TensorInfo, data int64) error {
	slices.SortStableFunc(ts, func(a, b TensorInfo) int {
		if a.Begin != b.Begin {
			return cmp.Compare(a.Begin, b.Begin)
		}
		return cmp.Compare(a.End, b.End)
	})
	at, last := int64(0), ""
	for i := range ts {
		t := &ts[i]
		switch {
		case t.Begin > at:
			return fmt.Errorf("%w: tensor %q: data_offsets [%d, %d] leave a hole of %d bytes after %s",
				pack.ErrCorrupt, t.Name,
				t.Begin, t.End, t.Begin-at, after(last))
		case t.Begin < at:
			return fmt.Errorf("%w: tensor %q: data_offsets [%d, %d] overlap %s", pack.ErrCorrupt, t.Name,
				t.Begin, t.End,
				after(last))
		}
		at, last = t.End, t.Name
	}
	if at > data {
		return fmt.Errorf("%w: the data ends %d bytes early: the file is truncated; download it again",
			pack.ErrCorrupt, at-data)
	}
	if at < data {
		return fmt.Errorf("%w: %d bytes follow the last tensor", pack.ErrCorrupt, data-at)
	}
	return nil
}

func after(name string) string {
	if name == "" {
		return "the header"
	}
	return fmt.Sprintf("tensor %q", name)
}
