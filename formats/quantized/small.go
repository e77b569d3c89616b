package quantized

import (
	"encoding/binary"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// maxText limits a string in a tensor, in bytes.
const maxText = 64

// bytes takes a tensor of at most maxText elements and reads it.
func (p *parts) bytes(suffix string, dims int, of safetensors.DType, read Read) []byte {
	t := p.need(suffix, dims, of)
	if p.err == nil && t.count() > maxText {
		p.fail(pack.ErrLimit, "tensor %q has %d elements; at most %d are read", t.Name, t.count(), maxText)
	}
	if p.err != nil {
		return nil
	}
	b := make([]byte, t.bytes())
	if p.err = read(t.Name, b, 0); p.err != nil {
		return nil
	}
	return b
}

// numbers takes a tensor of n integers; nil after an error.
func (p *parts) numbers(suffix string, dims, n int, of safetensors.DType, read Read) (list []int64) {
	b, size := p.bytes(suffix, dims, of, read), int(of.Size())
	if p.err == nil && len(b) != n*size {
		p.fail(pack.ErrCorrupt, "tensor %q has %d elements, want %d", p.module+suffix, len(b)/size, n)
	}
	for i := 0; p.err == nil && i < n; i++ {
		switch size {
		case 1:
			list = append(list, int64(b[i]))
		case 4:
			list = append(list, int64(int32(binary.LittleEndian.Uint32(b[4*i:]))))
		default:
			list = append(list, int64(binary.LittleEndian.Uint64(b[8*i:])))
		}
	}
	return list
}

// number takes a tensor without dimensions that holds an integer; 0 after an error.
func (p *parts) number(suffix string, read Read) int {
	if list := p.numbers(suffix, 0, 1, "I32", read); p.err == nil {
		return int(list[0])
	}
	return 0
}

// bool takes a tensor without dimensions that holds 0 or 1.
func (p *parts) bool(suffix string, read Read) bool {
	list := p.numbers(suffix, 0, 1, safetensors.U8, read)
	if p.err == nil && list[0] > 1 {
		p.fail(pack.ErrCorrupt, "tensor %q is %d, neither 0 nor 1", p.module+suffix, list[0])
	}
	return p.err == nil && list[0] == 1
}

// string takes a tensor of the bytes of a text.
func (p *parts) string(suffix string, read Read) string {
	return string(p.bytes(suffix, 1, safetensors.U8, read))
}
