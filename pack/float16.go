package pack

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/float16"
)

// float16At is the codec of a float16 scale, little-endian.
func float16At(at int) scaleCodec {
	return scaleCodec{at: at, size: 2,
		store: func(scale float32) (uint16, error) {
			h := float16.Narrow(scale)
			if h&0x7C00 == 0x7C00 {
				return 0, fmt.Errorf("%w: scale %v does not fit a float16", ErrUnsupported, scale)
			}
			return h, nil
		},
		load: func(h uint16) (float32, error) {
			if h&0x7C00 == 0x7C00 {
				return 0, fmt.Errorf("%w: scale is not a finite number", ErrCorrupt)
			}
			return float16.Widen(h), nil
		},
	}
}
