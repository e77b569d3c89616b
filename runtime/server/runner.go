package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/server/batch"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// batchQueue answers the batches of a store, one after another in the order in which they were made, beside the
// requests of other clients.
type batchQueue struct {
	s      *Server
	cancel context.CancelFunc
	wake   chan struct{}
	done   chan struct{}
	lock   *flock.Flock

	mu      sync.Mutex // also of entries that are changed
	current string     // batch that is being answered; "" = none
	counts  batch.Counts
	stopped chan struct{} // closed: current is cancelled
}

// openBatches uses a folder, which no other server may, and continues its batches.
func (s *Server) openBatches(dir string) error {
	store, err := newStore(dir)
	if err != nil {
		return err
	}
	lock := flock.New(filepath.Join(dir, ".lock"))
	if held, err := lock.TryLock(); err != nil || !held {
		return errors.Join(fmt.Errorf("%w: another server uses the folder %s", pack.ErrUnsupported, dir), err)
	}
	s.store = store
	ctx, cancel := context.WithCancel(context.Background())
	s.batches = &batchQueue{s: s, cancel: cancel, wake: make(chan struct{}, 1), done: make(chan struct{}), lock: lock}
	if err := s.batches.sweep(); err != nil {
		lock.Unlock()
		return err
	}
	go s.batches.loop(ctx)
	return nil
}

// sweep removes contents that a killed server has left without an entry.
func (q *batchQueue) sweep() error {
	wanted := map[string]bool{}
	for _, prefix := range []string{"batch_", "file-"} {
		ids, err := q.s.store.ids(prefix)
		if err != nil {
			return err
		}
		for _, id := range ids {
			b := &storedBatch{}
			if wanted[id] = true; prefix != "batch_" {
				continue
			}
			if _, err := q.s.store.get(id, b); err != nil {
				return err
			}
			wanted[b.Out], wanted[b.Errs] = wanted[b.Out] || b.open(), wanted[b.Errs] || b.open()
		}
	}
	entries, err := os.ReadDir(q.s.store.dir)
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".jsonl"); ok && entryID.MatchString(id) && !wanted[id] {
			err = errors.Join(err, os.Remove(q.s.store.path(id)))
		}
	}
	return err
}

// close interrupts the batch that is being answered, which the next server continues.
func (q *batchQueue) close() {
	q.cancel()
	<-q.done
	q.lock.Unlock()
}

func (q *batchQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// loop answers batches until ctx is done.
func (q *batchQueue) loop(ctx context.Context) {
	defer close(q.done)
	for ctx.Err() == nil {
		b, err := q.next()
		if err != nil {
			q.s.models.note(err.Error())
		}
		if b != nil {
			if err := q.run(ctx, b); err != nil {
				q.s.models.note(fmt.Sprintf("batch %s could not be answered: %v", b.ID, err))
			}
			continue
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
}

// next returns the oldest batch that is not complete and makes it the current one; nil = there is none.
func (q *batchQueue) next() (oldest *storedBatch, err error) {
	ids, err := q.s.store.ids("batch_")
	for _, id := range ids {
		b := &storedBatch{}
		ok, failed := q.s.store.get(id, b)
		err = errors.Join(err, failed)
		if ok && b.open() && (oldest == nil ||
			cmp.Or(cmp.Compare(b.Created, oldest.Created), cmp.Compare(b.ID, oldest.ID)) < 0) {
			oldest = b
		}
	}
	if oldest == nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.current, q.counts, q.stopped = oldest.ID, batch.Counts{}, make(chan struct{})
	return oldest, err
}

// change changes an entry.
func (q *batchQueue) change(id string, f func(*storedBatch)) (*storedBatch, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := &storedBatch{}
	ok, err := q.s.store.get(id, b)
	if err == nil && !ok {
		err = fmt.Errorf("batch %s is gone", id)
	}
	if err != nil {
		return nil, err
	}
	f(b)
	return b, q.s.store.put(id, b)
}

// stop ends a batch that was cancelled, if it is the current one; the others end when they are their turn.
func (q *batchQueue) stop(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.current == id {
		select {
		case <-q.stopped:
		default:
			close(q.stopped)
		}
	}
	q.signal()
}

// count sets the counts of the current batch.
func (q *batchQueue) count(b *storedBatch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.current == b.ID && b.open() {
		b.Counts = q.counts
	}
}

// uses reports whether a batch that is not complete uses a file, or whether that is unknown.
func (q *batchQueue) uses(file string) bool {
	ids, err := q.s.store.ids("batch_")
	return err != nil || slices.ContainsFunc(ids, func(id string) bool {
		b := &storedBatch{}
		ok, err := q.s.store.get(id, b)
		return err != nil || ok && b.open() && b.Input == file
	})
}

// run answers the current batch and stores what became of it. An interrupted one stays as it is.
func (q *batchQueue) run(ctx context.Context, b *storedBatch) error {
	if b.Status == statusCancelling {
		q.stop(b.ID)
	}
	counts, err := q.answer(ctx, b)
	if ctx.Err() != nil {
		return nil
	}
	var wrong *batch.InputError
	other := errors.Is(err, batch.ErrOtherRun)
	end, failure := q.change(b.ID, func(b *storedBatch) {
		b.Counts = counts
		switch {
		case err == nil:
			b.Status, b.Completed = statusCompleted, nowPtr()
		case errors.Is(err, batch.ErrStopped):
			b.Status, b.Cancelled = statusCancelled, nowPtr()
		case errors.As(err, &wrong):
			b.Status, b.Failed, b.Errors = statusFailed, nowPtr(), &batchErrors{"list", wrong.Faults}
			err = nil // for the client alone
		default:
			message := err.Error()
			if other {
				message = batch.ErrOtherRun.Error() // without the path
			}
			b.Status, b.Failed = statusFailed, nowPtr()
			b.Errors = &batchErrors{"list", []batch.Fault{{Code: "server_error", Message: message}}}
		}
		if b.Failed == nil {
			err = errors.Join(q.keep(b, b.Out, &b.Output), q.keep(b, b.Errs, &b.Failures))
		}
	})
	if failure == nil {
		q.tidy(end, other)
	}
	if failure != nil { // it is tried again when the server starts, or with the next batch
		q.wait(ctx)
	}
	return errors.Join(err, failure)
}

// tidy removes what a batch that has ended leaves behind: outputs without lines, and answers that are not continued,
// unless those are of a server of other models.
func (q *batchQueue) tidy(b *storedBatch, other bool) {
	if b.Output == nil {
		os.Remove(q.s.store.path(b.Out))
	}
	if b.Failures == nil {
		os.Remove(q.s.store.path(b.Errs))
	}
	if !other {
		atomicfile.DropResume(q.s.store.path(b.Out))
	}
}

// wait gives a folder that cannot be written some time.
func (q *batchQueue) wait(ctx context.Context) {
	select {
	case <-q.wake:
	case <-ctx.Done():
	}
}

// answer answers the requests of a batch.
func (q *batchQueue) answer(ctx context.Context, b *storedBatch) (batch.Counts, error) {
	out, errs := q.s.store.path(b.Out), q.s.store.path(b.Errs)
	if counts, ok := finished(out, errs); ok { // and then the server was killed
		return counts, nil
	}
	ctx = context.WithValue(ctx, saltKey{}, "batch "+b.Owner)
	o, err := q.s.batchOptions(Batch{Input: q.s.store.path(b.Input), Output: out, Errors: errs,
		Time: time.Unix(b.Created, 0).UTC()}, q.admit(b))
	if err != nil {
		return batch.Counts{}, err
	}
	once := o.Answer
	o.URLs, o.Stop, o.Parallel = []string{b.Endpoint}, q.stopped, max(1, o.Parallel/4) // half of the width
	o.Answer = func(ctx context.Context, r *batch.Request) (a batch.Answer, err error) {
		for {
			if a, err = once(ctx, r); !errors.Is(err, errLater) {
				return a, err
			}
			select {
			case <-time.After(time.Second):
			case <-o.Stop:
				return a, batch.ErrStopped
			case <-ctx.Done():
				return a, ctx.Err()
			}
		}
	}
	o.Progress = func(p batch.Progress) {
		q.mu.Lock()
		q.counts = p.Counts
		q.mu.Unlock()
		var err error
		switch p.Total {
		case p.Completed + p.Failed:
			_, err = q.change(b.ID, func(b *storedBatch) { b.enter(statusFinalizing, &b.Finalizing) })
		default:
			if b.Begun == nil {
				_, err = q.change(b.ID, func(b *storedBatch) { b.enter(statusRunning, &b.Begun) })
				b.Begun = nowPtr()
			}
		}
		if err != nil {
			q.s.models.note(err.Error())
		}
	}
	return batch.Run(ctx, o)
}

// admit refuses, on a server with a source, a model that is not the one that has answered other requests of a batch
// under its name. The first answer decides: of models that answer at the same time, the results of one are kept.
func (q *batchQueue) admit(b *storedBatch) admission {
	var mu sync.Mutex
	known := maps.Clone(b.Models)
	return func(h *hosted, answered bool) (*api.Error, error) {
		if q.s.o.Source == nil {
			return nil, nil
		}
		if err := tooSmall(h); err != nil {
			return unsupported("model", err), nil
		}
		mu.Lock()
		defer mu.Unlock()
		now := keyOf(h)
		switch first, ok := known[h.ID]; {
		case ok && first == now:
			return nil, nil
		case ok:
			return modelChanged(h.ID), nil
		case !answered:
			return nil, nil
		}
		noted, err := q.change(b.ID, func(b *storedBatch) {
			if b.Models == nil {
				b.Models = map[string]modelKey{}
			}
			b.Models[h.ID] = now
		})
		if err == nil {
			known = noted.Models
		}
		return nil, err
	}
}

// modelChanged is the error of a request of a batch.
func modelChanged(id string) *api.Error {
	return &api.Error{Status: http.StatusConflict, Type: api.InvalidRequest, Code: "model_changed", Param: "model",
		Message: "model " + quoted(id) + " is not the one that has answered requests of this batch before: its file, " +
			"the version of the server, the context length or the type of the KV cache differs"}
}

// enter changes the status of a batch that is not cancelled.
func (b *storedBatch) enter(status string, at **int64) {
	if *at == nil {
		*at = nowPtr()
	}
	if b.Status != statusCancelling {
		b.Status = status
	}
}

// finished reports whether both outputs of a batch are there, and counts their lines.
func finished(out, errs string) (c batch.Counts, ok bool) {
	if _, err := os.Stat(atomicfile.ResumePath(out)); err == nil {
		return c, false
	}
	good, err := lineCount(out)
	bad, err2 := lineCount(errs)
	return batch.Counts{Total: good + bad, Completed: good, Failed: bad}, err == nil && err2 == nil
}

// lineCount counts the lines of a file.
func lineCount(path string) (n int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	part := make([]byte, 1<<16)
	for {
		k, err := f.Read(part)
		n += bytes.Count(part[:k], []byte("\n"))
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// keep makes an output a file of the client; one without lines is removed.
func (q *batchQueue) keep(b *storedBatch, id string, named **string) error {
	info, err := os.Stat(q.s.store.path(id))
	if err != nil {
		return err
	}
	if info.Size() == 0 { // dropped when the entry of the batch says so
		return nil
	}
	kind := map[bool]string{true: "output", false: "error"}[id == b.Out]
	*named = &id
	return q.s.store.put(id, &storedFile{fileObject{ID: id, Object: "file", Bytes: info.Size(), Created: *nowPtr(),
		Filename: b.ID + "_" + kind + ".jsonl", Purpose: purposeOutput, Status: "processed"}, b.Owner})
}

// ownerOf returns a name for the client that outlives the server: a digest of its API key.
func (s *Server) ownerOf(r *http.Request) string {
	i, err := strconv.Atoi(strings.TrimSpace(saltOf(r)))
	if err != nil || i >= len(s.o.Keys) {
		return ""
	}
	sum := sha256.Sum256([]byte(s.o.Keys[i]))
	return hex.EncodeToString(sum[:8])
}
