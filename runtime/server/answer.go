package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lowpack/lowpack/internal/harmony"
	"github.com/lowpack/lowpack/internal/thinking"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// job is a parsed request that is ready to be scheduled. It generates settings.n choices for each of its prompts.
type job struct {
	settings
	model    *model
	requests []schedule.Request
	echo     []string // prompt texts to prepend to the choices; nil = no echo
	copies   int      // requests per prompt after spread; 0 = one
	tools    *tools   // nil = none
	head     head
	shape    shape

	reasons    bool   // separate thoughts from the content
	promptTail string // last tokens of the prompt, which may open the thoughts
	opened     []int  // the prompt of a model that writes in channels
}

// head holds the fields that every response object starts with.
type head struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
	Seed        int64  `json:"seed"` // reproduces the output
}

// shape builds the responses of one endpoint.
type shape interface {
	// whole builds the response of a request without streaming.
	whole(j *job, all []*choice, u *usage) any
	// begin, piece and end write the frames of choice c: its first frame, new text or tokens, and its finish reason.
	begin(j *job, s *api.Stream, c *choice)
	piece(j *job, s *api.Stream, c *choice, p part)
	end(j *job, s *api.Stream, c *choice)
	// last writes the frames that follow all choices. fail writes an error into the stream.
	last(j *job, s *api.Stream, all []*choice, u *usage)
	fail(j *job, s *api.Stream, e *api.Error)
}

// choice is one generated text of a response.
type choice struct {
	index  int
	origin api.Origin
	text   strings.Builder
	reader *callReader // nil = do not look for tool calls

	channels *harmony.Reader // nil = the model does not write in channels

	thinking *thinking.Reader // nil = do not look for thoughts
	thought  strings.Builder
	reasoned int // number of tokens in the thought, with its marks

	calls  []toolCall
	before int                // number of calls that precede the text
	scores []schedule.Logprob // of the tokens whose logprobs are reported
	tokens []int
	reason string // "" = not yet
	listed int    // number of tokens already written to the logprobs of completions
	offset int    // number of characters in the listed tokens
}

// part is an increment of a choice.
type part struct {
	thought string
	reading
	scores []schedule.Logprob
}

// usage holds the token counts of a response.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Completed *completionDetails `json:"completion_tokens_details,omitempty"`
}

// completionDetails counts tokens of thoughts and of a predicted output.
type completionDetails struct {
	Reasoning int `json:"reasoning_tokens,omitempty"`
	*predictionUsage
}

// newHead returns the head of a new response.
func (m *model) newHead(prefix, object string, s *settings) head {
	return head{s.origin.ID(prefix), object, s.origin.Created(), m.ID, m.fingerprint, int64(s.seed)}
}

// serve runs a job and writes the response.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, j *job) {
	w.Header().Set("X-Lowpack-Seed", strconv.FormatInt(int64(j.seed), 10))
	ctx := r.Context()
	if j.origin.Derived() {
		j.spread()
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

// answer accumulates the events of a job.
type answer struct {
	*job
	choices []*choice
	cached  int
}

func newAnswer(j *job) *answer {
	a := &answer{job: j, choices: make([]*choice, len(j.requests)*j.n)}
	for i := range a.choices {
		a.choices[i] = &choice{index: i, origin: j.origin, reader: j.tools.reader(), thinking: j.thoughts(),
			channels: j.channels()}
		if j.echo != nil {
			a.choices[i].text.WriteString(j.echo[i/j.n])
		}
	}
	return a
}

// usage returns the token counts of the response.
func (a *answer) usage() *usage {
	u, details := &usage{}, completionDetails{predictionUsage: a.predicted()}
	for i := 0; i < len(a.requests); i += max(1, a.copies) {
		u.Prompt += len(a.requests[i].Prompt)
	}
	for _, c := range a.choices {
		u.Completion += len(c.tokens)
		details.Reasoning += c.reasoned
	}
	if details != (completionDetails{}) {
		u.Completed = &details
	}
	u.Total = u.Prompt + u.Completion
	if !a.origin.Derived() { // what is cached depends on the order of requests
		u.Details.Cached = a.cached
	}
	return u
}

// take adds events to the choices and, if s is not nil, writes the increments to the stream.
func (a *answer) take(events []schedule.Event, s *api.Stream) {
	for _, e := range events {
		if e.Text < 0 {
			a.takePrompt(e, s)
			continue
		}
		c := a.choices[e.Request*a.n+e.Text]
		if e.Token >= 0 {
			c.tokens = append(c.tokens, e.Token)
		}
		p := c.read(e)
		if e.Logprob != nil {
			p.scores = []schedule.Logprob{*e.Logprob}
		}
		a.add(c, p, s)
		if e.Reason != "" {
			a.finish(c, c.reasonOf(e.Reason), s)
		}
	}
}

// takePrompt handles the event of a processed prompt: it starts the choices of the prompt, with the prompt text in
// front if echo is on.
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

// read splits new text of a choice into thoughts, content and tool calls.
func (c *choice) read(e schedule.Event) part {
	if c.channels != nil {
		return c.readChannels(e)
	}
	thought, text := c.think(e.Piece.Text, e.Reason != "")
	if c.reader == nil {
		return part{thought: thought, reading: reading{text: text}}
	}
	out := c.reader.add(text)
	if e.Reason != "" {
		out.text += c.reader.end()
	}
	if c.text.Len() == 0 && out.text != "" {
		c.before = len(c.calls)
	}
	c.note(out.calls)
	return part{thought: thought, reading: out}
}

// note appends call deltas to the calls of the choice and assigns ids to new calls.
func (c *choice) note(calls []callDelta) {
	for i := range calls {
		d := &calls[i]
		if d.name != "" {
			d.id = c.callID()
			c.calls = append(c.calls, toolCall{ID: d.id, Type: "function", Function: toolFunction{Name: d.name}})
		}
		c.calls[d.index].Function.Arguments += d.arguments
	}
}

// add appends an increment to a choice.
func (a *answer) add(c *choice, p part, s *api.Stream) {
	if p.thought == "" && p.text == "" && p.scores == nil && p.calls == nil {
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

// reasonOf returns the finish_reason of the choice.
func (c *choice) reasonOf(r engine.Reason) string {
	if reason := reasonOf(r); reason != "stop" || len(c.calls) == 0 {
		return reason
	}
	return "tool_calls"
}

// reasonOf maps the engine's reason to a finish_reason.
func reasonOf(r engine.Reason) string {
	if r == engine.EndLength || r == engine.EndContext {
		return "length"
	}
	return "stop"
}

// keepAlive is the longest time without a frame while a prompt is queued or in prefill.
const keepAlive = 15 * time.Second

// stream writes the response as server-sent events.
func (a *answer) stream(ctx context.Context, w http.ResponseWriter, call *schedule.Call) {
	events, err := next(ctx, call)
	if err != nil && err != errQuiet && err != io.EOF { // the status code is not sent yet
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
	if err != io.EOF { // the choices may be incomplete
		a.shape.fail(a.job, s, apiError(err))
	} else if e := a.check(); e != nil {
		a.shape.fail(a.job, s, e)
	} else {
		a.shape.last(a.job, s, a.choices, a.usage())
	}
	s.Flush()
}

// errQuiet is returned by next when no event arrived within keepAlive.
var errQuiet = errors.New("quiet")

// next is Call.Next that returns errQuiet when a keep-alive comment is due.
func next(ctx context.Context, call *schedule.Call) ([]schedule.Event, error) {
	soon, cancel := context.WithTimeout(ctx, keepAlive)
	defer cancel()
	events, err := call.Next(soon)
	if err != nil && soon.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = errQuiet
	}
	return events, err
}

// unsupported returns the error of a well-formed request that the server cannot run.
func unsupported(param string, err error) *api.Error {
	e := api.Invalid(param, "%v", err)
	e.Code = api.UnsupportedValue
	return e
}

// apiError maps an error of the scheduler to an API error.
func apiError(err error) *api.Error {
	var (
		busy    *schedule.BusyError
		request *schedule.RequestError
		wrong   *engine.NonFinite
	)
	switch {
	case errors.As(err, &busy):
		return &api.Error{Status: http.StatusTooManyRequests, Type: api.RateLimit, Code: "queue_full",
			Message:    err.Error(),
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
		return api.TooLate()
	case errors.Is(err, pack.ErrLimit):
		return unsupported("", err)
	case errors.As(err, &wrong): // its place in the batch is of no use to the client
		err = fmt.Errorf("%w: position %d: the %s gives values that are infinite or not a number; the weights are "+
			"damaged, or their scales are wrong", schedule.ErrFailed, wrong.Position, wrong.Step)
	}
	return &api.Error{Status: http.StatusInternalServerError, Type: api.ServerError, Message: err.Error()}
}
