package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// I2SScale is the scale of an I2_S tensor, which stands behind its codes: the first four of the last 32 bytes.
func I2SScale(tail []byte) (float32, error) {
	s := math.Float32frombits(binary.LittleEndian.Uint32(tail))
	if s-s != 0 {
		return 0, fmt.Errorf("%w: the scale of an I2_S tensor is NaN or infinite", pack.ErrCorrupt)
	}
	return s, nil
}

// I2SPanel is the number of rows that share bytes in a packing of I2_S (layouts i2s, i2s-arm and i2s-rows4 of package
// pack). Nothing in a file says which packing it has. It refuses rows that end inside a block: which bytes such a file
// has depends on the build.
func I2SPanel(packing string, rows, columns int64) (int64, error) {
	block, panel := int64(1), int64(1)
	switch packing {
	case "i2s":
		block = 128
	case "i2s-arm":
		block = 64
	case "i2s-rows4":
		panel = 4
	default:
		return 0, fmt.Errorf("%w: packing %q of I2_S; must be one of i2s, i2s-arm, i2s-rows4", pack.ErrUnsupported, packing)
	}
	if columns%block != 0 || rows%panel != 0 {
		return 0, fmt.Errorf("%w: I2_S in packing %s with %d rows of %d columns, which are not whole blocks",
			pack.ErrUnsupported, packing, rows, columns)
	}
	return panel, nil
}

// DecodeI2S decodes a panel: columns codes of one row, or of four.
func DecodeI2S(codes []int8, packing string, columns int, panel []byte) error {
	l, err := pack.Open(pack.Spec{Name: packing})
	if err != nil {
		return err
	}
	if 4*len(panel) != len(codes) || len(codes)%columns != 0 {
		return fmt.Errorf("%w: %d bytes are not %d codes", pack.ErrCorrupt, len(panel), len(codes))
	}
	return l.Unpack(&pack.Matrix{Shape: pack.Shape{M: len(codes) / columns, K: columns}, Alphabet: pack.Ternary,
		Codes: codes}, panel)
}
