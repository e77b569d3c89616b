package bench

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// randomView is a packed file in memory with the shapes of a model and random floats, which are made when they are
// asked for: matrices in BF16, vectors in float32.
type randomView struct {
	d        *model.Description
	config   []byte
	manifest packed.Manifest
	shapes   map[string][]int
}

func newRandomView(config []byte) (*randomView, error) {
	d, err := model.Parse(config, nil, nil)
	if err != nil {
		return nil, err
	}
	v := &randomView{d: d, config: config, shapes: map[string][]int{}}
	v.manifest.Family = d.Family
	for _, n := range d.Tensors() {
		v.shapes[n.Name] = n.Shape
		v.manifest.Plain = append(v.manifest.Plain, packed.Plain{Name: n.Name, DType: "BF16", Shape: n.Shape})
	}
	return v, nil
}

func (v *randomView) Manifest() *packed.Manifest { return &v.manifest }

func (v *randomView) Embedded(name string) ([]byte, bool) { return v.config, name == "config.json" }

// Tensor makes a tensor, the same for a name: evenly distributed values, within ±1 in vectors, and in matrices within
// ±1 over the root of the number of columns, so that products are neither large nor small.
func (v *randomView) Tensor(name string) (packed.Tensor, error) {
	shape, ok := v.shapes[name]
	if !ok {
		return packed.Tensor{}, fmt.Errorf("%w: tensor %q is missing", pack.ErrCorrupt, name)
	}
	n := 1
	for _, size := range shape {
		n *= size
	}
	hash := fnv.New64a()
	hash.Write([]byte(name))
	r := rand.New(rand.NewPCG(5, hash.Sum64()))
	if len(shape) == 1 {
		data := make([]byte, 0, 4*n)
		for range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(2*r.Float32()-1))
		}
		return packed.Tensor{Name: name, DType: "F32", Shape: shape, Data: data}, nil
	}
	most := 1 / float32(math.Sqrt(float64(shape[len(shape)-1])))
	data := make([]byte, 0, 2*n)
	for range n {
		data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits((2*r.Float32()-1)*most)>>16))
	}
	return packed.Tensor{Name: name, DType: "BF16", Shape: shape, Data: data}, nil
}
