package packed_test

import (
	"fmt"
	"log"

	"github.com/lowpack/lowpack/formats/packed"
)

// What a packed file holds, and the codes of one of its tensors as they were before packing.
func Example() {
	f, err := packed.Open("../../testdata/hostile/packed/P00.safetensors")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	m := f.Manifest()
	fmt.Println("family", m.Family)
	e := &m.Packed[0]
	fmt.Println(e.Name, e.Shape, e.Layout.Name, e.Layout.Alphabet, e.Scale.Kind)
	codes, err := packed.Codes(f, e, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("first codes", codes.Codes[:8])
	// Output:
	// family bitnet
	// model.layers.0.mlp.down_proj.weight [32 64] i1 ternary tensor
	// first codes [1 0 -1 1 0 -1 1 1]
}
