package engine

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestFinish: what is left for later is done and forgotten, and of several errors the first is returned, with any
// number of threads.
func TestFinish(t *testing.T) {
	first := errors.New("first")
	for _, threads := range []int{1, 2, 8} {
		for _, bad := range []bool{false, true} {
			l := &loader{Engine: &Engine{opt: Options{Threads: threads}}}
			var done atomic.Int64
			for i := range 20 {
				l.later = append(l.later, func() error {
					done.Add(1)
					switch {
					case bad && i == 7:
						return first
					case bad && i > 7:
						return errors.New("another")
					}
					return nil
				})
			}
			err := l.finish()
			left := slices.ContainsFunc(l.later, func(f func() error) bool { return f != nil })
			switch {
			case bad && err != first:
				t.Errorf("%d threads: %v", threads, err)
			case !bad && (err != nil || left || done.Load() != 20):
				t.Errorf("%d threads: %d done, some left: %v, %v", threads, done.Load(), left, err)
			}
		}
	}
}

// TestScalesLater: a scale of a group that is not finite is an error with the name of its tensor.
func TestScalesLater(t *testing.T) {
	v := tiny(t)
	name := "model.layers.2.mlp.up_proj.weight"
	e := entry(t, v, name)
	m := e.MatrixShape()
	e.Scale.Kind, e.Scale.Group = "group", 32
	scales := v.tensors[name+".scale"]
	one := scales.Data[:len(scales.Data):len(scales.Data)]
	n := m.M * (m.K / 32)
	data := slices.Repeat(one, n)
	shape, err := e.ScaleShape()
	if err != nil {
		t.Fatal(err)
	}
	scales.Shape, scales.Data = shape, data
	v.tensors[name+".scale"] = scales
	engine(t, v, Options{Threads: 3})
	copy(data[len(data)-4:], "\x00\x00\x80\x7f")
	if _, err := New(v, Options{}); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("an infinite scale: %v", err)
	}
}
