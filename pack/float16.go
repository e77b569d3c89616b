package pack

import (
	"encoding/binary"
	"fmt"

	"github.com/lowpack/lowpack/internal/float16"
)

// float16At is the codec of a float16 scale, little-endian.
func float16At(at int) scaleCodec {
	return scaleCodec{at: at, size: 2,
		store: func(b []byte, scale float32) error {
			h := float16.Narrow(scale)
			if h&0x7C00 == 0x7C00 {
				return fmt.Errorf("%w: scale %v does not fit a float16", ErrUnsupported, scale)
			}
			binary.LittleEndian.PutUint16(b, h)
			return nil
		},
		load: func(b []byte) (float32, error) {
			h := binary.LittleEndian.Uint16(b)
			if h&0x7C00 == 0x7C00 {
				return 0, fmt.Errorf("%w: scale is not a finite number", ErrCorrupt)
			}
			return float16.Widen(h), nil
		},
	}
}
