package engine

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/pack"
)

// windows is the KV cache of layers with a sliding window, or that see the chunk of a token alone, where holding all
// positions would take at least twice as much. A sequence has a page of it for each page of the KV cache that lies in
// the window of the next token, and as many positions before as a page has (for drafts that are taken back). An anchor
// of a page of the KV cache holds what a sequence needs to go on after some token of that page. Where a sequence goes
// back behind its window, the next pass computes the tokens after the latest anchor once more: the same bits (N3), so
// anchors decide how long that takes and nothing else.
type windows struct {
	pages
	size    int      // positions of a window
	anchors []anchor // by page of the KV cache
	clock   uint64
}

// anchor is the window at some token of a page.
type anchor struct {
	tokens int     // of the page, up to that one; 0 = there is no anchor
	first  int     // index of the first page of the window
	pages  []int32 // of windows
	used   uint64  // clock at the last use
}

// localLayers is the number of layers that hold keys and values for a sliding window; 0 if a layer without one reads
// those of a layer with one.
func localLayers(d *model.Description) (n int) {
	for i := range d.Blocks {
		b := &d.Blocks[i]
		if b.KVOf != 0 && !b.Local && d.Blocks[b.KVOf-1].Local {
			return 0
		}
		if d.SlidingWindow > 0 && b.Local && b.Caches() {
			n++
		}
	}
	return n
}

// windowed reports whether layers with a sliding window have pages of their own.
func (e *Engine) windowed() bool { return e.windows.size > 0 }

// windowPages is the number of pages of windows, 0 if all layers are to have the pages of the KV cache. A sequence
// needs twice those of its window, as a chunk that fails leaves it as it was, and those of its tokens in a pass.
func (e *Engine) windowPages() int {
	d, o, rows := e.desc, &e.opt, e.page()
	if localLayers(d) == 0 || e.found != nil || o.OnePass || d.StateBytes() > 0 || d.Latent != nil {
		return 0
	}
	spanned := (d.SlidingWindow+2*rows-3)/rows + 1
	n := o.Sequences*(2*spanned+1) + o.Batch/rows
	all := o.Sequences * e.pagesFor(o.Context)
	if o.CacheTokens > 0 {
		all = min(all, e.pagesFor(o.CacheTokens))
	}
	if 2*n > all {
		return 0
	}
	return n
}

// windowBytes is the memory of the windows.
func (e *Engine) windowBytes() int {
	if !e.windowed() {
		return 0
	}
	return e.windowPages() * e.windows.stride
}

// planWindows decides whether there are windows, before anything is allocated.
func (e *Engine) planWindows() {
	if e.windowPages() > 0 {
		e.windows.size = e.desc.SlidingWindow
		local := readBytes(e.desc, &model.Block{Local: true}, e.opt.Cache)
		e.windows.stride = e.page() * localLayers(e.desc) * local
	}
}

// newWindows allocates the memory.
func (e *Engine) newWindows() error {
	if !e.windowed() {
		return nil
	}
	w, n := &e.windows, e.windowPages()
	memory, err := offheap.New(n * w.stride)
	if err != nil {
		return fmt.Errorf("%w: KV cache of sliding windows: %v", pack.ErrLimit, err)
	}
	e.close = append(e.close, memory.Free)
	w.pages = pages{memory: memory, stride: w.stride, users: make([]int32, n), free: make([]int32, n),
		states: &states{}, ledger: &ledger{}}
	for i := range w.free {
		w.free[i] = int32(n - 1 - i)
	}
	w.anchors = make([]anchor, len(e.pages.users))
	return nil
}

// take gets a free page; anchors make room.
func (w *windows) take() (int32, error) {
	for len(w.free) == 0 && w.evict() {
	}
	return w.pages.take()
}

// evict removes the least recently used anchor; false = there is none.
func (w *windows) evict() bool {
	oldest := int32(noPage)
	for i := range w.anchors {
		if a := &w.anchors[i]; a.tokens > 0 && (oldest == noPage || a.used < w.anchors[oldest].used) {
			oldest = int32(i)
		}
	}
	if oldest == noPage {
		return false
	}
	w.unmark(oldest)
	return true
}

// unmark removes the anchor of a page of the KV cache, if it has one.
func (w *windows) unmark(page int32) {
	if len(w.anchors) == 0 || w.anchors[page].tokens == 0 {
		return
	}
	held := w.anchors[page].pages
	w.anchors[page] = anchor{}
	for _, id := range held {
		w.pages.drop(id)
	}
}

// copyAnchor gives a page the anchor of another one, if that is of its first tokens.
func (w *windows) copyAnchor(to, from int32, tokens int) {
	a := w.anchors[from]
	if a.tokens == 0 || a.tokens > tokens {
		return
	}
	a.pages = slices.Clone(a.pages)
	for _, id := range a.pages {
		w.users[id]++
	}
	w.anchors[to] = a
}

func (w *windows) touch(a *anchor) {
	w.clock++
	a.used = w.clock
}

// needed is the index of the first page in the window of the token after n others; 0 where there are no windows.
func (e *Engine) needed(n int) int {
	if !e.windowed() {
		return 0
	}
	return visible(n, e.windows.size, e.desc.Chunked) / e.page()
}

// kept is the index of the first page that a sequence of n tokens keeps.
func (e *Engine) kept(n int) int { return e.needed(max(0, n-e.page())) }

// holdWindows gives the tokens of a pass pages of the windows.
func (e *Engine) holdWindows() error {
	if !e.windowed() {
		return nil
	}
	tokens, rows := e.pass.tokens, e.page()
	for t := range tokens {
		tok := &tokens[t]
		if t > 0 && tokens[t-1].seq == tok.seq && tok.pos%rows != 0 {
			continue
		}
		if err := tok.seq.hold(tok.pos / rows); err != nil {
			return err
		}
	}
	return nil
}

// hold gives a sequence page i of the windows, not shared.
func (s *Sequence) hold(i int) error {
	w := &s.e.windows
	for len(s.local) <= i {
		s.local = append(s.local, noPage)
	}
	old := s.local[i]
	if old != noPage && w.users[old] == 1 {
		return nil
	}
	id, err := w.take()
	if err != nil {
		return err
	}
	if old != noPage {
		copy(w.bytes(id), w.bytes(old))
		w.pages.drop(old)
	}
	s.local[i] = id
	return nil
}

// slideWindows releases pages that the tokens after a pass do not need, but for those that the sequence had before the
// chunk.
func (e *Engine) slideWindows() {
	if !e.windowed() {
		return
	}
	tokens := e.pass.tokens
	for t := range tokens {
		if s := tokens[t].seq; (t+1 == len(tokens) || tokens[t+1].seq != s) && !e.pass.failed(t) {
			n := tokens[t].pos + 1
			if s.common > 0 && n >= s.common {
				s.anchor(s.common)
				s.common = 0
			}
			s.letGo(e.pagesFor(s.done), e.kept(n))
		}
	}
}

// letGo releases pages [from, to) of the windows.
func (s *Sequence) letGo(from, to int) {
	for i := from; i < min(to, len(s.local)); i++ {
		if id := s.local[i]; id != noPage {
			s.e.windows.pages.drop(id)
			s.local[i] = noPage
		}
	}
}

// covers reports whether the sequence has the window of the token after its first n, of those that are computed.
func (s *Sequence) covers(n int) bool {
	for i := s.e.needed(n); i < s.e.pagesFor(n); i++ {
		if i >= len(s.local) || s.local[i] == noPage {
			return false
		}
	}
	return true
}

// anchor keeps the window after the first n tokens for whoever shares the page of the last of them.
func (s *Sequence) anchor(n int) {
	w := &s.e.windows
	if n == 0 || !s.covers(n) {
		return
	}
	first, page := s.e.needed(n), s.pages[(n-1)/s.e.page()]
	for first > s.e.kept(n) && s.local[first-1] != noPage {
		first--
	}
	w.unmark(page)
	a := &w.anchors[page]
	a.tokens, a.first = (n-1)%s.e.page()+1, first
	a.pages = append(a.pages, s.local[first:s.e.pagesFor(n)]...)
	for _, id := range a.pages {
		w.users[id]++
	}
	w.touch(a)
}

// anchored returns the last position up to n at which the window is in an anchor of one of the pages; nil = none.
func (e *Engine) anchored(pages []int32, n int) (position int, found *anchor) {
	for i := min(len(pages), e.pagesFor(n)) - 1; i >= 0; i-- {
		a := &e.windows.anchors[pages[i]]
		if at := min(i*e.page()+a.tokens, n); a.tokens > 0 && a.first <= e.needed(at) {
			return at, a
		}
	}
	return 0, nil
}

// rewindWindow takes the sequence back to the last position whose window is there.
func (s *Sequence) rewindWindow() {
	n := min(s.done, s.Len())
	if !s.covers(n) {
		n = 0
	}
	if n < s.Len() {
		if at, a := s.e.anchored(s.pages, s.Len()); at > n {
			s.useAnchor(at, a)
			n = at
		}
	}
	s.done = n
	s.letGo(s.e.pagesFor(n), len(s.local))
	s.local = s.local[:min(len(s.local), s.e.pagesFor(n))]
}

// useAnchor gives the sequence the window of an anchor at a position.
func (s *Sequence) useAnchor(at int, a *anchor) {
	w := &s.e.windows
	s.letGo(0, len(s.local))
	s.local = s.local[:0]
	for range a.first {
		s.local = append(s.local, noPage)
	}
	for _, id := range a.pages[:s.e.pagesFor(at)-a.first] {
		w.users[id]++
		s.local = append(s.local, id)
	}
	w.touch(a)
}
