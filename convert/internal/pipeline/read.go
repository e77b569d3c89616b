package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/lowpack/lowpack/pack"
)

// maxReaders is the maximum number of source files read concurrently: enough for every disk, few enough to leave memory
// for each.
const maxReaders = 4

// readAhead is the maximum number of chunks waiting to be handed over, so that the disk stays busy.
const readAhead = 2

// reader reads one source file from front to back, once, and hands its chunks to their consumers in order. Bytes
// between the ranges in use are read for the digest of the file only.
type reader struct {
	*run
	file   File
	in     io.ReaderAt
	digest digest
	flow   chan *chunk // memory for data that does not stay
	queue  chan arrival
}

// arrival is a part of the file that is being read, with the callback to run after it and all earlier parts are read.
type arrival struct {
	at   int64
	done chan error
	then func() error
}

// consumer processes a range of a file: chunk after chunk in ascending order, then the end. A chunk is released uses
// times.
type consumer interface {
	uses(c *chunk, i int) int
	take(c *chunk, i int)
	end(ctx context.Context) error
}

// readers returns feeders, each of which reads one file after another.
func (r *run) readers() []feeder {
	var next atomic.Int64
	list := make([]feeder, min(len(r.Files), max(2, r.Threads), maxReaders))
	for i := range list {
		flow := make(chan *chunk, r.Limits.Flow)
		for _, c := range r.memory.flow[i*r.Limits.Flow/len(list) : (i+1)*r.Limits.Flow/len(list)] {
			c.home = func(c *chunk) { flow <- c }
			flow <- c
		}
		list[i] = func(ctx context.Context) error {
			for i := next.Add(1) - 1; int(i) < len(r.Files); i = next.Add(1) - 1 {
				if err := r.readFile(ctx, r.Files[i], flow); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return list
}

// readFile reads a file, if any part of it is needed.
func (r *run) readFile(ctx context.Context, f File, flow chan *chunk) error {
	s := &reader{run: r, file: f, flow: flow}
	if f.Digest != nil {
		s.digest = digest{hash: sha256.New(), left: f.Size, end: s.digested}
	} else if len(r.readings[f.Name]) == 0 {
		return nil
	}
	var err error
	if s.in, err = f.Open(); err != nil {
		return err
	}
	s.schedule.openDigest()
	defer s.schedule.closeDigest()
	s.queue = make(chan arrival, readAhead)
	begun := make(chan error, 1)
	go func() {
		defer close(s.queue)
		begun <- s.read(ctx)
	}()
	return cmp.Or(s.handOver(), <-begun)
}

// handOver runs the callbacks of the parts that have been read, in order, and waits for all of them.
func (s *reader) handOver() (first error) {
	for x := range s.queue {
		err := <-x.done
		if err == nil && first == nil {
			err = x.then()
		}
		if err != nil && first == nil {
			first = err
			s.schedule.fail(x.at, err)
		}
	}
	return first
}

// begin reads a part of the file.
func (s *reader) begin(ctx context.Context, at int64, read, then func() error) error {
	x := arrival{at, make(chan error, 1), then}
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

// read reads the file from front to back.
func (s *reader) read(ctx context.Context) error {
	at := int64(0)
	for _, in := range s.readings[s.file.Name] {
		if in.part.Begin < at {
			return inTensor(in.part, fmt.Errorf("%w: it begins at byte %d, before the end of the one before at %d",
				pack.ErrCorrupt, in.part.Begin, at))
		}
		if err := s.skip(ctx, at, in.part.Begin); err != nil {
			return err
		}
		if err := s.part(ctx, in); err != nil {
			return err
		}
		at = in.part.Begin + in.part.Size
	}
	if err := s.skip(ctx, at, s.file.Size); err != nil {
		return err
	}
	if s.digest.hash != nil && s.file.Size == 0 {
		return s.begin(ctx, s.base[s.file.Name], nothing, s.digested)
	}
	return nil
}

// skip reads bytes [from, to) of the file for its digest.
func (s *reader) skip(ctx context.Context, from, to int64) error {
	if s.digest.hash == nil {
		return nil
	}
	size := int64(s.Limits.Chunk)
	for off := from; off < to; off += size {
		c, err := s.chunk(ctx, nil)
		if err != nil {
			return err
		}
		c.at, c.data = s.base[s.file.Name]+off, c.memory[:min(size, to-off)]
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

// readGap reads bytes that belong to no tensor of the Job.
func (s *reader) readGap(data []byte, off int64) error {
	n, err := s.in.ReadAt(data, off)
	switch {
	case n == len(data):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %s has %d bytes; it had %d", pack.ErrCorrupt, s.file.Name, off+int64(n), s.file.Size)
	}
	return fmt.Errorf("%s: %w", s.file.Name, err)
}

// part reads a range for all its consumers. Rows of a matrix lie in one chunk, unless they are longer than a chunk.
func (s *reader) part(ctx context.Context, in *reading) error {
	unit := in.unit(s.Limits.Chunk)
	lease, list, err := s.consumers(in, unit)
	defer lease.end()
	if err != nil {
		return err
	}
	t := in.part
	for i := 0; int64(i)*unit < t.Size; i++ {
		c, err := s.chunk(ctx, lease)
		if err != nil {
			return err
		}
		off := int64(i) * unit
		c.at, c.data = s.at(t)+off, c.memory[:min(unit, t.Size-off)]
		err = s.begin(ctx, c.at, func() error { return s.Read(t, c.data, off) }, func() error {
			s.pass(c, list, i)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.begin(ctx, s.at(t), nothing, func() error {
		for _, u := range list {
			if err := u.end(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// unit is the number of bytes of a chunk: whole panels, where one fits.
func (in *reading) unit(chunk int) int64 {
	for _, c := range in.codes {
		if p := c.x.Source.Panel; p.Lines == 1 && p.Bytes <= chunk {
			return int64(chunk / p.Bytes * p.Bytes)
		}
	}
	return int64(chunk)
}

// consumers returns the consumers of a range, and the lease of the memory in which it stays until all have finished;
// the lease is nil if none needs it, or memory is short.
func (s *reader) consumers(in *reading, unit int64) (l *lease, list []consumer, err error) {
	for _, c := range in.codes {
		if err := c.open(in, unit); err != nil {
			return l, nil, err
		}
		if l == nil && c.stays() {
			l = s.memory.lease(c.chunkCount())
		}
	}
	for _, c := range in.codes {
		list = append(list, c.consumer(l != nil))
	}
	for _, k := range in.copies {
		c, err := s.newCopying(k, unit)
		if err != nil {
			return l, nil, err
		}
		list = append(list, c)
	}
	return l, list, nil
}

// chunk waits for memory, from the lease of a range that stays, or from the flow.
func (s *reader) chunk(ctx context.Context, l *lease) (*chunk, error) {
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

// pass hands a chunk to its consumers and to the digests.
func (s *reader) pass(c *chunk, list []consumer, i int) {
	uses := 1 // until all have it
	for _, u := range list {
		uses += u.uses(c, i)
	}
	c.uses.Store(int32(uses))
	for _, u := range list {
		u.take(c, i)
	}
	if s.digest.hash != nil || c.also != nil {
		s.schedule.addDigest(&s.digest, c)
	} else {
		c.release()
	}
}

// digested reports the digest of the file.
func (s *reader) digested() error { return s.file.Digest(hex.EncodeToString(s.digest.hash.Sum(nil))) }
