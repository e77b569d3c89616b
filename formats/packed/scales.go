package packed

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// scaleTypes maps the manifest's scale types to stored types.
var scaleTypes = map[ScaleType]safetensors.DType{
	ScaleF32: safetensors.F32, ScaleF16: safetensors.F16, ScaleBF16: safetensors.BF16, ScaleE8M0: safetensors.U8,
	ScaleF16I8: safetensors.U8, ScaleF16I8Eighths: safetensors.U8,
}

// PackedBytes returns the bytes of a matrix of a quantized tensor as its layout wrote them, without the padding to
// Align. expert is 0 if there are no experts.
func PackedBytes(v View, e *Entry, expert int) ([]byte, error) {
	t, err := v.Tensor(e.Name + PackedSuffix)
	if err != nil {
		return nil, err
	}
	if len(t.Data) != e.StoredBytes() {
		return nil, fmt.Errorf("%w: %q: %d bytes stored, %d expected (F14)", pack.ErrCorrupt, t.Name, len(t.Data),
			e.StoredBytes())
	}
	begin := expert * e.Stride()
	end := begin + e.Bytes
	for i, b := range t.Data[end : begin+e.Stride()] {
		if b != 0 {
			return nil, fmt.Errorf("%w: %q: byte %d is padding and not zero (F15)", pack.ErrCorrupt, t.Name, end+i)
		}
	}
	return t.Data[begin:end:end], nil
}

// beside reads a tensor that is stored in addition to the codes and checks its size.
func beside(v View, e *Entry, suffix string) ([]byte, error) {
	t, err := v.Tensor(e.Name + suffix)
	if err != nil {
		return nil, err
	}
	for _, b := range e.Beside() {
		if n := product(b.Shape) * int(b.dtype.Size()); b.Suffix == suffix && len(t.Data) != n {
			return nil, fmt.Errorf("%w: %q: %d bytes stored, %d expected (F9)", pack.ErrCorrupt, t.Name, len(t.Data), n)
		}
	}
	return t.Data, nil
}

// Scales returns the multiplying scales of a quantized tensor, widened exactly: 1, M or M × ceil(K/group) values per
// matrix (F9). It rejects scales that are not finite, and negative ones unless the entry says that they are signed.
func Scales(v View, e *Entry) ([]float32, error) {
	data, err := beside(v, e, ScaleSuffix)
	if err != nil {
		return nil, err
	}
	return e.widenScales(data, 0)
}

// ScalesOf returns the scales of one matrix.
func ScalesOf(v View, e *Entry, expert int) ([]float32, error) {
	data, err := e.besideOf(v, ScaleSuffix, expert)
	if err != nil {
		return nil, err
	}
	return e.widenScales(data, expert)
}

// HalvesOf returns the scales of one matrix as they are stored: binary16, little-endian. The entry has scales of type
// ScaleF16. It rejects what ScalesOf rejects.
func HalvesOf(v View, e *Entry, expert int) ([]byte, error) {
	data, err := e.besideOf(v, ScaleSuffix, expert)
	if err == nil && !e.Scale.validHalves(data) {
		_, err = e.widenScales(data, expert) // which one it is
	}
	return data, err
}

// validHalves is valid for stored scales of type ScaleF16, four at a time: an exponent of infinity or NaN, and one
// more, reaches the bit of the sign.
func (s Scale) validHalves(data []byte) bool {
	const each = 1<<48 | 1<<32 | 1<<16 | 1
	sign, bad := uint64(0x8000*each), uint64(0)
	if s.Signed {
		sign = 0
	}
	word := func(x uint64) { bad |= x&sign | (x&(0x7c00*each) + 0x0400*each) }
	for ; len(data) >= 8; data = data[8:] {
		word(binary.LittleEndian.Uint64(data))
	}
	for ; len(data) >= 2; data = data[2:] {
		word(uint64(binary.LittleEndian.Uint16(data)))
	}
	return bad&(0x8000*each) == 0
}

// widenScales widens the scales of one or more matrices.
func (e *Entry) widenScales(data []byte, expert int) ([]float32, error) {
	first, _ := e.ScaleCount()
	first *= expert
	s := e.Scale.Widened(data)
	if e.Scale.valid(s) {
		return s, nil
	}
	for i := range s {
		if !(s[i] >= -math.MaxFloat32 && s[i] <= math.MaxFloat32) {
			return nil, fmt.Errorf("%w: %q: scale %d is %v; a scale is finite (F9)", pack.ErrCorrupt, e.Name,
				first+i, s[i])
		}
		if math.Signbit(float64(s[i])) && !e.Scale.Signed {
			return nil, fmt.Errorf("%w: %q: scale %d is %v; only scales that the manifest calls "+
				"signed are negative (F9)",
				pack.ErrCorrupt, e.Name, first+i, s[i])
		}
	}
	return s, nil
}

// valid reports whether all scales are finite, and not negative unless they may be: the bits of such floats, without a
// sign that may be set, are smaller than those of infinity. A model has tens of millions of scales.
func (s Scale) valid(scales []float32) bool {
	const infinity = 0xff << 23
	sign, most := uint32(0), uint32(0)
	if s.Signed {
		sign = 1 << 31
	}
	for _, x := range scales {
		most = max(most, math.Float32bits(x)&^sign)
	}
	return most < infinity
}

// widenE8M0 returns a power of two.
func widenE8M0(b byte) float32 {
	if b == 255 {
		return float32(math.NaN())
	}
	return float32(math.Ldexp(1, int(b)-128)) // codes of e2m1 are twice the elements
}

// Widened returns stored scales or minima as float32, exactly.
func (s Scale) Widened(data []byte) []float32 {
	if s.DType.Factored() {
		return s.products(data)
	}
	values := make([]float32, len(data)/int(scaleTypes[s.DType].Size()))
	s.widen(values, data)
	return values
}

// widen sets values to stored scales; it switches on the type only once.
func (s Scale) widen(values []float32, data []byte) {
	switch s.DType {
	case ScaleF16:
		float16.Halves(values, data)
	case ScaleBF16:
		float16.Brains(values, data)
	case ScaleE8M0:
		for i := range values {
			values[i] = widenE8M0(data[i])
		}
	default:
		float16.Singles(values, data)
	}
}

// AppendScale appends a scale in the type of s. It rejects a value that the type cannot represent exactly, and a
// negative one unless s is signed. Scales of two factors are not numbers of their own: AppendFactors appends these.
func (s Scale) AppendScale(dst []byte, x float32) ([]byte, error) {
	if s.DType.Factored() {
		return dst, fmt.Errorf("%w: a single scale of type %s (F9)", pack.ErrUnsupported, s.DType)
	}
	from := len(dst)
	bits := math.Float32bits(x)
	switch s.DType {
	case ScaleF16:
		dst = binary.LittleEndian.AppendUint16(dst, float16.Narrow(x))
	case ScaleBF16:
		dst = binary.LittleEndian.AppendUint16(dst, uint16(bits>>16))
	case ScaleE8M0:
		_, exponent := math.Frexp(float64(x)) // x = ½ · 2^exponent
		dst = append(dst, uint8(max(0, min(254, exponent+127))))
	default:
		dst = binary.LittleEndian.AppendUint32(dst, bits)
	}
	var stored [1]float32
	if s.widen(stored[:], dst[from:]); math.Float32bits(stored[0]) != bits || bits&0x7f800000 == 0x7f800000 {
		return dst[:from], fmt.Errorf("%w: a scale of %v is not a finite value of type %s (F9)", pack.ErrUnsupported,
			x, s.DType)
	}
	if bits>>31 != 0 && !s.Signed {
		return dst[:from], fmt.Errorf("%w: a scale of %v among scales that are not signed (F9)", pack.ErrUnsupported, x)
	}
	return dst, nil
}

// Zeros returns the zero points of a quantized tensor, in the order of its scales (F23); nil if it has none. If it has
// minima, all of them are the lowest code (F25).
func Zeros(v View, e *Entry) ([]int8, error) {
	if !e.Zero {
		return e.lowest(e.Experts())
	}
	data, err := beside(v, e, ZeroSuffix)
	return append([]int8(nil), BytesAsCodes(data)...), err
}

// ZerosOf returns the zero points of one matrix.
func ZerosOf(v View, e *Entry, expert int) ([]int8, error) {
	if !e.Zero {
		return e.lowest(1)
	}
	data, err := e.besideOf(v, ZeroSuffix, expert)
	return append([]int8(nil), BytesAsCodes(data)...), err
}

// lowest returns the lowest code for each scale of one or more matrices; nil if there are no minima.
func (e *Entry) lowest(matrices int) ([]int8, error) {
	if !e.Min {
		return nil, nil
	}
	n, err := e.ScaleCount()
	if err != nil {
		return nil, err
	}
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return nil, err
	}
	return slices.Repeat(a.Values[:1], matrices*n), nil
}

// Minima returns the minima of a quantized tensor, widened exactly, in the order of its scales; nil if it has none
// (F25). It rejects minima that are not finite.
func Minima(v View, e *Entry) ([]float32, error) {
	if !e.Min {
		return nil, nil
	}
	data, err := beside(v, e, MinSuffix)
	if err != nil {
		return nil, err
	}
	return e.widenMinima(data)
}

// MinimaOf returns the minima of one matrix.
func MinimaOf(v View, e *Entry, expert int) ([]float32, error) {
	if !e.Min {
		return nil, nil
	}
	data, err := e.besideOf(v, MinSuffix, expert)
	if err != nil {
		return nil, err
	}
	return e.widenMinima(data)
}

func (e *Entry) widenMinima(data []byte) ([]float32, error) {
	m := e.Scale.Widened(data)
	for i := range m {
		if m[i]-m[i] != 0 {
			return nil, fmt.Errorf("%w: %q: minimum %d is %v; a minimum is finite (F25)", pack.ErrCorrupt,
				e.Name, i, m[i])
		}
	}
	return m, nil
}

// besideOf reads the part of one matrix of a tensor that is stored in addition to the codes.
func (e *Entry) besideOf(v View, suffix string, expert int) ([]byte, error) {
	data, err := beside(v, e, suffix)
	n := len(data) / e.Experts()
	return data[expert*n:][:n], err
}

// Order returns the column order of a matrix: column j of the packed matrix multiplies element order[j] of the vector.
// It is nil if the entry has none, and otherwise a permutation of 0 … K − 1 (F24).
func Order(v View, e *Entry, expert int) ([]int32, error) {
	if !e.Order {
		return nil, nil
	}
	data, err := e.besideOf(v, OrderSuffix, expert)
	if err != nil {
		return nil, err
	}
	k := e.MatrixShape().K
	order, seen := make([]int32, k), make([]bool, k)
	for j := range order {
		i := binary.LittleEndian.Uint32(data[4*j:])
		if i >= uint32(k) || seen[i] {
			return nil, fmt.Errorf("%w: %q: element %d of the order is %d; it must be a permutation of 0 … %d (F24)",
				pack.ErrCorrupt, e.Name, j, int32(i), k-1)
		}
		order[j], seen[i] = int32(i), true
	}
	return order, nil
}

// String returns the form of --scale: tensor, row or group:N.
func (s Scale) String() string {
	if s.Kind == ScaleGroup {
		return fmt.Sprintf("%s:%d", s.Kind, s.Group)
	}
	return string(s.Kind)
}
