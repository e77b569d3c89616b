package quantized

import (
	"encoding/binary"
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// order converts g_idx, the group of every column, into the column order in which groups are contiguous and ascending
// (a stable sort). All groups have l.Group columns, except a shorter last one. It returns nil if the module has no
// g_idx or the columns are in order already. key is the config.json key that declares the order.
func (l *Layer) order(suffix, key string, said order, b []byte) ([]int32, error) {
	if b == nil {
		return nil, nil
	}
	name, columns, group, groups := l.Module+suffix, l.Columns, l.Group, l.Groups()
	next := make([]int, groups) // next position in each group
	for g := range next {
		next[g] = g * group
	}
	out, same := make([]int32, columns), true
	for k := range columns {
		g := int(int32(binary.LittleEndian.Uint32(b[4*k:])))
		if g < 0 || g >= groups {
			return nil, fmt.Errorf("%w: tensor %q: column %d is in group %d; there are %d",
				pack.ErrCorrupt, name, k, g, groups)
		}
		if next[g] == min((g+1)*group, columns) {
			return nil, fmt.Errorf("%w: tensor %q: group %d has more than %d columns",
				pack.ErrUnsupported, name, g, group)
		}
		same = same && next[g] == k
		out[next[g]] = int32(k)
		next[g]++
	}
	if same {
		return nil, nil
	}
	if said == plain {
		return nil, fmt.Errorf("%w: tensor %q reorders columns, but %s in config.json says that they are in order; "+
			"correct the wrong one", pack.ErrCorrupt, name, key)
	}
	return out, nil
}

// column returns the column of the module's matrix at position k.
func (m *Matrix) column(k int) int {
	if m.Order == nil {
		return k
	}
	return int(m.Order[k])
}
