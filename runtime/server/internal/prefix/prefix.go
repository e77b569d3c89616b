// Package prefix remembers the KV cache of texts, so that a text that begins like an earlier one need not be
// computed from its beginning.
//
// It is a radix tree over pages of the KV cache: a node has one page and the tokens in it, and the path to it is the
// text before them. Keys and values of a position depend on the tokens up to it alone, and the engine computes the same
// bits in every batch, so what comes out of the tree is bit for bit what would be computed again.
package prefix

import (
	"slices"

	"github.com/lowpack/lowpack/runtime/engine"
)

// Pager owns the pages: an *engine.Engine.
type Pager interface {
	PageTokens() int
	Release(...engine.Page)
	Shared(engine.Page) bool
}

// Cache is a tree per salt: texts with different salts share nothing. It is not safe for concurrent use.
type Cache struct {
	pager Pager
	roots map[string]*node
	clock uint64
	pages int
}

// node is a page of tokens behind those of its parents. One that is not full has no children.
type node struct {
	tokens   []int
	page     engine.Page
	children []*node
	used     uint64 // clock
}

// New returns an empty cache.
func New(p Pager) *Cache { return &Cache{pager: p, roots: map[string]*node{}} }

// Pages is the number of pages that the cache holds.
func (c *Cache) Pages() int { return c.pages }

// Match returns the pages that hold the longest known beginning of a text, and the length of that. They stay held by
// the cache until the next Insert or Evict.
func (c *Cache) Match(salt string, tokens []int) (pages []engine.Page, n int) {
	c.clock++
	at := c.roots[salt]
	for at != nil && n < len(tokens) {
		next, common := at.closest(tokens[n:])
		if common == 0 {
			break
		}
		next.used = c.clock
		pages, n = append(pages, next.page), n+common
		if common < c.pager.PageTokens() {
			break
		}
		at = next
	}
	return pages, n
}

// closest is the child that has the most tokens in common with the beginning of a text.
func (n *node) closest(tokens []int) (best *node, common int) {
	for _, child := range n.children {
		if k := commonPrefix(child.tokens, tokens); k > common {
			best, common = child, k
		}
	}
	return best, common
}

func commonPrefix(a, b []int) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Insert takes over the pages of a text, which the caller holds; those that it knows already are released.
func (c *Cache) Insert(salt string, tokens []int, pages []engine.Page) {
	c.clock++
	at := c.roots[salt]
	if at == nil {
		at = &node{}
		c.roots[salt] = at
	}
	for _, page := range pages {
		n := min(c.pager.PageTokens(), len(tokens))
		at = c.put(at, tokens[:n], page)
		tokens = tokens[n:]
	}
}

// put returns the child of a node that has the given tokens, with others behind them if they do not fill a page.
func (c *Cache) put(at *node, tokens []int, page engine.Page) *node {
	if known, common := at.closest(tokens); known != nil && common == len(tokens) {
		known.used = c.clock
		c.pager.Release(page)
		return known
	}
	at.children = slices.DeleteFunc(at.children, func(child *node) bool {
		shorter := commonPrefix(child.tokens, tokens) == len(child.tokens) // a part of what comes now
		if shorter {
			c.drop(child)
		}
		return shorter
	})
	next := &node{tokens: slices.Clone(tokens), page: page, used: c.clock}
	at.children = append(at.children, next)
	c.pages++
	return next
}

func (c *Cache) drop(n *node) {
	c.pager.Release(n.page)
	c.pages--
}

// Evict forgets the end of the text that was not used for the longest time, of those whose page no sequence shares. It
// reports false where there is none: then nothing more can be freed.
func (c *Cache) Evict() bool {
	var oldest, parent *node
	salt := ""
	for s, root := range c.roots {
		root.leaves(func(p, leaf *node) {
			if (oldest == nil || leaf.used < oldest.used) && !c.pager.Shared(leaf.page) {
				oldest, parent, salt = leaf, p, s
			}
		})
	}
	if oldest == nil {
		return false
	}
	c.drop(oldest)
	parent.children = slices.DeleteFunc(parent.children, func(n *node) bool { return n == oldest })
	if root := c.roots[salt]; len(root.children) == 0 {
		delete(c.roots, salt)
	}
	return true
}

// leaves calls f for all nodes below n that have no children.
func (n *node) leaves(f func(parent, leaf *node)) {
	for _, child := range n.children {
		if len(child.children) == 0 {
			f(n, child)
		} else {
			child.leaves(f)
		}
	}
}
