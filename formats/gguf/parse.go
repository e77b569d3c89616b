package gguf

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// Parse reads and checks the header of a file of size bytes, without tensor data. Errors wrap pack.ErrCorrupt,
// pack.ErrLimit or pack.ErrUnsupported and name the key or tensor; the caller adds the file name.
func Parse(r io.ReaderAt, size int64) (*Header, error) {
	p := &parser{
		r:    bufio.NewReaderSize(io.NewSectionReader(r, 0, min(size, MaxHeader)), 64<<10),
		size: size, Header: Header{Alignment: defaultAlign},
	}
	if err := p.parse(); err != nil {
		return nil, err
	}
	return &p.Header, nil
}

// parser fills a Header as it reads.
type parser struct {
	Header
	r    *bufio.Reader
	at   int64 // bytes read so far
	size int64 // of the file
}

func (p *parser) parse() error {
	tensors, keys, err := p.prefix()
	if err != nil {
		return err
	}
	if err := p.keys(keys); err != nil {
		return err
	}
	if err := p.tensors(tensors); err != nil {
		return err
	}
	start, _ := padded(p.at, p.Alignment) // cannot overflow: at ≤ MaxHeader
	if len(p.Tensors) > 0 && start > p.size {
		return p.truncated(start)
	}
	p.DataStart = min(start, p.size) // a file without tensors may end before its padding
	return p.place()
}

// prefix reads the fields before the keys.
func (p *parser) prefix() (tensors, keys uint64, err error) {
	var head [24]byte
	if err := p.bytes(head[:4]); err != nil {
		return 0, 0, err
	}
	if string(head[:4]) != magic {
		return 0, 0, fmt.Errorf("%w: the file begins with %q, not with %q", pack.ErrCorrupt, head[:4], magic)
	}
	if err := p.bytes(head[4:]); err != nil {
		return 0, 0, err
	}
	switch version := binary.LittleEndian.Uint32(head[4:]); {
	case version == 2 || version == 3:
		p.Version = int(version)
	case version&0xffff == 0 && version != 0:
		return 0, 0, fmt.Errorf("%w: a big-endian GGUF; convert it with gguf_convert_endian.py of llama.cpp",
			pack.ErrUnsupported)
	default:
		return 0, 0, fmt.Errorf("%w: GGUF version %d is not supported: must be 2 or 3", pack.ErrUnsupported, version)
	}
	tensors, keys = binary.LittleEndian.Uint64(head[8:]), binary.LittleEndian.Uint64(head[16:])
	if tensors > MaxTensors || keys > MaxKeys {
		return 0, 0, fmt.Errorf("%w: %d tensors and %d keys; at most %d and %d are read", pack.ErrLimit, tensors, keys,
			MaxTensors, MaxKeys)
	}
	return tensors, keys, nil
}

func (p *parser) keys(n uint64) error {
	seen := map[string]bool{}
	for range n {
		key, err := p.name("key", MaxKey)
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("%w: key %q occurs twice", pack.ErrCorrupt, key)
		}
		seen[key] = true
		v, err := p.typedValue()
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		if key == alignmentKey {
			if err := p.align(v); err != nil {
				return err
			}
		}
		p.Keys = append(p.Keys, KV{key, v})
	}
	return nil
}

func (p *parser) align(v Value) error {
	n, _ := v.Int()
	if v.Kind != U32 || n < 1 || n&(n-1) != 0 || n > maxAlign {
		return fmt.Errorf("%w: key %q must be a u32, a power of two of at most %d", pack.ErrCorrupt,
			alignmentKey, maxAlign)
	}
	p.Alignment = n
	return nil
}

// name reads a key or tensor name.
func (p *parser) name(what string, limit uint64) (string, error) {
	s, err := p.text(limit)
	switch {
	case err != nil:
		return "", fmt.Errorf("a %s: %w", what, err)
	case s == "":
		return "", fmt.Errorf("%w: an empty %s", pack.ErrCorrupt, what)
	case !utf8.ValidString(s):
		return "", fmt.Errorf("%w: %s %q is not UTF-8", pack.ErrCorrupt, what, s)
	}
	return s, nil
}

func (p *parser) typedValue() (Value, error) {
	kind, err := p.kind()
	if err != nil {
		return Value{}, err
	}
	v := Value{Kind: kind}
	switch kind {
	case String:
		v.text, err = p.text(MaxString)
	case Array:
		err = p.array(&v)
	default:
		v.bits, err = p.number(kindSizes[kind])
		if err == nil && kind == Bool && v.bits > 1 {
			err = notBool(v.bits)
		}
	}
	return v, err
}

func notBool(bits uint64) error {
	return fmt.Errorf("%w: a bool is %d, must be 0 or 1", pack.ErrCorrupt, bits)
}

func (p *parser) kind() (Kind, error) {
	n, err := p.number(4)
	if k := Kind(n); err != nil || k.known() {
		return k, err
	}
	return 0, fmt.Errorf("%w: unknown value type %d", pack.ErrCorrupt, n)
}

// array reads an array. It checks the size against the rest of the file before it allocates; a string takes at least 8
// bytes of the file.
func (p *parser) array(v *Value) error {
	var err error
	if v.Elem, err = p.kind(); err != nil {
		return err
	}
	n, err := p.number(8)
	switch {
	case err != nil:
		return err
	case v.Elem == Array:
		return fmt.Errorf("%w: an array of arrays is not supported", pack.ErrUnsupported)
	case n > MaxArray:
		return fmt.Errorf("%w: an array of %d elements; at most %d are read", pack.ErrLimit, n, MaxArray)
	case int64(n)*cmp.Or(kindSizes[v.Elem], 8) > p.left():
		return fmt.Errorf("%w: an array of %d elements in a file that ends before them", pack.ErrCorrupt, n)
	case v.Elem == String:
		return p.texts(v, int(n))
	}
	v.raw = make([]byte, int64(n)*kindSizes[v.Elem])
	if err := p.bytes(v.raw); err != nil {
		return err
	}
	if v.Elem == Bool {
		for _, b := range v.raw {
			if b > 1 {
				return notBool(uint64(b))
			}
		}
	}
	return nil
}

func (p *parser) texts(v *Value, n int) error {
	v.list = make([]string, n)
	for i := range v.list {
		var err error
		if v.list[i], err = p.text(MaxString); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

func (p *parser) text(limit uint64) (string, error) {
	n, err := p.number(8)
	switch {
	case err != nil:
		return "", err
	case n > limit:
		return "", fmt.Errorf("%w: a string of %d bytes; at most %d are read", pack.ErrLimit, n, limit)
	case int64(n) > p.left():
		return "", fmt.Errorf("%w: a string of %d bytes in a file that ends before it does", pack.ErrCorrupt, n)
	}
	b := make([]byte, n)
	err = p.bytes(b)
	return unsafe.String(unsafe.SliceData(b), len(b)), err // b is not shared
}

func (p *parser) tensors(n uint64) error {
	seen := map[string]bool{}
	for range n {
		t, err := p.tensor()
		if err != nil {
			return err
		}
		if seen[t.Name] {
			return fmt.Errorf("%w: tensor %q occurs twice", pack.ErrCorrupt, t.Name)
		}
		seen[t.Name] = true
		p.Tensors = append(p.Tensors, t)
	}
	return nil
}

func (p *parser) tensor() (t TensorInfo, err error) {
	if t.Name, err = p.name("tensor name", MaxName); err != nil {
		return t, err
	}
	if err = p.info(&t); err != nil {
		err = fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return t, err
}

// info reads the rest of a tensor info.
func (p *parser) info(t *TensorInfo) error {
	rank, err := p.number(4)
	if err != nil {
		return err
	}
	if rank < 1 || rank > maxDims {
		return fmt.Errorf("%w: %d dimensions; a tensor has 1 to %d", pack.ErrCorrupt, rank, maxDims)
	}
	t.Shape = make([]int64, rank)
	for i := range t.Shape {
		d, err := p.number(8)
		if err != nil {
			return err
		}
		if d < 1 || d > 1<<48 {
			return fmt.Errorf("%w: dimension %d is out of range", pack.ErrCorrupt, d)
		}
		t.Shape[len(t.Shape)-1-i] = int64(d)
	}
	kind, err := p.number(4)
	if err != nil {
		return err
	}
	t.Type = Type(kind)
	if err := t.Type.check(); err != nil {
		return err
	}
	begin, err := p.number(8)
	if t.Begin = int64(begin); err == nil && t.Begin < 0 {
		err = fmt.Errorf("%w: offset %d is out of range", pack.ErrCorrupt, begin)
	}
	return err
}

// number reads an unsigned little-endian integer of 1 to 8 bytes.
func (p *parser) number(size int64) (uint64, error) {
	var b [8]byte
	err := p.bytes(b[:size])
	return binary.LittleEndian.Uint64(b[:]), err
}

func (p *parser) left() int64 { return min(p.size, MaxHeader) - p.at }

func (p *parser) bytes(b []byte) error {
	n, err := io.ReadFull(p.r, b)
	p.at += int64(n)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case p.at >= MaxHeader:
		return fmt.Errorf("%w: the header exceeds %d bytes", pack.ErrLimit, MaxHeader)
	}
	return p.truncated(p.at)
}

func (p *parser) truncated(at int64) error {
	return fmt.Errorf("%w: the file ends at byte %d, before the end of its header: it is truncated; download it again",
		pack.ErrCorrupt, at)
}
