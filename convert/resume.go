package convert

import (
	"context"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/parallel"
)

// resume opens the unfinished file of a target and its journal. A new file, or one of another plan, starts empty.
func (p *Plan) resume(target string, contents packed.Contents) (*packed.Writer, *journal, error) {
	file, err := atomicfile.Resume(p.fs, target)
	if err != nil {
		return nil, nil, err
	}
	w, err := packed.NewWriter(file, contents)
	if err != nil {
		return nil, nil, err
	}
	header, err := w.Header()
	if err != nil {
		w.Abort()
		return nil, nil, err
	}
	identity, err := p.identity(header)
	if err != nil {
		w.Abort()
		return nil, nil, err
	}
	j, err := openJournal(p.fs, target, identity)
	if err != nil {
		w.Abort()
		return nil, nil, err
	}
	return w, j, nil
}

// restore reuses what an interrupted run has finished, and leaves the rest in the share.
func (r *run) restore(ctx context.Context) error {
	if r.journal == nil {
		return nil
	}
	done := make([]bool, len(r.todo.steps))
	err := parallel.Each(ctx, r.o.Threads, len(done), func(_, i int) (err error) {
		done[i], err = r.restoreStep(r.todo.steps[i])
		return err
	})
	if err != nil {
		return err
	}
	var steps []*step
	for i, s := range r.todo.steps {
		if !done[i] {
			steps = append(steps, s)
		}
	}
	var sources []string
	for _, name := range r.todo.sources {
		if n, ok := r.journal.source(name); ok {
			sourceOf(r.w.Manifest(), name).SHA256 = n.SHA256
		} else {
			sources = append(sources, name)
		}
	}
	r.todo.steps, r.todo.sources = steps, sources
	return nil
}

// restoreStep reports whether everything that a step writes is present, with the noted digests.
func (r *run) restoreStep(s *step) (bool, error) {
	codes := ""
	for _, name := range s.stored() {
		n, ok := r.journal.tensor(name)
		if !ok {
			return false, nil
		}
		if same, err := r.w.Restore(name, n.SHA256); !same || err != nil {
			return false, err
		}
		codes += n.Codes
	}
	if s.entry != nil {
		e, _ := r.w.Manifest().Entry(s.entry.Name)
		e.CodesSHA = codes
	}
	r.count.add(s.row.Tensor, s.row.BytesIn)
	return true, nil
}

// finished notes that a step is complete.
func (r *run) finished(s *step) error {
	if r.journal == nil {
		return nil
	}
	for _, name := range s.stored() {
		n := note{Tensor: name, SHA256: r.w.Digest(name)}
		if s.entry != nil && name == s.entry.Name+packed.PackedSuffix {
			e, _ := r.w.Manifest().Entry(s.entry.Name)
			n.Codes = e.CodesSHA
		}
		if err := r.journal.add(n); err != nil {
			return err
		}
	}
	return nil
}
