package export

import (
	"strings"

	"github.com/lowpack/lowpack/formats/packed"
)

// counterpart is the tensor of a GGUF in the place of one of the packed file that has another name there.
type counterpart struct {
	name   string
	turned bool // of which the packed file holds the transpose
}

// counterparts finds tensors with other names: GPT-2 checkpoints have a prefix or not, and transposed layers.
func (v *comparison) counterparts() error {
	ours, err := packed.Describe(v.file)
	if err != nil {
		return err
	}
	theirs, err := v.described(len(ours.Blocks))
	if err != nil {
		return err
	}
	v.others = map[string]counterpart{}
	a, b := ours.Tensors(), theirs.Tensors()
	for i := 0; i < len(a) && len(a) == len(b); i++ {
		v.others[a[i].Name] = counterpart{b[i].Name, a[i].Turned && !b[i].Turned}
	}
	return nil
}

// renamed reports whether the model of the packed file has names that the GGUF lacks.
func (v *comparison) renamed() bool {
	m := v.file.Manifest()
	for i := range m.Plain {
		name := m.Plain[i].Name
		if _, ok := v.from.Lookup(name); !ok && m.Family != "" && !strings.HasPrefix(name, packed.FilePrefix) {
			return true
		}
	}
	return false
}

// of returns the counterpart of a tensor, its own name if it has no other.
func (v *comparison) of(name string) counterpart {
	if o, ok := v.others[name]; ok {
		return o
	}
	return counterpart{name: name}
}
