package schedule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/runtime/engine"
)

func open(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	return openFile(t, tinymodel.Path(t), o)
}

func openFile(t *testing.T, path string, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func start(t *testing.T, e *engine.Engine, o Options) *Scheduler {
	t.Helper()
	s := New(e, o)
	t.Cleanup(s.Close)
	return s
}

// answer is the whole result of a request, formatted so that every digit counts.
type answer struct {
	Prompt string
	Texts  []string
}

func collect(ctx context.Context, s *Scheduler, r Request) (a answer, cached int, err error) {
	c, err := s.Submit(ctx, []Request{r})
	if err != nil {
		return a, 0, err
	}
	defer c.Close()
	a.Texts = make([]string, len(r.Texts))
	for {
		events, err := c.Next(ctx)
		if err == io.EOF {
			return a, cached, nil
		}
		if err != nil {
			return a, cached, err
		}
		for _, e := range events {
			if e.Text < 0 {
				a.Prompt, cached = fmt.Sprintf("%+v", e.Prompt), e.Cached
				continue
			}
			a.Texts[e.Text] += fmt.Sprintf("%d %q %s ", e.Token, e.Piece.Text, e.Reason)
			if e.Logprob != nil {
				a.Texts[e.Text] += fmt.Sprintf("%+v ", *e.Logprob)
			}
		}
	}
}

// requests generates n requests of every kind, many with common prefixes.
func requests(n, vocab int) []Request {
	r := rand.New(rand.NewPCG(3, 4))
	ids := func(k int) []int {
		list := make([]int, k)
		for i := range list {
			list[i] = r.IntN(vocab - 16)
		}
		return list
	}
	common := ids(70)
	list := make([]Request, n)
	for i := range list {
		q := Request{Prompt: ids(1 + r.IntN(90)), Logprobs: -1, PromptLogprobs: -1}
		if i%3 == 0 {
			q.Prompt = append(slices.Clone(common[:30+r.IntN(40)]), q.Prompt...)
		}
		if i%4 == 0 {
			q.Logprobs = r.IntN(4)
		}
		if i%7 == 0 {
			q.PromptLogprobs = r.IntN(3)
		}
		for range 1 + max(0, r.IntN(5)-2) {
			w := engine.Request{MaxTokens: 1 + r.IntN(20), StopTokens: []int{2553, 2554}, Speculate: r.IntN(6) - 1}
			if i%2 == 0 {
				w.Sampling = engine.Sampling{Temperature: 1.2, TopP: 0.95, RepetitionPenalty: 1.1, Seed: r.Uint64()}
			}
			if i%5 == 0 {
				w.Adjust = func(generated []int, logits []float32) { logits[40+len(generated)] += 3 }
			}
			q.Texts = append(q.Texts, w)
		}
		if i%11 == 0 {
			q.Texts, q.PromptLogprobs = nil, 1
		}
		list[i] = q
	}
	return list
}

// TestLoad: a request gets the same bytes whatever else the engine does: batches of any size, in any order, alongside
// cancelled requests, with and without drafts, with and without prefix cache, with little memory and with much.
func TestLoad(t *testing.T) { testLoad(t, tinymodel.Path(t), 256, 1) }

// TestLoadRecurrent is TestLoad for models with recurrent layers: drafts, forks, prefixes and cancelled requests do not
// change the states of others.
func TestLoadRecurrent(t *testing.T) {
	for _, like := range []string{"lfm2-1.2b", "jamba-v0.1"} {
		testLoad(t, recurrentPath(t, like), 32, 1)
	}
}

func recurrentPath(t *testing.T, like string) string {
	dir := filepath.Join(t.TempDir(), "model")
	tinymodel.Miniature(t, like, dir)
	return tinymodel.Converted(t, dir, packed.Recipe{Golden: "none"})
}

// TestBranches: of prompts with a common start the third one finds it in the prefix cache: the second left the state
// there. One that goes on with an answer finds all of it.
func TestBranches(t *testing.T) {
	o := engine.Options{Threads: 1, Context: 256, Sequences: 2, Page: 32}
	branches(t, start(t, openFile(t, recurrentPath(t, "lfm2-1.2b"), o), Options{PrefixCache: true}))
}

func branches(t *testing.T, s *Scheduler) {
	common := requests(1, s.vocab)[0].Prompt[:70]
	for i, want := range []int{0, 0, 64, 64} {
		r := Request{Prompt: slices.Clone(common), Logprobs: -1, PromptLogprobs: -1,
			Texts: []engine.Request{{MaxTokens: 1}}}
		for j := range 40 {
			r.Prompt = append(r.Prompt, (i+7)*(j+3)%100)
		}
		if _, cached, err := collect(t.Context(), s, r); err != nil || cached != want {
			t.Errorf("prompt %d: %d cached tokens, want %d; %v", i, cached, want, err)
		}
		r.Prompt = append(r.Prompt, 1, 2)
		if _, cached, err := collect(t.Context(), s, r); err != nil || cached != 110 {
			t.Errorf("prompt %d goes on: %d cached tokens, want 110; %v", i, cached, err)
		}
	}
}

// testLoad expects prefixes to be found again with pages of up to longest tokens: with recurrent layers they end where
// pages do, and few requests have whole long pages in common. Contexts are times as long as these requests need.
func testLoad(t *testing.T, path string, longest, times int) {
	alone := start(t, openFile(t, path, engine.Options{Threads: 1, Context: 256, Sequences: 4}), Options{Queue: 100})
	vocab := alone.vocab
	list := requests(44, vocab)
	want := make([]answer, len(list))
	for i, r := range list {
		var err error
		if want[i], _, err = collect(t.Context(), alone, without(r)); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []struct {
		engine.Options
		cache   bool
		clients int
		target  time.Duration
	}{
		{engine.Options{Threads: 1, Context: 256, Sequences: 4, Page: 32, CacheTokens: 320}, true, 8, time.Millisecond},
		{engine.Options{Threads: 2, Context: 256, Sequences: 32, Page: 64, Batch: 50}, true, 32, 0},
		{engine.Options{Threads: 2, Context: 256, Sequences: 8}, true, 1, 0},
		{engine.Options{Threads: 2, Context: 200, Sequences: 5, Page: 32, Batch: 17}, false, 8, time.Second},
	} {
		o.Context *= times
		s := start(t, openFile(t, path, o.Options), Options{Queue: 1000, PrefixCache: o.cache, ITLTarget: o.target})
		hits := under(t, s, list, want, o.clients)
		if o.cache && hits == 0 && s.e.PageTokens() <= longest {
			t.Errorf("%+v: no prefix was found again", o)
		}
		if !o.cache && hits != 0 {
			t.Errorf("%+v: %d cached tokens without a cache", o, hits)
		}
		s.Drain(t.Context())
		if all, free := s.e.Pages(); free != all {
			t.Errorf("%+v: %d of %d pages are free at the end", o, free, all)
		}
	}
}

// without returns the request without drafts.
func without(r Request) Request {
	r.Texts = slices.Clone(r.Texts)
	for i := range r.Texts {
		r.Texts[i].Speculate = 0
	}
	return r
}

// under compares the results of all requests, sent by several clients in random order while others come and go. It
// returns the number of cached prompt tokens.
func under(t *testing.T, s *Scheduler, list []Request, want []answer, clients int) (hits int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var noise, wait sync.WaitGroup
	for k := range 2 {
		noise.Go(func() {
			r := rand.New(rand.NewPCG(uint64(k), 1))
			for ctx.Err() == nil {
				soon, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(20_000))*time.Microsecond)
				_, _, err := collect(soon, s, list[r.IntN(len(list))])
				cancel()
				if busy := (*BusyError)(nil); err != nil && !errors.Is(err, context.DeadlineExceeded) &&
					!errors.Is(err, context.Canceled) && !errors.As(err, &busy) {
					t.Error(err)
				}
			}
		})
	}
	order := rand.New(rand.NewPCG(7, uint64(clients))).Perm(len(list))
	var mu sync.Mutex
	next := 0
	for range clients {
		wait.Go(func() {
			for {
				mu.Lock()
				at := next
				next++
				mu.Unlock()
				if at >= len(order) {
					return
				}
				i := order[at]
				got, cached, err := collect(t.Context(), s, list[i])
				if err != nil {
					t.Errorf("request %d: %v", i, err)
				} else if got.Prompt != want[i].Prompt || !slices.Equal(got.Texts, want[i].Texts) {
					t.Errorf("%d clients, request %d:\n%v\nwant\n%v", clients, i, got, want[i])
				}
				mu.Lock()
				hits += cached
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	stop()
	noise.Wait()
	return hits
}

// TestCancel: the next step drops a request whose caller has gone and frees its memory.
func TestCancel(t *testing.T) {
	e := open(t, engine.Options{Threads: 1, Context: 256, Sequences: 2})
	ended := make(chan Timing, 1)
	steps := make(chan struct{}, 1000)
	s := start(t, e, Options{Queue: 1, Observe: func(x Timing) { ended <- x },
		Step: func(time.Duration, int) { steps <- struct{}{} }})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Submit(ctx, []Request{{Prompt: []int{1, 2}, Texts: []engine.Request{{MaxTokens: 250}, {MaxTokens: 250}},
		Logprobs: -1, PromptLogprobs: -1}})
	if err != nil {
		t.Fatal(err)
	}
	<-steps
	cancel()
	at := len(steps)
	x := <-ended
	if n := len(steps) - at; n > 2 || !errors.Is(x.Err, context.Canceled) {
		t.Errorf("%d steps after the caller left, error %v", n, x.Err)
	}
	if all, free := e.Pages(); free != all {
		t.Errorf("%d of %d pages are free", free, all)
	}
}

// TestOrder: requests are admitted first come, first served, even if a small one would fit before a large one.
func TestOrder(t *testing.T) {
	ended := make(chan Timing, 3)
	s := start(t, open(t, engine.Options{Threads: 1, Context: 256, Sequences: 4}),
		Options{Queue: 3, Observe: func(x Timing) { ended <- x }})
	request := func(tokens, texts int) Request { // identified by its number of tokens
		r := Request{Prompt: make([]int, tokens), Logprobs: -1, PromptLogprobs: -1}
		for range texts {
			r.Texts = append(r.Texts, engine.Request{MaxTokens: 40})
		}
		return r
	}
	if _, err := s.Submit(t.Context(), []Request{request(1, 3), request(2, 4), request(3, 1)}); err != nil {
		t.Fatal(err)
	}
	admitted := map[int]time.Time{}
	for range 3 {
		x := <-ended
		if x.Err != nil {
			t.Fatal(x.Err)
		}
		admitted[x.PromptTokens] = x.Admitted
	}
	if !admitted[1].Before(admitted[2]) || !admitted[2].Before(admitted[3]) {
		t.Errorf("admitted at %v: not in the order of arrival", admitted)
	}
}

// TestSlowReader: a caller that does not read delays nobody.
func TestSlowReader(t *testing.T) {
	s := start(t, open(t, engine.Options{Threads: 1, Context: 256, Sequences: 2}), Options{Queue: 1})
	r := Request{Prompt: []int{1, 2}, Texts: []engine.Request{{MaxTokens: 60}}, Logprobs: -1, PromptLogprobs: -1}
	slow, err := s.Submit(t.Context(), []Request{r})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := collect(t.Context(), s, r); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the text is complete", func() bool { return s.Stats().Running == 0 })
	tokens := 0
	for {
		events, err := slow.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Text == 0 && e.Token >= 0 {
				tokens++
			}
		}
	}
	if tokens != 60 {
		t.Errorf("%d tokens waited, want 60", tokens)
	}
}

// TestRefused: a request that can never run, or that finds the queue full, is rejected at once.
func TestRefused(t *testing.T) {
	s := start(t, open(t, engine.Options{Threads: 1, Context: 256, Sequences: 2}), Options{Queue: 1})
	text := func(n int) []engine.Request { return []engine.Request{{MaxTokens: n}} }
	for name, r := range map[string]Request{
		"no tokens":               {Texts: text(1)},
		"up to 256 are requested": {Prompt: []int{1}, Texts: text(256)},
		"at most 2 at once":       {Prompt: []int{1}, Texts: make([]engine.Request, 3)},
		"token id 2560":           {Prompt: []int{2560}, Texts: text(1)},
		"temperature -1": {Prompt: []int{1},
			Texts: []engine.Request{{MaxTokens: 1, Sampling: engine.Sampling{Temperature: -1}}}},
	} {
		_, err := s.Submit(t.Context(), []Request{r})
		if refused := (*RequestError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := text(250)
	held[0].Adjust = func([]int, []float32) { <-ctx.Done() }
	for i := range 4 { // two sequences, one waiting, and one too many
		_, err := s.Submit(ctx, []Request{{Prompt: []int{1, 2}, Texts: held, Logprobs: -1, PromptLogprobs: -1}})
		var busy *BusyError
		if i < 3 && err != nil || i == 3 && (!errors.As(err, &busy) || busy.RetryAfter < time.Second) {
			t.Fatalf("request %d: %v", i, err)
		}
		wait.For(t, "the first one is computed", func() bool { return s.Stats().Running > 0 })
	}
	cancel()
	s.Drain(t.Context())
	if _, err := s.Submit(t.Context(), []Request{{Prompt: []int{1}, Texts: text(1)}}); !errors.Is(err, ErrDraining) {
		t.Errorf("after Drain: %v", err)
	}
}

// TestLongLists: a call of more requests than run and wait gets the texts that these have alone, and leaves room for
// others; one that is canceled ends all of them.
func TestLongLists(t *testing.T) {
	ended := make(chan Timing, 100)
	most := 0
	var s *Scheduler
	s = start(t, open(t, engine.Options{Threads: 1, Context: 256, Sequences: 2}), Options{Queue: 2,
		Observe: func(x Timing) {
			most = max(most, s.Stats().Running+s.Stats().Waiting)
			ended <- x
		}})
	request := func(i int, adjust func([]int, []float32)) Request {
		return Request{Prompt: []int{1, 2 + i}, Logprobs: -1, PromptLogprobs: -1,
			Texts: []engine.Request{{MaxTokens: 3, Adjust: adjust}}}
	}
	var list []Request
	var want, got [9]string
	for i := range want {
		list = append(list, request(i, nil))
		a, _, err := collect(t.Context(), s, list[i])
		if err != nil {
			t.Fatal(err)
		}
		want[i] = a.Texts[0]
		<-ended
	}
	c, err := s.Submit(t.Context(), list)
	for err == nil {
		var events []Event
		events, err = c.Next(t.Context())
		for _, e := range events {
			if e.Text == 0 {
				got[e.Request] += fmt.Sprintf("%d %q %s ", e.Token, e.Piece.Text, e.Reason)
			}
		}
	}
	for range list {
		<-ended
	}
	if err != io.EOF || got != want || most > 2 {
		t.Errorf("%v, up to %d at once: %q\nwant %q", err, most, got, want)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range list {
		list[i] = request(i, func([]int, []float32) { <-ctx.Done() })
	}
	if _, err := s.Submit(ctx, list); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // beside the half that the list has
		_, err := s.Submit(ctx, list[:1])
		if busy := (*BusyError)(nil); i < 2 && err != nil || i == 2 && !errors.As(err, &busy) {
			t.Errorf("request %d beside a long list: %v", i, err)
		}
		wait.For(t, "the list is computed", func() bool { return s.Stats().Running > 0 })
	}
	cancel()
	wait.For(t, "all requests end", func() bool { return len(ended) == len(list)+2 })
	for range len(list) + 2 {
		if x := <-ended; !errors.Is(x.Err, context.Canceled) {
			t.Errorf("%v", x.Err)
		}
	}
}

// TestAnswersLeaveRoom: a request is counted and its place is free before its caller learns of its end: the next
// request of a client is not refused for the last one.
func TestAnswersLeaveRoom(t *testing.T) {
	var (
		s      *Scheduler
		call   *Call
		placed = make(chan struct{})
	)
	s = start(t, open(t, engine.Options{Threads: 1, Context: 256, Sequences: 2}), Options{Observe: func(Timing) {
		call.mu.Lock()
		ended := call.ended
		call.mu.Unlock()
		if running := s.Stats().Running; ended || running != 0 {
			t.Errorf("%d requests are running, and the caller knows of the end: %t", running, ended)
		}
	}})
	text := engine.Request{MaxTokens: 2, Adjust: func([]int, []float32) { <-placed }}
	var err error
	call, err = s.Submit(t.Context(), []Request{{Prompt: []int{1, 2}, Texts: []engine.Request{text}, Logprobs: -1,
		PromptLogprobs: -1}})
	if err != nil {
		t.Fatal(err)
	}
	close(placed)
	for err == nil {
		_, err = call.Next(t.Context())
	}
	if err != io.EOF {
		t.Error(err)
	}
}

// TestDrain: running requests finish unless the context ends first; nothing keeps running.
func TestDrain(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, patient := range []bool{true, false} {
		e := open(t, engine.Options{Threads: 1, Context: 256, Sequences: 2})
		s := New(e, Options{Queue: 1, PrefixCache: true})
		hold := make(chan struct{})
		text := engine.Request{MaxTokens: 200, Adjust: func([]int, []float32) { <-hold }}
		c, err := s.Submit(t.Context(),
			[]Request{{Prompt: []int{1, 2}, Texts: []engine.Request{text}, Logprobs: -1, PromptLogprobs: -1}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if !patient {
			cancel()
		}
		drained := make(chan struct{})
		go func() { s.Drain(ctx); close(drained) }()
		wait.For(t, "the scheduler drains", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.draining && (patient || s.closed)
		})
		close(hold)
		<-drained
		cancel()
		for err == nil {
			_, err = c.Next(t.Context())
		}
		if patient != (err == io.EOF) || !patient && !errors.Is(err, ErrDraining) {
			t.Errorf("patient %v: %v", patient, err)
		}
		if all, free := e.Pages(); free != all {
			t.Errorf("%d of %d pages are free", free, all)
		}
	}
	wait.Goroutines(t, before)
}

// TestStatsInStep: Stats does not wait for a step.
func TestStatsInStep(t *testing.T) {
	s := start(t, open(t, engine.Options{Threads: 1, Context: 256, Sequences: 1}), Options{Queue: 1})
	begun, hold := make(chan struct{}, 2), make(chan struct{})
	text := engine.Request{MaxTokens: 2, Adjust: func([]int, []float32) { begun <- struct{}{}; <-hold }}
	_, err := s.Submit(t.Context(),
		[]Request{{Prompt: []int{1}, Texts: []engine.Request{text}, Logprobs: -1, PromptLogprobs: -1}})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	if x := s.Stats(); x.Running != 1 || x.Waiting != 0 || x.Draining {
		t.Errorf("%+v", x)
	}
	close(hold)
}

// TestLargest compares with a sort.
func TestLargest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		logits := make([]float32, 1+r.IntN(60))
		ids := make([]int, len(logits))
		for i := range logits {
			logits[i], ids[i] = float32(r.IntN(9)), i
		}
		slices.SortStableFunc(ids, func(a, b int) int { return int(logits[b] - logits[a]) })
		n := r.IntN(22)
		if got, want := largest(logits, n), ids[:min(n, len(ids))]; !slices.Equal(got, want) {
			t.Fatalf("%v of %v, want %v", got, logits, want)
		}
	}
}
