package prefix

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/runtime/engine"
)

// pager counts the references to each page. engine.Page is opaque, so pages are identified by their order of creation.
type pager struct {
	size   int
	held   map[engine.Page]int
	shared map[engine.Page]bool
}

func (p *pager) PageTokens() int { return p.size }
func (p *pager) Release(pages ...engine.Page) {
	for _, x := range pages {
		if p.held[x]--; p.held[x] < 0 {
			panic("released twice")
		}
	}
}
func (p *pager) Shared(x engine.Page) bool { return p.shared[x] }
func (p *pager) Resumes(engine.Page) bool  { return true }

// total returns the number of references to all pages.
func (p *pager) total() (n int) {
	for _, k := range p.held {
		n += k
	}
	return n
}

// give creates the pages of n tokens. They look the same from outside, because a test cannot create different ones.
func (p *pager) give(n int) []engine.Page {
	pages := make([]engine.Page, (n+p.size-1)/p.size)
	for i := range pages {
		p.held[pages[i]]++
	}
	return pages
}

func newPager(size int) *pager {
	return &pager{size: size, held: map[engine.Page]int{}, shared: map[engine.Page]bool{}}
}

// TestMatch compares with a search through all inserted sequences.
func TestMatch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := newPager(4)
	c := New(p)
	texts := map[string][][]int{}
	for round := range 3000 {
		text := make([]int, 1+r.IntN(20))
		for i := range text {
			text[i] = r.IntN(2)
		}
		salt := []string{"", "a"}[r.IntN(2)]
		want := 0
		for _, known := range texts[salt] {
			want = max(want, commonPrefix(known, text))
		}
		pages, n := c.Match(salt, text)
		if n != want || len(pages) != (n+3)/4 {
			t.Fatalf("round %d: %d tokens in %d pages, want %d", round, n, len(pages), want)
		}
		if round%3 == 0 {
			c.Insert(salt, text, p.give(len(text)))
			texts[salt] = append(texts[salt], text)
		}
		if c.Pages() != p.total() {
			t.Fatalf("round %d: %d pages are held, the cache counts %d", round, p.total(), c.Pages())
		}
	}
	for c.Evict() {
	}
	if c.Pages() != 0 || p.total() != 0 || len(c.roots) != 0 {
		t.Errorf("%d pages, %d holds and %d roots remain", c.Pages(), p.total(), len(c.roots))
	}
}

// TestEvict: eviction is least recently used first, the end of a sequence goes before its start, and a page shared with
// a sequence stays.
func TestEvict(t *testing.T) {
	p := newPager(2)
	c := New(p)
	for _, text := range [][]int{{1, 1, 1, 1, 1}, {2, 2, 2}, {3, 3}} {
		c.Insert("", text, p.give(len(text)))
	}
	c.Match("", []int{1, 1, 1, 1, 1})
	left := func() (n [3]int) {
		for i := range n {
			for _, child := range c.roots[""].children {
				for ; child != nil && child.tokens[0] == i+1; n[i]++ {
					if len(child.children) == 0 {
						n[i]++
						break
					}
					child = child.children[0]
				}
			}
		}
		return n
	}
	var steps [][3]int
	for range 5 {
		if !c.Evict() {
			t.Fatal("nothing to evict")
		}
		steps = append(steps, left())
	}
	want := [][3]int{{3, 1, 1}, {3, 0, 1}, {3, 0, 0}, {2, 0, 0}, {1, 0, 0}}
	if !slices.Equal(steps, want) {
		t.Errorf("%v, want %v", steps, want)
	}
	p.shared[engine.Page{}] = true
	if c.Evict() {
		t.Error("evicted a page that a sequence shares")
	}
}
