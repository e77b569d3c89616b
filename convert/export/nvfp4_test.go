package export

import (
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// TestNVFP4Scales: codes e2m1 become NVFP4 whatever number of its groups, of 16 columns, share a scale, in rows of
// whole blocks of 64 columns, and have the same weights there.
func TestNVFP4Scales(t *testing.T) {
	w := &ggufWriter{dialect: dialects[LlamaCpp]}
	for columns, c := range map[int]struct {
		group, perRow int
		want          gguf.Type
	}{64: {16, 4, gguf.NVFP4}, 128: {32, 4, gguf.NVFP4}, 192: {0, 1, gguf.NVFP4}, 256: {128, 2, gguf.NVFP4},
		320: {0, 0, gguf.NVFP4}, 96: {32, 3, gguf.Q8_0}, 112: {16, 7, gguf.F16}} {
		shape := pack.Shape{M: 2, K: columns}
		m := pack.NewMatrix(shape, pack.E2M1)
		for i := range m.Codes {
			m.Codes[i] = pack.E2M1.Values[i*7%15]
		}
		u := units{group: c.group, perRow: c.perRow}
		for i := range max(1, 2*c.perRow) {
			u.scales = append(u.scales, 0.6875+float32(i%5)/16) // of halves of E4M3 numbers, and no powers of two
		}
		e := &packed.Entry{Shape: []int{2, columns}, Layout: pack.Spec{Alphabet: pack.E2M1.Name}}
		form, err := w.choose(t.Context(), e, u)
		if err != nil || form.kind != c.want {
			t.Errorf("%d columns, groups of %d: %v, %v; want %v", columns, c.group, form.kind, err, c.want)
			continue
		}
		if c.want != gguf.NVFP4 {
			continue
		}
		size := int(gguf.NVFP4.RowSize(int64(columns)))
		dst, want, got := make([]byte, 2*size), make([]float32, 2*columns), make([]float32, 2*columns)
		if err := encodeNVFP4(dst, m, u); err != nil {
			t.Fatal(err)
		}
		for row := range 2 {
			if err := gguf.NVFP4.Floats(got[row*columns:][:columns], dst[row*size:][:size]); err != nil {
				t.Fatal(err)
			}
		}
		for i, code := range m.Codes {
			want[i] = u.at(i/columns, i%columns).weight(code)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d columns, groups of %d: other weights", columns, c.group)
		}
	}
}
