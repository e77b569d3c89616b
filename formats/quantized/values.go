package quantized

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// Values describes the weights of a matrix, or of those of all experts, that are not integers times a scale: stored
// elements stand for floats. A weight is the product of two float32, rounded to float32 and then to DType, bit for bit
// what the packer's own dequantization gives.
type Values struct {
	Name     string // of the weight: "model.layers.0.mlp.down_proj.weight"
	Elements string // of the tensor with its elements
	Shape    []int  // rows, columns; of experts in one tensor their number, rows, columns
	DType    safetensors.DType
	Kind     string   // of the elements: "F8_E4M3", "nf4", "fp4", "hqq4"
	Tensors  []string // names of the tensors with elements, scales, and what else affects the weights
	Ignored  []string // names of tensors that do not affect the weights
	products func(dst []float32, row int, read Read) error
}

// Values returns the matrices of floats among the named tensors, by the name of their weight. What Values returns and
// what Layers returns have no tensor in common. look finds the tensors as they are stored; what is declared of weights
// that are not there, or not quantized, is an error where the packer would make another model of it. A nil Scheme has
// none.
func (s *Scheme) Values(names []string, look Lookup, read Read) (map[string]*Values, error) {
	out := map[string]*Values{}
	if s == nil || s.values == nil {
		return out, nil
	}
	if s.whole != nil {
		if err := s.whole(look); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		v, err := s.values(name, look, read)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out[v.Name] = v
		}
	}
	return out, nil
}

// Bytes returns the size of the matrix of weights.
func (v *Values) Bytes() int64 {
	rows, columns := v.size()
	return v.DType.Size() * int64(rows) * int64(columns)
}

// size returns the rows of all experts, and the columns.
func (v *Values) size() (rows, columns int) {
	rows, last := 1, len(v.Shape)-1
	for _, n := range v.Shape[:last] {
		rows *= n
	}
	return rows, v.Shape[last]
}

// valueBytes limits the weights in memory while they are computed, but to at least one row.
const valueBytes = 1 << 18

// ReadAt fills dst with bytes of the matrix of weights, row-major, starting at off, from the tensors that read reads.
func (v *Values) ReadAt(dst []byte, off int64, read Read) error {
	_, columns := v.size()
	size := v.DType.Size()
	stride := size * int64(columns)
	if off < 0 || off+int64(len(dst)) > v.Bytes() {
		return fmt.Errorf("tensor %q: bytes %d to %d of %d were asked for", v.Name, off, off+int64(len(dst)), v.Bytes())
	}
	var values []float32
	var whole []byte
	for len(dst) > 0 {
		row, skip := int(off/stride), off%stride
		rows := int(min(max(1, valueBytes/stride), (skip+int64(len(dst))+stride-1)/stride))
		if len(values) < rows*columns {
			values, whole = make([]float32, rows*columns), make([]byte, int64(rows)*stride)
		}
		part := values[:rows*columns]
		if err := v.products(part, row, read); err != nil {
			return err
		}
		narrow(whole, v.DType, part)
		n := copy(dst, whole[skip:int64(rows)*stride])
		dst, off = dst[n:], off+int64(n)
	}
	return nil
}

// narrow rounds float32 values to a type, ties to even.
func narrow(dst []byte, t safetensors.DType, values []float32) {
	switch t {
	case safetensors.F32:
		for i, v := range values {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	case safetensors.BF16:
		for i, v := range values {
			b := math.Float32bits(v)
			binary.LittleEndian.PutUint16(dst[2*i:], uint16((b+0x7fff+b>>16&1)>>16))
		}
	case safetensors.F16:
		for i, v := range values {
			binary.LittleEndian.PutUint16(dst[2*i:], float16.Narrow(v))
		}
	}
}

// values returns the matrix, or the first error.
func (p *parts) values(v Values) (*Values, error) {
	v.Ignored, v.Elements = p.ignored, cmp.Or(v.Elements, v.Name)
	for _, t := range p.taken {
		v.Tensors = append(v.Tensors, t.Name)
	}
	if p.err != nil {
		return nil, p.err
	}
	if rows, columns := v.size(); rows > pack.MaxDim || columns > pack.MaxDim {
		p.fail(pack.ErrLimit, "%d rows of %d columns; at most %d are supported", rows, columns, pack.MaxDim)
		return nil, p.err
	}
	return &v, nil
}
