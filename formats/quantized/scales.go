package quantized

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// floatTypes are the types of float scales.
var floatTypes = []safetensors.DType{safetensors.F16, safetensors.BF16, safetensors.F32}

// value returns element i of a float tensor, exactly.
func value(t safetensors.DType, b []byte, i int) float32 {
	switch t {
	case safetensors.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	case safetensors.BF16:
		return float16.WidenBrain(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return float16.Widen(binary.LittleEndian.Uint16(b[2*i:]))
}

// ScaleValues returns all scales as float32. E8M0 scales are halved, because e2m1 codes are twice the elements.
func (m *Matrix) ScaleValues() []float32 {
	size := int(m.Layer.ScaleOf.Size())
	out := make([]float32, len(m.Scales)/size)
	for i := range out {
		if m.Layer.ScaleOf == safetensors.U8 {
			out[i] = float32(math.Ldexp(1, int(m.Scales[i])-128))
		} else {
			out[i] = value(m.Layer.ScaleOf, m.Scales, i)
		}
	}
	return out
}

// put stores a value that the type represents exactly.
func put(t safetensors.DType, b []byte, i int, v float32) {
	bits := math.Float32bits(v)
	switch t {
	case safetensors.F32:
		binary.LittleEndian.PutUint32(b[4*i:], bits)
	case safetensors.BF16:
		binary.LittleEndian.PutUint16(b[2*i:], uint16(bits>>16))
	case safetensors.F16:
		binary.LittleEndian.PutUint16(b[2*i:], float16.Narrow(v))
	}
}

// round rounds to the nearest value of a type, ties to even. |x| must be in the range of the type.
func round(t safetensors.DType, x float64) float64 {
	digits, least := 24, -149
	switch t {
	case safetensors.BF16:
		digits, least = 8, -133
	case safetensors.F16:
		digits, least = 11, -24
	}
	_, e := math.Frexp(x)
	unit := math.Ldexp(1, max(e-digits, least))
	return math.RoundToEven(x/unit) * unit
}

// checkScales rejects scales that are not finite, or negative in a format without negative scales.
func (m *Matrix) checkScales() error {
	l := m.Layer
	groups := l.Groups()
	for i := range l.AllRows() * groups {
		if l.ScaleOf == safetensors.U8 {
			if m.Scales[i] == 255 {
				return l.badScale(i, "is NaN (255)")
			}
			continue
		}
		switch v := value(l.ScaleOf, m.Scales, i); {
		case math.IsNaN(float64(v)) || math.IsInf(float64(v), 0):
			return l.badScale(i, fmt.Sprintf("is %v", v))
		case math.Signbit(float64(v)) && !l.Signed:
			return l.badScale(i, fmt.Sprintf("is %v; this format has no negative scales", v))
		}
	}
	return nil
}

func (l *Layer) badScale(i int, what string) error {
	return fmt.Errorf("%w: module %q: row %d: scale of group %d %s; the checkpoint is damaged: download it again",
		pack.ErrCorrupt, l.Module, l.from+i/l.Groups(), i%l.Groups(), what)
}
