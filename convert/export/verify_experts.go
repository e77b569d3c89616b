package export

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// stacks compares the experts of all layers, and returns the tensors of the packed file that hold them. The names of
// the GGUF's tensors are added to names: they differ if a checkpoint has gate and up in one tensor, or one tensor per
// expert.
func (v *comparison) stacks(names map[string]bool) (done map[string]bool, err error) {
	done = map[string]bool{}
	if v.file.Manifest().Family == "" {
		return done, nil
	}
	ours, err := packed.Describe(v.file)
	if err != nil {
		return nil, err
	}
	var theirs *model.Description
	for i := range ours.Blocks {
		own := ours.Blocks[i].Experts
		if own == nil {
			continue
		}
		if theirs == nil {
			if theirs, err = v.described(len(ours.Blocks)); err != nil {
				return nil, err
			}
		}
		other := theirs.Blocks[i].Experts
		if other == nil {
			return nil, fmt.Errorf("%w: layer %d has no experts", pack.ErrCorrupt, i)
		}
		for l, to := range map[*model.Linear]*model.Linear{&own.Gate: &other.Gate, &own.Up: &other.Up,
			&own.Down: &other.Down} {
			s := stackOf(v.file, l)
			for _, name := range s.names() {
				done[name] = true
			}
			names[to.Weight], names[to.Bias] = true, true
			if err := v.stack(s, to); err != nil {
				return nil, err
			}
		}
	}
	return done, nil
}

// described is the model of the GGUF.
func (v *comparison) described(layers int) (*model.Description, error) {
	config, _ := v.from.File("config.json")
	d, err := model.Parse(config, nil, func(name string) ([]int, bool) {
		t, ok := v.from.Lookup(name)
		return t.Shape, ok
	})
	if err == nil && len(d.Blocks) != layers {
		err = fmt.Errorf("%w: %d layers; the packed file has %d", pack.ErrCorrupt, len(d.Blocks), layers)
	}
	return d, err
}

// stack compares a linear layer of all experts with a tensor of the GGUF.
func (v *comparison) stack(s stack, to *model.Linear) error {
	t, err := v.tensor(to.Weight, []int{s.Experts, s.Out, s.In})
	if err != nil {
		return err
	}
	for x := range s.Experts {
		want, err := s.values(x)
		if err != nil {
			return err
		}
		if err := v.rowsOf(t, x*s.Out, s.Out, func(row int, values []float32) error {
			return equalRow(to.Weight, row, values, want[row%s.Out*s.In:])
		}); err != nil {
			return err
		}
	}
	if s.Bias == "" {
		return nil
	}
	want, err := s.biases()
	if err != nil {
		return err
	}
	return v.rows(to.Bias, []int{s.Experts, s.Out}, func(row int, values []float32) error {
		return equalRow(to.Bias, row, values, want[row*s.Out:])
	})
}

// equalRow compares the values of a row with the first elements of want.
func equalRow(name string, row int, values, want []float32) error {
	for k, x := range values {
		if x != want[k] {
			return differs(name, row, k, x, want[k])
		}
	}
	return nil
}
