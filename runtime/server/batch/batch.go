// Package batch answers files of requests in the format of OpenAI's Batch API.
//
// The results are a function of the input and of Options.Key: in the order of the input, with ids derived from the
// requests, whatever the number of requests at once, whichever machine computes them, and however often the work is
// interrupted. So the results of the parts of a file, one after another, are those of the file.
package batch

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// maxHeld bounds the bytes of all requests that are being answered; a single one may exceed it.
const maxHeld = 64 << 20

// Options of a batch.
type Options struct {
	// Files: lines of JSON, or rows of a table if the name ends with .parquet.
	Input  string // a regular file, which is read twice
	Output string // gets the answers
	Errors string // gets the answers with another status than 200

	URLs     []string                                        // that a request may name
	ByModel  bool                                            // answer requests that name the same model together
	Answer   func(context.Context, *Request) (Answer, error) // is called by many goroutines; an error ends the batch
	Parallel int                                             // requests that are answered at once, at least 1

	Stop <-chan struct{} // ends the batch with ErrStopped, whose results are those so far; nil = does not

	Key      string         // what the results depend on besides the input; results under another key are not continued
	Time     time.Time      // of the answers; zero = none
	Progress func(Progress) // is called at the start and after every answer; nil = is not
}

// Request is a line of the input.
type Request struct {
	Line     int // from 0
	CustomID string
	URL      string
	Body     []byte // a JSON object, as the line has it
}

// Digest identifies a request: the SHA-256 of url, custom_id and body, each with its length.
func (q *Request) Digest() (d [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(q.URL), []byte(q.CustomID), q.Body} {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	h.Sum(d[:0])
	return d
}

// Answer is what an endpoint answers.
type Answer struct {
	Status  int
	Body    []byte   // JSON
	Ignored []string // fields of the request that nobody knows

	PromptTokens, Tokens int // Tokens counts generated ones
}

// Counts are the requests of a batch under OpenAI's names.
type Counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"` // answered with status 200
	Failed    int `json:"failed"`    // answered with another one
}

// Progress is the state of a batch. Tokens are those of this run, which may continue another one.
type Progress struct {
	Counts
	PromptTokens, Tokens int
}

// result is a line of the output, in OpenAI's form.
type result struct {
	ID       string    `json:"id"`
	CustomID string    `json:"custom_id"`
	Response response  `json:"response"`
	Error    *struct{} `json:"error"` // of requests without an answer, which end the batch here
}

type response struct {
	Status    int             `json:"status_code"`
	RequestID string          `json:"request_id"`
	Body      json.RawMessage `json:"body"`
	Ignored   []string        `json:"x_lowpack_ignored,omitempty"`
}

// line returns the line of the output for a request.
func (o *Options) line(q *Request, a *Answer) ([]byte, error) {
	origin := api.Derived(q.Digest(), o.Time)
	return json.Marshal(result{ID: origin.ID("batch_req_"), CustomID: q.CustomID, Response: response{
		Status: a.Status, RequestID: origin.ID("req_"), Body: a.Body, Ignored: a.Ignored}})
}

// ErrInterrupted is wrapped by the error of a batch that ended before all requests were answered. The same call
// continues it.
var ErrInterrupted = errors.New("the batch is not complete")

// ErrOtherRun is wrapped by the error of a batch whose answers so far cannot be continued. They stay.
var ErrOtherRun = fmt.Errorf("%w: the answers so far are to other requests, or of another model or other options",
	pack.ErrUnsupported)

// ErrStopped is returned by a batch that Options.Stop ended, or Options.Answer with this error.
var ErrStopped = errors.New("the batch was stopped")

// Run answers the requests of a file. The input is checked before the first one is answered; an *InputError says what
// is wrong with it. Output and Errors appear complete or not at all; until then the answers are kept in a hidden file
// next to Output, from which the same call continues after an interruption or a crash.
func Run(ctx context.Context, o Options) (Counts, error) {
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	file, err := open(o.Input)
	if err != nil {
		return Counts{}, err
	}
	defer file.Close()
	in := &inputFile{file, ctx, o.Stop}
	for _, path := range []string{o.Output, o.Errors} {
		if err := apart(file, path); err != nil {
			return Counts{}, err
		}
	}
	checked, err := checkInput(in, &o)
	if errors.Is(err, ErrStopped) {
		return stopUnchecked(&o)
	}
	if err != nil {
		return Counts{}, err
	}
	j, err := openJournal(o.Output, header{Version: journalVersion, Input: checked.digest, Key: o.Key},
		checked.requests)
	if err != nil {
		return Counts{}, err
	}
	defer j.close()
	o.Progress(j.progress)
	switch err := o.answer(ctx, in, checked, j); {
	case errors.Is(err, ErrStopped):
		if err := j.finish(o.Output, o.Errors); err != nil {
			return j.progress.Counts, err
		}
		return j.progress.Counts, ErrStopped
	case err != nil:
		return j.progress.Counts, fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	return j.progress.Counts, j.finish(o.Output, o.Errors)
}

// stopUnchecked ends a batch that was stopped before its input was read once. The answers so far are those of an
// interrupted run.
func stopUnchecked(o *Options) (Counts, error) {
	j, err := openJournal(o.Output, header{Version: journalVersion, Input: inputOf(o.Output), Key: o.Key}, MaxRequests)
	if err != nil {
		return Counts{}, err
	}
	defer j.close()
	counts := j.progress.Counts
	counts.Total = counts.Completed + counts.Failed
	if err := j.finish(o.Output, o.Errors); err != nil {
		return counts, err
	}
	return counts, ErrStopped
}

// open opens a regular file: a pipe cannot be read twice.
func open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: not a regular file, but requests are read twice", pack.ErrUnsupported)
	}
	return os.Open(path)
}

// apart refuses an output that would replace the input.
func apart(in *os.File, path string) error {
	there, err := os.Stat(path)
	if err != nil {
		return nil // no such file
	}
	if own, err := in.Stat(); err != nil || os.SameFile(own, there) {
		return fmt.Errorf("%w: %s is the file of the requests, which would be replaced", pack.ErrUnsupported, path)
	}
	return nil
}

// answer answers what the journal has no answer to.
func (o *Options) answer(ctx context.Context, in *inputFile, c checked, j *journal) error {
	g, ctx := errgroup.WithContext(ctx)
	requests, room := make(chan *Request), semaphore.NewWeighted(maxHeld)
	g.Go(func() error {
		defer close(requests)
		f := &feed{o, in, c, j, requests, room}
		return f.all(ctx)
	})
	var workers sync.WaitGroup
	workers.Add(o.Parallel)
	for range o.Parallel {
		g.Go(func() error {
			defer workers.Done()
			for q := range requests {
				if err := o.one(ctx, q, j); err != nil {
					return fmt.Errorf("line %d: %w", q.Line+1, err)
				}
				room.Release(weight(q))
			}
			return nil
		})
	}
	answered := make(chan struct{})
	go func() {
		workers.Wait()
		close(answered)
	}()
	g.Go(func() error { // a stop ends requests that are being answered, too
		select {
		case <-o.Stop:
			return ErrStopped
		case <-answered:
			return nil
		}
	})
	return g.Wait()
}

// weight is the share of a request in maxHeld.
func weight(q *Request) int64 { return min(int64(len(q.Body)), maxHeld) }

// errChanged: the second reading of the input differs from the first.
var errChanged = fmt.Errorf("%w: the input was changed while it was read", pack.ErrCorrupt)

// one answers a request and keeps the answer.
func (o *Options) one(ctx context.Context, q *Request, j *journal) error {
	a, err := o.Answer(ctx, q)
	if err != nil {
		return err
	}
	text, err := o.line(q, &a)
	if err != nil {
		return err
	}
	return j.add(q.Line, text, &a, o.Progress)
}
