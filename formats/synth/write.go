package synth

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// piece is the number of bytes of a tensor made at a time: small enough for a cache, large enough for a disk.
const piece = 4 << 20

// Write writes the checkpoint to dir, which must not exist: completely, or not at all. progress, if not nil, is called
// with the bytes written so far and the current tensor, from several goroutines.
func (c *Checkpoint) Write(ctx context.Context, dir string, progress func(done, total int64, at string)) error {
	d, err := atomicfile.CreateDir(atomicfile.OS, dir)
	if err != nil {
		return err
	}
	defer d.Abort()
	for _, t := range c.texts {
		err := d.WriteFile(t.name, func(to io.Writer) error {
			_, err := to.Write(t.data())
			return err
		})
		if err != nil {
			return err
		}
	}
	w := &writer{ctx: ctx, total: c.Bytes(), progress: progress}
	for i := range c.shards {
		if err := w.shard(d, &c.shards[i]); err != nil {
			return err
		}
	}
	return d.Commit()
}

// writer fills weight files from several goroutines.
type writer struct {
	ctx      context.Context
	total    int64
	progress func(done, total int64, at string)

	mu   sync.Mutex
	done int64
	err  error // the first one
}

func (w *writer) shard(d *atomicfile.Dir, s *shard) error {
	f, err := d.Create(s.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(s.size()); err != nil {
		return err
	}
	if _, err := f.WriteAt(s.header, 0); err != nil {
		return err
	}
	w.count(int64(len(s.header)), s.name)
	jobs := make(chan job)
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() { w.work(f, int64(len(s.header)), jobs) })
	}
	w.hand(s, jobs)
	wait.Wait()
	if w.err != nil {
		return w.err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// job is one piece of one tensor.
type job struct {
	tensor   *tensor
	filler   filler
	from, to int64 // bytes of the tensor
}

// hand sends all pieces of a file, until one fails.
func (w *writer) hand(s *shard, jobs chan<- job) {
	defer close(jobs)
	for i := range s.tensors {
		t := &s.tensors[i]
		f := t.filler()
		for from := int64(0); from < t.Size(); from += piece {
			if w.failed(w.ctx.Err()) {
				return
			}
			jobs <- job{t, f, from, min(from+piece, t.Size())}
		}
	}
}

func (w *writer) work(f io.WriterAt, start int64, jobs <-chan job) {
	buffer := make([]byte, piece)
	for j := range jobs {
		p := buffer[:j.to-j.from]
		j.filler.fill(p, j.from)
		if _, err := f.WriteAt(p, start+j.tensor.Begin+j.from); w.failed(err) {
			continue // hand stops; pending jobs are drained
		}
		w.count(int64(len(p)), j.tensor.Name)
	}
}

// failed keeps the first error and reports whether there is one.
func (w *writer) failed(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("write checkpoint: %w", err)
	}
	return w.err != nil
}

func (w *writer) count(n int64, at string) {
	w.mu.Lock()
	w.done += n
	done := w.done
	w.mu.Unlock()
	if w.progress != nil {
		w.progress(done, w.total, at)
	}
}
