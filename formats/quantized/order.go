package quantized

import (
	"encoding/binary"
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// order turns the group of every column (g_idx) into the order of columns in which groups are contiguous and
// ascending: a stable sort. All groups have l.Group columns, the last one the rest. Columns in that order already
// give nil, and so does no tensor. key is the one of config.json that says whether there is one.
func (l *Layer) order(suffix, key string, said order, b []byte) ([]int32, error) {
	if b == nil {
		return nil, nil
	}
	name, columns, group, groups := l.Module+suffix, l.Columns, l.Group, l.Groups()
	next := make([]int, groups) // position of the next column of a group
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
		return nil, fmt.Errorf("%w: tensor %q gives columns an order of groups, but %s in config.json says "+
			"that they have none; correct the wrong one",
			pack.ErrCorrupt, name, key)
	}
	return out, nil
}

// column is the column of the module's matrix that stands at position k.
func (m *Matrix) column(k int) int {
	if m.Order == nil {
		return k
	}
	return int(m.Order[k])
}
