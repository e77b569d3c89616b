package synth

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// importedKinds are the Weights of checkpoints whose config.json declares the codes of another format.
var importedKinds = map[string]Weights{"mxfp4": MXFP4, "gptq": GPTQ}

// mxfp4 adds the blocks and scales of experts as in gpt-oss: random elements, with scales such that weights have the
// given standard deviation.
func (p *planner) mxfp4(n model.Need, s stream, deviation float64) {
	const rms = 2.926 // of all E2M1 elements
	module, blocks := strings.TrimSuffix(n.Name, ".weight"), n.Shape[2]/32
	scales := newStream(p.seed, n.Name+" scales")
	middle := 127 + math.Round(math.Log2(deviation/rms))
	p.add(module+"_blocks", safetensors.U8, []int{n.Shape[0], n.Shape[1], blocks, 16},
		func() filler { return bytesFrom{s, 0, 256} })
	p.add(module+"_scales", safetensors.U8, []int{n.Shape[0], n.Shape[1], blocks},
		func() filler { return bytesFrom{scales, byte(middle) - 1, 3} })
}

// gptqGroup is the group size of GPTQ checkpoints.
const gptqGroup = 128

// gptq adds the 4-bit codes, zero points of the first version and scales of a linear layer.
func (p *planner) gptq(n model.Need, s stream, deviation float64) {
	const rms = 4.637 // of all codes −8 … 7
	module, rows, columns := strings.TrimSuffix(n.Name, "weight"), n.Shape[0], n.Shape[1]
	groups := (columns + gptqGroup - 1) / gptqGroup
	scales := newStream(p.seed, n.Name+" scales")
	p.add(module+"qweight", "I32", []int{columns / 8, rows}, func() filler { return bytesFrom{s, 0, 256} })
	p.add(module+"qzeros", "I32", []int{groups, rows / 8}, func() filler { return bytesFrom{s, 0x77, 1} })
	p.add(module+"scales", safetensors.F16, []int{groups, rows}, func() filler {
		return newTable(scales, safetensors.F16, normal(), deviation/rms, deviation/rms/10)
	})
}

// bytesFrom writes independent bytes first … first+n−1.
type bytesFrom struct {
	stream
	first byte
	n     uint16
}

func (f bytesFrom) fill(dst []byte, at int64) {
	var eight [8]byte
	for i := at / 8; len(dst) > 0; i++ {
		binary.LittleEndian.PutUint64(eight[:], f.block(i))
		for j, b := range eight {
			eight[j] = f.first + byte(uint16(b)%f.n)
		}
		dst = dst[copy(dst, eight[:]):]
	}
}
