package engine

// ledger knows what the pages of the KV cache hold: which tokens, after which page. From it the CPU computes the cache
// of a device that has failed. It is empty without a device.
type ledger struct {
	page    int // tokens of a page
	ids     []int32
	pages   []written
	written int // generations of pages
}

// written is what a page holds.
type written struct {
	generation int   // of its use: a page that is taken again is another one
	index      int   // of the page in its sequence
	before     int32 // the page before it; noPage = none
	since      int   // generation of that one
	tokens     int
}

const noPage = -1

func newLedger(pages, page int) ledger {
	return ledger{page: page, ids: make([]int32, pages*page), pages: make([]written, pages)}
}

// take notes that a page has a new use.
func (l *ledger) take(id int32) {
	if l.page > 0 {
		l.written++
		l.pages[id] = written{generation: l.written, before: noPage}
	}
}

// write notes the tokens of a pass.
func (l *ledger) write(tokens []token) {
	if l.page == 0 {
		return
	}
	for i := range tokens {
		t := &tokens[i]
		index, at := t.pos/l.page, t.pos%l.page
		id := t.seq.pages[index]
		w := &l.pages[id]
		if w.index, w.tokens = index, at+1; index > 0 {
			w.before = t.seq.pages[index-1]
			w.since = l.pages[w.before].generation
		}
		l.ids[int(id)*l.page+at] = int32(t.id)
	}
}

// copy notes that a page holds the first tokens of another one.
func (l *ledger) copy(to, from int32, tokens int) {
	generation := l.pages[to].generation
	l.pages[to] = l.pages[from]
	l.pages[to].generation, l.pages[to].tokens = generation, tokens
	copy(l.ids[int(to)*l.page:][:tokens], l.ids[int(from)*l.page:])
}

// chain returns the pages from the start of a text to one of its pages, nil if one of them has gone: then no sequence
// can have these pages.
func (l *ledger) chain(id int32) []int32 {
	list := make([]int32, l.pages[id].index+1)
	for i := len(list) - 1; ; i-- {
		list[i] = id
		w := l.pages[id]
		switch {
		case i == 0:
			return list
		case w.before == noPage || l.pages[w.before].generation != w.since:
			return nil
		}
		id = w.before
	}
}

// tokens are those that a page holds.
func (l *ledger) tokens(id int32) []int32 { return l.ids[int(id)*l.page:][:l.pages[id].tokens] }
