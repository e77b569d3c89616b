package pack_test

import (
	"fmt"
	"log"

	"github.com/lowpack/lowpack/pack"
)

// Codes to bytes and back: a ternary matrix in the default layout, two bits per weight.
func Example() {
	layout, err := pack.Open(pack.Spec{Name: "vnni4i", Alphabet: "ternary"})
	if err != nil {
		log.Fatal(err)
	}
	m := pack.NewMatrix(pack.Shape{M: 64, K: 256}, pack.Ternary)
	for i := range m.Codes {
		m.Codes[i] = int8(i%3) - 1
	}
	size, err := layout.PackedSize(m.Shape)
	if err != nil {
		log.Fatal(err)
	}
	packed := make([]byte, size)
	if err := layout.Pack(packed, m); err != nil {
		log.Fatal(err)
	}

	back := pack.NewMatrix(m.Shape, m.Alphabet)
	if err := layout.Unpack(back, packed); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(m.Codes), "codes in", size, "bytes; first row begins", back.Codes[:6])
	// Output: 16384 codes in 4096 bytes; first row begins [-1 0 1 -1 0 1]
}

// The layouts that can hold 1-bit codes.
func ExampleLayouts() {
	for _, l := range pack.Layouts() {
		for _, a := range l.Alphabets {
			if a.Name == "int1" && l.Block == 0 {
				fmt.Println(l.Name, "from", l.Source)
			}
		}
	}
	// Output:
	// vnni4i from libxsmm, PyTorch-TPP
	// vnni4i-64 from libxsmm, PyTorch-TPP
	// vnni4 from libxsmm
	// vnni4-64 from libxsmm
	// blocked from the common ground of libxsmm and Vec-LUT
	// tmac1 from T-MAC
}
