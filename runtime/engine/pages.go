package engine

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/pack"
)

// pages is the memory of all KV caches. A page holds keys and values of all layers for a range of positions
// (Options.OnePass: of one layer after the other). Keys and values of a position depend on the tokens up to it alone
// (N18), so sequences that start with the same tokens can share pages; a shared page is copied before a sequence writes
// into it (copy on write).
type pages struct {
	memory *offheap.Buffer
	stride int     // bytes of a page
	users  []int32 // reference count per page: sequences, and holders of a Page
	free   []int32
	ids    []int32 // per page and position: the tokens, if they may have to be computed once more
	stages []int32 // per page: of the rotations of its keys, where these depend on the length of the text

	states  *states  // whose snapshots belong to pages
	windows *windows // whose anchors belong to pages; nil = none
	ledger  *ledger
}

// Page is a page of the KV cache that outlives the sequence that computed it, until Engine.Release.
type Page struct{ id int32 }

// newPages allocates n pages.
func (e *Engine) newPages(n int) error {
	stride := e.page() * int(e.bytesPerToken())
	memory, err := offheap.New(n * stride)
	if err != nil {
		return fmt.Errorf("%w: KV cache: %v", pack.ErrLimit, err)
	}
	e.close = append(e.close, memory.Free)
	e.pages = pages{memory: memory, stride: stride, users: make([]int32, n), free: make([]int32, n), states: &e.states,
		windows: &e.windows, ledger: &e.ledger}
	if e.repeats() {
		e.pages.ids = make([]int32, n*e.page())
	}
	if e.staged() {
		e.pages.stages = make([]int32, n)
	}
	for i := range e.pages.free { // lowest page first: memory fills from front to back
		e.pages.free[i] = int32(n - 1 - i)
	}
	return nil
}

// leastPages is the size of the smallest KV cache that the options allow: only one that takes what fits may be larger.
func (e *Engine) leastPages() int {
	one := e.pagesFor(e.opt.Context)
	n := one * e.opt.Sequences
	switch {
	case e.opt.CacheTokens == CacheFits:
		n = one
	case e.opt.CacheTokens > 0:
		n = min(n, e.pagesFor(e.opt.CacheTokens))
	}
	return n
}

// cacheTokens is the size of the KV cache, in whole pages.
func (e *Engine) cacheTokens() int {
	n := e.leastPages()
	if e.opt.CacheTokens == CacheFits {
		free := availableMemory()
		if e.opt.Memory > 0 {
			free = min(free, max(0, e.opt.Memory-e.copied))
		}
		fits := (float64(free)/2 - float64(e.windowBytes())) / e.cacheBytes(e.page())
		if there, ok := e.devicePages(); ok {
			fits = min(fits, float64(there))
		}
		n = int(max(float64(n), min(float64(n*e.opt.Sequences), fits)))
	}
	return n * e.page()
}

// pagesFor is the number of pages that hold n tokens.
func (e *Engine) pagesFor(n int) int { return (n + e.page() - 1) / e.page() }

// PageTokens is the number of tokens that one page of a KV cache holds.
func (e *Engine) PageTokens() int { return e.page() }

// Pages is the number of pages of the KV cache, and the number of free ones.
func (e *Engine) Pages() (all, free int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.pages.users), len(e.pages.free)
}

// take gets a free page.
func (p *pages) take() (int32, error) {
	last := len(p.free) - 1
	if last < 0 {
		return 0, fmt.Errorf("%w: all %d pages of the KV cache are in use; close a sequence, or make the engine with "+
			"a larger cache",
			pack.ErrLimit, len(p.users))
	}
	id := p.free[last]
	p.free = p.free[:last]
	p.users[id] = 1
	p.ledger.take(id)
	return id, nil
}

// drop removes a user from a page.
func (p *pages) drop(id int32) {
	if p.users[id]--; p.users[id] == 0 {
		p.free = append(p.free, id)
		p.unmark(id)
	}
}

// unmark removes the snapshot and the anchor of a page.
func (p *pages) unmark(id int32) {
	if p.states.unmark(id); p.windows != nil {
		p.windows.unmark(id)
	}
}

// copyIDs gives a page the tokens of another one.
func (p *pages) copyIDs(to, from int32) {
	n := len(p.ids) / len(p.users)
	copy(p.ids[int(to)*n:][:n], p.ids[int(from)*n:])
}

func (p *pages) bytes(id int32) []byte { return p.memory.Bytes[int(id)*p.stride:][:p.stride] }

// grow allocates pages for all chunks of a batch. After an error some chunks have them; shrink releases them.
func grow(batch []Chunk) error {
	for i := range batch {
		if err := batch[i].Seq.grow(batch[i].Seq.Len() + len(batch[i].Tokens)); err != nil {
			return err
		}
	}
	return nil
}

// shrink releases the pages of tokens that were not appended.
func shrink(batch []Chunk) {
	for i := range batch {
		batch[i].Seq.shrink()
		batch[i].Seq.leave()
	}
}

// grow allocates pages for n tokens, not shared where tokens will be written.
func (s *Sequence) grow(n int) error {
	p := &s.e.pages
	for i := s.Len() / s.e.page(); i < s.e.pagesFor(n); i++ {
		if i < len(s.pages) && p.users[s.pages[i]] == 1 {
			s.forget(i)
			continue
		}
		id, err := p.take()
		if err != nil {
			return err
		}
		if len(p.stages) > 0 {
			p.stages[id] = int32(s.stage)
		}
		if i == len(s.pages) {
			s.pages = append(s.pages, id)
			continue
		}
		s.e.copyPage(id, s.pages[i], s.Len()-i*s.e.page())
		p.drop(s.pages[i])
		s.pages[i] = id
	}
	return nil
}

// forget removes the snapshot and the anchor of a page if they are of tokens that are no longer there.
func (s *Sequence) forget(i int) {
	if w := &s.e.windows; s.e.windowed() && i*s.e.page()+w.anchors[s.pages[i]].tokens > s.Len() {
		w.unmark(s.pages[i])
	}
	if st := &s.e.states; st.size > 0 && i*s.e.page()+st.pages[s.pages[i]].tokens > s.Len() {
		st.unmark(s.pages[i])
	}
}

// shrink releases the pages that hold no token.
func (s *Sequence) shrink() {
	n := s.e.pagesFor(s.Len())
	for _, id := range s.pages[n:] {
		s.e.pages.drop(id)
	}
	s.pages = s.pages[:n]
}

// Pages returns the pages that hold the first n tokens of the sequence. Each is held until Release.
func (s *Sequence) Pages(n int) []Page {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if n >= s.Len() {
		s.markHere(true)
	}
	if n = min(n, s.Len()); s.e.windowed() && n <= s.done {
		s.anchor(n)
	}
	held := make([]Page, s.e.pagesFor(n))
	for i := range held {
		held[i] = Page{s.pages[i]}
		s.e.pages.users[s.pages[i]]++
	}
	return held
}

// Release releases held pages, each exactly once.
func (e *Engine) Release(held ...Page) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range held {
		e.pages.drop(p.id)
	}
}

// Shared reports whether a page has users besides its holder, so that releasing it would free nothing.
func (e *Engine) Shared(p Page) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pages.users[p.id] > 1
}

// Resumes reports whether a sequence can go on after the last token of a page: always, or, in a model with recurrent
// layers or where sliding windows have pages of their own, if the page has a snapshot of the state, or of the window.
func (e *Engine) Resumes(p Page) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.windowed() {
		return e.windows.anchors[p.id].tokens > 0
	}
	return e.states.size == 0 || e.states.pages[p.id].tokens > 0
}

// Resume opens a sequence whose first n tokens are in the KV cache of held pages. The caller keeps holding them. It may
// have fewer tokens (see Len): in a model with recurrent layers or sliding windows as many as the latest snapshot of
// state or window stands behind, and none behind keys whose rotations are those of another length of text (N67). It
// returns pack.ErrLimit if all sequences are open, pack.ErrUnsupported if the pages hold fewer tokens.
func (e *Engine) Resume(held []Page, n int) (*Sequence, error) {
	if n < 0 || e.pagesFor(n) > len(held) {
		return nil, fmt.Errorf("%w: %d tokens in %d pages of %d", pack.ErrUnsupported, n, len(held), e.page())
	}
	s, err := e.NewSequence()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range held[:e.pagesFor(n)] {
		s.pages = append(s.pages, p.id)
	}
	n, stage := e.sameStage(s.pages, n)
	s.setStage(stage)
	switch s.common = n / e.page() * e.page(); {
	case e.windowed():
		n, _ = e.anchored(s.pages, n)
	case e.states.size > 0:
		n, _ = e.latest(s.pages, n)
	default:
		s.common = 0
	}
	s.share(s.pages, n)
	s.rewind()
	return s, nil
}

// share makes the first n tokens of a sequence those of pages with other users.
func (s *Sequence) share(pages []int32, n int) {
	s.pages = append(s.pages[:0], pages[:s.e.pagesFor(n)]...)
	for _, id := range s.pages {
		s.e.pages.users[id]++
	}
	s.n.Store(int64(n))
	if s.rows = n; s.e.states.size == 0 && !s.e.windowed() {
		s.done = n
	}
}

// Fork opens a sequence that starts with the tokens of this one and shares its pages. It returns the errors of
// NewSequence.
func (s *Sequence) Fork() (*Sequence, error) {
	f, err := s.e.NewSequence()
	if err != nil {
		return nil, err
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	f.share(s.pages, s.Len())
	f.setStage(s.stage)
	f.rows, f.done, f.local = s.rows, s.done, append(f.local[:0], s.local...)
	for _, id := range f.local {
		if id != noPage {
			s.e.windows.users[id]++
		}
	}
	if f.state = s.state; f.state != noSlot {
		s.e.states.live[f.state]++
	}
	return f, nil
}

// Trim returns the memory of free pages to the system.
func (e *Engine) Trim() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range []*pages{&e.pages, &e.windows.pages} {
		for _, id := range p.free {
			offheap.Drop(p.bytes(id))
		}
		slices.SortFunc(p.free, func(a, b int32) int { return int(b - a) })
	}
}
