package convert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// maxStreams is the number of source files that are read at the same time at most: enough for every disk, few enough
// to give each some of the memory.
const maxStreams = 4

// stream reads one source file from front to back, once, into memory from where all take what they need. A tensor that
// is not of the share, and what lies between tensors, is read for the digest of the file only.
type stream struct {
	*run
	file   *io.SectionReader
	source *packed.Source
	hashes hashStream
	flow   chan *chunk // memory for what does not stay
	queue  chan reading
}

// reading is a part of the file that is being read, and what comes after all before it and this are read.
type reading struct {
	at   int64
	done chan error
	then func() error
}

// readAhead is the number of parts that wait in the queue at most, so that a disk has work while a chunk is handed over.
const readAhead = 2

// user is what becomes of a tensor of a stream: chunk after chunk in ascending order, and the end. A chunk is released as
// often as uses says.
type user interface {
	uses(c *chunk, i int) int
	take(c *chunk, i int)
	end(ctx context.Context) error
}

// streams are feeders, each of which reads one file after another.
func (r *run) streams() []feeder {
	var next atomic.Int64
	files := r.source.Sources()
	list := make([]feeder, min(len(files), max(2, r.o.Jobs), maxStreams))
	for i := range list {
		flow := make(chan *chunk, r.limits.flow)
		for _, c := range r.memory.flow[i*r.limits.flow/len(list) : (i+1)*r.limits.flow/len(list)] {
			c.home = func(c *chunk) { flow <- c }
			flow <- c
		}
		list[i] = func(ctx context.Context) error {
			for i := next.Add(1) - 1; int(i) < len(files); i = next.Add(1) - 1 {
				if err := r.readFile(ctx, files[i].Name, flow); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return list
}

// readFile reads a file, if anything of it is needed.
func (r *run) readFile(ctx context.Context, name string, flow chan *chunk) error {
	s := &stream{run: r, flow: flow, source: sourceOf(r.w.Manifest(), name)}
	var steps []*step // in file order, as those of the share are
	for _, x := range r.todo.steps {
		if x.from.File == name {
			steps = append(steps, x)
		}
	}
	if slices.Contains(r.todo.sources, name) {
		s.hashes = hashStream{hash: sha256.New(), left: s.source.Size, end: s.digested}
	} else if len(steps) == 0 {
		return nil
	}
	var err error
	if s.file, err = r.source.OpenSource(name); err != nil {
		return err
	}
	s.pool.openHash()
	defer s.pool.closeHash()
	s.queue = make(chan reading, readAhead)
	begun := make(chan error, 1)
	go func() {
		defer close(s.queue)
		begun <- s.read(ctx, steps)
	}()
	return cmp.Or(s.handOver(), <-begun)
}

// handOver does what is to be done when parts of the file have been read, in order, and waits for all of them.
func (s *stream) handOver() (first error) {
	for x := range s.queue {
		err := <-x.done
		if err == nil && first == nil {
			err = x.then()
		}
		if err != nil && first == nil {
			first = err
			s.pool.fail(x.at, err)
		}
	}
	return first
}

// begin reads a part of the file.
func (s *stream) begin(ctx context.Context, at int64, read, then func() error) error {
	x := reading{at, make(chan error, 1), then}
	go func() { x.done <- read() }()
	select {
	case s.queue <- x:
		return nil
	case <-ctx.Done():
		<-x.done
		return context.Cause(ctx)
	}
}

func nothing() error { return nil }

// read goes through the tensors of some steps, in file order.
func (s *stream) read(ctx context.Context, steps []*step) error {
	at := int64(0)
	for len(steps) > 0 {
		t := steps[0].from
		n := 1 // steps that make something of the same tensor
		for n < len(steps) && steps[n].from.Name == t.Name {
			n++
		}
		if err := s.skip(ctx, at, t.Begin); err != nil {
			return err
		}
		if err := s.tensor(ctx, t, steps[:n]); err != nil {
			return err
		}
		at, steps = t.Begin+t.Size, steps[n:]
	}
	if err := s.skip(ctx, at, s.source.Size); err != nil {
		return err
	}
	if s.hashes.hash != nil && s.source.Size == 0 {
		return s.begin(ctx, s.base[s.source.Name], nothing, s.digested)
	}
	return nil
}

// skip reads bytes [from, to) of the file for its digest.
func (s *stream) skip(ctx context.Context, from, to int64) error {
	if s.hashes.hash == nil {
		return nil
	}
	chunk := int64(s.limits.chunk)
	for off := from; off < to; off += chunk {
		c, err := s.chunk(ctx, nil)
		if err != nil {
			return err
		}
		c.at, c.data = s.base[s.source.Name]+off, c.memory[:min(chunk, to-off)]
		err = s.begin(ctx, c.at, func() error { return s.readGap(c.data, off) }, func() error {
			s.pass(c, nil, 0)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readGap reads what belongs to no tensor of the share.
func (s *stream) readGap(data []byte, off int64) error {
	n, err := s.file.ReadAt(data, off)
	switch {
	case n == len(data):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %s has %d bytes; it had %d", pack.ErrCorrupt, s.source.Name, off+int64(n), s.source.Size)
	}
	return fmt.Errorf("%s: %w", s.source.Name, err)
}

// tensor reads a tensor for all that some steps make of it.
func (s *stream) tensor(ctx context.Context, t checkpoint.Tensor, steps []*step) error {
	unit := int64(s.limits.chunk)
	var users []user
	var jobs []*quantizeJob
	for _, x := range steps {
		if x.entry == nil {
			continue
		}
		c, err := s.newQuantizeJob(x)
		if err != nil {
			return err
		}
		if c.rows > 0 {
			unit = int64(c.rows * c.in.row)
		}
		users, jobs = append(users, c), append(jobs, c)
	}
	for _, x := range steps {
		if x.entry == nil {
			k, err := s.newCopyJob(x, unit)
			if err != nil {
				return err
			}
			users = append(users, k)
		}
	}
	memory := s.settle(jobs)
	defer memory.end()
	for i := 0; int64(i)*unit < t.Size; i++ {
		c, err := s.chunk(ctx, memory)
		if err != nil {
			return err
		}
		off := int64(i) * unit
		c.at, c.data = s.base[t.File]+t.Begin+off, c.memory[:min(unit, t.Size-off)]
		err = s.begin(ctx, c.at, func() error { return s.run.read(t, c.data, off) }, func() error {
			s.pass(c, users, i)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.begin(ctx, s.base[t.File]+t.Begin, nothing, func() error {
		for _, u := range users {
			if err := u.end(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// settle lets a tensor stay in memory, if codes are made of it that ask for that and if there is room.
func (s *stream) settle(jobs []*quantizeJob) (l *lease) {
	for _, c := range jobs {
		if l == nil && c.lasts() {
			l = s.memory.lease(c.chunkCount())
		}
	}
	for _, c := range jobs {
		c.settle(l != nil)
	}
	return l
}

// chunk waits for memory, of a tensor that stays or of what flows by.
func (s *stream) chunk(ctx context.Context, l *lease) (*chunk, error) {
	if l != nil {
		return l.chunk(ctx)
	}
	select {
	case c := <-s.flow:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// pass hands a chunk to all who use it.
func (s *stream) pass(c *chunk, users []user, i int) {
	uses := 1 // until all have it
	for _, u := range users {
		uses += u.uses(c, i)
	}
	c.uses.Store(int32(uses))
	for _, u := range users {
		u.take(c, i)
	}
	if s.hashes.hash != nil || c.also != nil {
		s.pool.addChunk(&s.hashes, c)
	} else {
		c.release()
	}
}

// digested notes the digest of the file.
func (s *stream) digested() error {
	s.source.SHA256 = hex.EncodeToString(s.hashes.hash.Sum(nil))
	if s.journal == nil {
		return nil
	}
	return s.journal.add(note{Source: s.source.Name, SHA256: s.source.SHA256})
}
