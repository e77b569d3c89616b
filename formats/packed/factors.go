package packed

import (
	"encoding/binary"
	"fmt"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// FactorColumns is the number of columns of a row that share a float16 in scales of type F16I8: a block of the K-quants
// and i-quants of llama.cpp.
const FactorColumns = 256

// run is the number of bytes of FactorColumns columns in scales of type F16I8: a float16, and an int8 per group.
func (s Scale) run() int { return 2 + FactorColumns/s.Group }

// AppendFactors appends the scales or minima of FactorColumns columns in type F16I8 or F16I8/8: the product of half and
// of each of the integers, one for each group, or an eighth of it. Products have at most 11 + 7 significant bits and
// are 0 or at least 2⁻²⁴, so float32 holds them and their eighths exactly.
func (s Scale) AppendFactors(dst []byte, half float32, integers []int8) ([]byte, error) {
	bits := float16.Narrow(half)
	if len(integers) != FactorColumns/s.Group || half-half != 0 || float16.Widen(bits) != half {
		return dst, fmt.Errorf("%w: %d integers times %v as scales of groups of %d columns (F9)", pack.ErrUnsupported,
			len(integers), half, s.Group)
	}
	dst = binary.LittleEndian.AppendUint16(dst, bits)
	return append(dst, CodeBytes(integers)...), nil
}

// Factors returns the float16 and the integers of the first FactorColumns columns in data, and the data of the columns
// after them.
func (s Scale) Factors(data []byte) (half float32, integers []int8, rest []byte) {
	run := s.run()
	return float16.Widen(binary.LittleEndian.Uint16(data)), BytesAsCodes(data[2:run]), data[run:]
}

// products returns scales of type F16I8 or F16I8/8 as float32.
func (s Scale) products(data []byte) []float32 {
	unit := float32(1)
	if s.DType == ScaleF16I8Eighths {
		unit = 0.125
	}
	values := make([]float32, 0, len(data)/s.run()*(FactorColumns/s.Group))
	for len(data) > 0 {
		half, integers, rest := s.Factors(data)
		for _, i := range integers {
			values = append(values, half*float32(i)*unit)
		}
		data = rest
	}
	return values
}

// checkFactors checks the form of an entry whose scales have two factors (F9).
func (e *Entry) checkFactors() error {
	s := e.Scale
	if !s.DType.Factored() || s.Kind == ScaleGroup && (s.Group == 16 || s.Group == 32) && s.Signed &&
		e.MatrixShape().K%FactorColumns == 0 {
		return nil
	}
	return fmt.Errorf("%w: %q: scales of type %s are signed and stand for groups of 16 or 32 columns in rows of a "+
		"multiple of %d (F9)", pack.ErrCorrupt, e.Name, s.DType, FactorColumns)
}
