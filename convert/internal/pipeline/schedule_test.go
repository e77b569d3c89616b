package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/lowpack/lowpack/internal/mmap"
)

// TestFaults: a page of a source file that cannot be read is the error of the run, wherever it is read.
func TestFaults(t *testing.T) {
	fault := func() error { panic(&mmap.Fault{Name: "model"}) }
	for where, feed := range map[string]func(*schedule) feeder{
		"a chunk that was read": func(s *schedule) feeder {
			s.addFresh(0, fault)
			return func(context.Context) error { return nil }
		},
		"a block": func(s *schedule) feeder {
			s.addBlock(0, func(*slot) error { return fault() })
			return func(context.Context) error { return nil }
		},
		"a feeder": func(*schedule) feeder { return func(context.Context) error { return fault() } },
	} {
		s := newSchedule(2, []*slot{{}})
		err := s.run(t.Context(), feed(s))
		if f, ok := errors.AsType[*mmap.Fault](err); !ok || f.Name != "model" {
			t.Errorf("%s: %v", where, err)
		}
	}
}
