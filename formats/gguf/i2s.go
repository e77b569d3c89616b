package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// I2SScale returns the scale of an I2_S tensor from the last 32 bytes of the tensor, whose first four hold it.
func I2SScale(tail []byte) (float32, error) {
	s := math.Float32frombits(binary.LittleEndian.Uint32(tail))
	if s-s != 0 {
		return 0, fmt.Errorf("%w: the scale of an I2_S tensor is NaN or infinite", pack.ErrCorrupt)
	}
	return s, nil
}

// I2SPanel returns the number of rows that share bytes in a packing of I2_S (layouts i2s, i2s-arm and i2s-rows4 of
// package pack). A file does not record its packing. Rows that end inside a block are an error: their bytes depend on
// the build of bitnet.cpp.
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
		return 0, fmt.Errorf("%w: I2_S packing %q: must be one of i2s, i2s-arm, i2s-rows4",
			pack.ErrUnsupported, packing)
	}
	if columns%block != 0 || rows%panel != 0 {
		return 0, fmt.Errorf("%w: I2_S packing %s: %d rows of %d columns are not whole blocks",
			pack.ErrUnsupported, packing, rows, columns)
	}
	return panel, nil
}

// DecodeI2S decodes a panel: the codes of one row, or of four with packing i2s-rows4.
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
