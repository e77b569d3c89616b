package packed

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestWhichScales: finite scales are accepted, and negative ones, −0 among them, where the manifest says that they are
// signed (F9).
func TestWhichScales(t *testing.T) {
	for bits, want := range map[uint32]struct{ unsigned, signed bool }{
		0:                            {true, true},
		1:                            {true, true},
		math.Float32bits(0.75):       {true, true},
		0x7f7fffff:                   {true, true}, // the largest
		0x7f800000:                   {false, false},
		0x7f800001:                   {false, false},
		0x7fffffff:                   {false, false},
		0x80000000:                   {false, true},
		0x80000001:                   {false, true},
		math.Float32bits(-0.75):      {false, true},
		0xff7fffff:                   {false, true},
		0xff800000:                   {false, false},
		0xffc00000:                   {false, false},
		math.Float32bits(0x1p-126):   {true, true},
		math.Float32bits(-0x1p-126):  {false, true},
		math.Float32bits(-0x1.8p100): {false, true},
	} {
		for _, signed := range []bool{false, true} {
			e := Entry{Name: "w", Shape: []int{2, 4}, Scale: Scale{Kind: ScaleRow, DType: ScaleF32, Signed: signed},
				Layout: pack.Spec{Name: "vnni4i", Alphabet: pack.Int4.Name}}
			data := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(2)), bits)
			s, err := e.widenScales(data, 0)
			if accepted := err == nil; accepted != (want.signed && signed || want.unsigned && !signed) {
				t.Errorf("%#08x, signed %v: %v", bits, signed, err)
			}
			if err == nil && math.Float32bits(s[1]) != bits {
				t.Errorf("%#08x became %#08x", bits, math.Float32bits(s[1]))
			}
		}
	}
}
