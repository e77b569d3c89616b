package verify

import (
	"slices"

	"github.com/lowpack/lowpack/formats/model"
)

// partsOf maps a tensor that may hold all experts to the tensors of single experts.
func partsOf(d *model.Description) map[string][]string {
	parts := map[string][]string{}
	if d != nil {
		for _, n := range d.Tensors() {
			parts[n.Name] = n.Parts()
		}
	}
	return parts
}

// join makes one tensor of the tensors of single experts.
func (o *origin) join(name string, parts []string) (sourceTensor, error) {
	var all joined
	for _, part := range parts {
		t, ok := o.second.tensors[part]
		if !ok {
			return t, broken("", "the checkpoint has no tensor %q", part)
		}
		if first := all; len(first) > 0 && (t.dtype != first[0].dtype || !slices.Equal(t.shape, first[0].shape)) {
			return t, broken("", "%q is %s %v; %q is %s %v", part, t.dtype, t.shape, first[0].name, first[0].dtype,
				first[0].shape)
		}
		all = append(all, t)
	}
	shape := append([]int{len(all)}, all[0].shape...)
	return sourceTensor{all, name, all[0].dtype, shape, int64(len(all)) * all[0].size}, nil
}

// joined is the data of tensors of one size, one after another.
type joined []sourceTensor

func (j joined) ReadAt(p []byte, off int64) (n int, err error) {
	size := j[0].size
	for n < len(p) {
		i, at := off/size, off%size
		m := int(min(int64(len(p)-n), size-at))
		if _, err := j[i].ReadAt(p[n:n+m], at); err != nil {
			return n, err
		}
		n, off = n+m, off+int64(m)
	}
	return n, nil
}
