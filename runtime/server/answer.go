package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// job is a request that is ready to be computed. There are settings.n choices for each of its prompts.
type job struct {
	settings
	model    *model
	requests []schedule.Request
	echo     []string // texts of the prompts where they are part of the answer
	tools    *tools   // nil = none
	head     head
	shape    shape
}

// head is what all objects of an answer begin with.
type head struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
	Seed        int64  `json:"seed"` // repeats the answer
}

// shape writes the answers of one endpoint.
type shape interface {
	// whole is the answer that is not streamed.
	whole(j *job, all []*choice, u *usage) any
	// begin, piece and end write the frames of choice c: at its start, for new text or tokens, and for its reason.
	begin(j *job, s *api.Stream, c *choice)
	piece(j *job, s *api.Stream, c *choice, p part)
	end(j *job, s *api.Stream, c *choice)
	// last writes the frames behind all texts, fail those of an error in the stream.
	last(j *job, s *api.Stream, all []*choice, u *usage)
	fail(j *job, s *api.Stream, e *api.Error)
}

// choice is one text of an answer.
type choice struct {
	index  int
	text   strings.Builder
	reader *callReader // nil = all is text
	calls  []toolCall
	before int                // calls before the text
	scores []schedule.Logprob // of the tokens whose logprobs are reported
	tokens []int
	reason string // "" = not yet
	listed int    // tokens in the lists of logprobs of completions so far
	offset int    // characters of these
}

// part is what is new of a choice.
type part struct {
	reading
	scores []schedule.Logprob
}

// usage counts tokens.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Predicted *predictionUsage `json:"completion_tokens_details,omitempty"`
}

// newHead makes the head of an answer.
func (m *model) newHead(prefix, object string, seed uint64) head {
	return head{randomID(prefix), object, time.Now().Unix(), m.ID, m.fingerprint, int64(seed)}
}

// randomID makes an id that no one guesses, behind a prefix.
func randomID(prefix string) string {
	id := make([]byte, 12)
	rand.Read(id)
	return prefix + hex.EncodeToString(id)
}

// serve computes a job and answers.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, j *job) {
	w.Header().Set("X-Lowpack-Seed", strconv.FormatInt(int64(j.seed), 10))
	ctx := r.Context()
	if s.o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.o.Timeout)
		defer cancel()
	}
	call, err := j.model.Submit(ctx, j.requests)
	if err != nil {
		apiError(err).Write(w)
		return
	}
	defer call.Close()
	a := newAnswer(j)
	if j.stream {
		a.stream(ctx, w, call)
		return
	}
	for err == nil {
		var events []schedule.Event
		if events, err = call.Next(ctx); err == nil {
			a.take(events, nil)
		}
	}
	if err != io.EOF {
		apiError(err).Write(w)
		return
	}
	if e := j.check(); e != nil {
		e.Write(w)
		return
	}
	api.WriteJSON(w, http.StatusOK, j.shape.whole(j, a.choices, a.usage()))
}

// answer is a job whose events come in.
type answer struct {
	*job
	choices []*choice
	cached  int
}

func newAnswer(j *job) *answer {
	a := &answer{job: j, choices: make([]*choice, len(j.requests)*j.n)}
	for i := range a.choices {
		a.choices[i] = &choice{index: i, reader: j.tools.reader()}
		if j.echo != nil {
			a.choices[i].text.WriteString(j.echo[i/j.n])
		}
	}
	return a
}

// usage counts what was computed for the answer.
func (a *answer) usage() *usage {
	u := &usage{}
	for i := range a.requests {
		u.Prompt += len(a.requests[i].Prompt)
	}
	for _, c := range a.choices {
		u.Completion += len(c.tokens)
	}
	u.Predicted = a.predicted()
	u.Total, u.Details.Cached = u.Prompt+u.Completion, a.cached
	return u
}

// take takes events in. With s, what is new is written to it.
func (a *answer) take(events []schedule.Event, s *api.Stream) {
	for _, e := range events {
		if e.Text < 0 {
			a.takePrompt(e, s)
			continue
		}
		c := a.choices[e.Request*a.n+e.Text]
		p := part{reading: c.read(e)}
		if e.Token >= 0 {
			c.tokens = append(c.tokens, e.Token)
		}
		if e.Logprob != nil {
			p.scores = []schedule.Logprob{*e.Logprob}
		}
		a.add(c, p, s)
		if e.Reason != "" {
			a.finish(c, c.reasonOf(e.Reason), s)
		}
	}
}

// takePrompt takes in what is known of a prompt, which is part of all its choices where it is echoed.
func (a *answer) takePrompt(e schedule.Event, s *api.Stream) {
	a.cached += e.Cached
	for i := range a.n {
		c := a.choices[e.Request*a.n+i]
		if s != nil {
			a.shape.begin(a.job, s, c)
		}
		if a.echo != nil {
			p := part{}
			if a.requests[e.Request].PromptLogprobs >= 0 {
				p.scores = append([]schedule.Logprob{{Token: a.requests[e.Request].Prompt[0]}}, e.Prompt...)
			}
			c.scores = p.scores
			if p.text = a.echo[e.Request]; s != nil {
				a.shape.piece(a.job, s, c, p)
			}
		}
		if len(a.requests[e.Request].Texts) == 0 {
			a.finish(c, "length", s)
		}
	}
}

// read looks for calls in what is new of a text.
func (c *choice) read(e schedule.Event) reading {
	if c.reader == nil {
		return reading{text: e.Piece.Text}
	}
	out := c.reader.add(e.Piece.Text)
	if e.Reason != "" {
		out.text += c.reader.end()
	}
	if c.text.Len() == 0 && out.text != "" {
		c.before = len(c.calls)
	}
	c.note(out.calls)
	return out
}

// note adds what is new of calls to them, and gives them ids.
func (c *choice) note(calls []callDelta) {
	for i := range calls {
		d := &calls[i]
		if d.name != "" {
			d.id = callID()
			c.calls = append(c.calls, toolCall{ID: d.id, Type: "function", Function: toolFunction{Name: d.name}})
		}
		c.calls[d.index].Function.Arguments += d.arguments
	}
}

// add takes what is new of a choice.
func (a *answer) add(c *choice, p part, s *api.Stream) {
	if p.text == "" && p.scores == nil && p.calls == nil {
		return
	}
	c.text.WriteString(p.text)
	c.scores = append(c.scores, p.scores...)
	if s != nil {
		a.shape.piece(a.job, s, c, p)
	}
}

func (a *answer) finish(c *choice, reason string, s *api.Stream) {
	c.reason = reason
	if s != nil {
		a.shape.end(a.job, s, c)
	}
}

// reasonOf is the finish_reason of a choice.
func (c *choice) reasonOf(r engine.Reason) string {
	if reason := reasonOf(r); reason != "stop" || len(c.calls) == 0 {
		return reason
	}
	return "tool_calls"
}

// reasonOf is the finish_reason of a text.
func reasonOf(r engine.Reason) string {
	if r == engine.EndLength || r == engine.EndContext {
		return "length"
	}
	return "stop"
}

// keepAlive is how long a stream is silent at most, while a prompt waits or is computed.
const keepAlive = 15 * time.Second

// stream answers in frames.
func (a *answer) stream(ctx context.Context, w http.ResponseWriter, call *schedule.Call) {
	events, err := next(ctx, call)
	if err != nil && err != errQuiet && err != io.EOF { // the status can still tell
		apiError(err).Write(w)
		return
	}
	s := api.NewStream(w)
	for err == nil || err == errQuiet {
		if a.take(events, s); err == errQuiet {
			s.KeepAlive()
		}
		if s.Flush() != nil {
			return
		}
		events, err = next(ctx, call)
	}
	if err != io.EOF { // the texts may go on
		a.shape.fail(a.job, s, apiError(err))
	} else if e := a.check(); e != nil {
		a.shape.fail(a.job, s, e)
	} else {
		a.shape.last(a.job, s, a.choices, a.usage())
	}
	s.Flush()
}

// errQuiet says that nothing happened for a while.
var errQuiet = errors.New("quiet")

// next is Call.Next, but returns errQuiet when it is time for a sign of life.
func next(ctx context.Context, call *schedule.Call) ([]schedule.Event, error) {
	soon, cancel := context.WithTimeout(ctx, keepAlive)
	defer cancel()
	events, err := call.Next(soon)
	if err != nil && soon.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = errQuiet
	}
	return events, err
}

// unsupported is about a request that the server cannot compute.
func unsupported(param string, err error) *api.Error {
	e := api.Invalid(param, "%v", err)
	e.Code = api.UnsupportedValue
	return e
}

// apiError says what becomes of an error of the scheduler.
func apiError(err error) *api.Error {
	var (
		busy    *schedule.BusyError
		request *schedule.RequestError
	)
	switch {
	case errors.As(err, &busy):
		return &api.Error{Status: http.StatusTooManyRequests, Type: api.RateLimit, Code: "queue_full", Message: err.Error(),
			RetryAfter: busy.RetryAfter}
	case errors.As(err, &request) && request.TooLong:
		e := api.Invalid("prompt", "%v", err)
		e.Code = api.TooLong
		return e
	case errors.As(err, &request):
		return unsupported("prompt", err)
	case errors.Is(err, schedule.ErrDraining):
		return &api.Error{Status: http.StatusServiceUnavailable, Type: api.Unavailable, Message: err.Error(),
			RetryAfter: time.Second}
	case errors.Is(err, context.DeadlineExceeded):
		return &api.Error{Status: http.StatusGatewayTimeout, Type: api.TimedOut,
			Message: "the answer took longer than the server allows"}
	case errors.Is(err, pack.ErrLimit):
		return unsupported("", err)
	}
	return &api.Error{Status: http.StatusInternalServerError, Type: api.ServerError, Message: err.Error()}
}
