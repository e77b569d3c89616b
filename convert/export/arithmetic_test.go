package export

import (
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// TestMinimaRefused: a graph without the minima would compute a different model.
func TestMinimaRefused(t *testing.T) {
	m := &packed.Manifest{Packed: []packed.Entry{{Name: "plain.weight", Shape: []int{32, 32}},
		{Name: "odd.weight", Shape: []int{32, 32}, Min: true}}}
	for i := range m.Packed {
		m.Packed[i].Layout.Alphabet = pack.Int4.Name
	}
	for _, asked := range []Arithmetic{"", Exact, Plain} {
		if _, _, err := Choose(m, asked); !errors.Is(err, pack.ErrUnsupported) ||
			!strings.Contains(err.Error(), `"odd.weight" has minima`) {
			t.Errorf("%q: %v", asked, err)
		}
	}
}
