// Package prefix caches the KV pages of earlier sequences, so that a prompt with a known prefix is not prefilled from
// its start.
//
// It is a radix tree over KV cache pages: a node holds one page and its tokens, and the path to the node is the
// preceding text. Keys and values of a position depend only on the tokens up to it, and the engine computes the same
// bits in every batch, so a cached page equals a recomputed one bit for bit. In a model with recurrent layers a prefix
// is reused up to the last snapshot of their state in its pages (engine.Resume).
package prefix

import (
	"slices"

	"github.com/lowpack/lowpack/runtime/engine"
)

// Pager owns the pages; an *engine.Engine is one.
type Pager interface {
	PageTokens() int
	Release(...engine.Page)
	Shared(engine.Page) bool
	Resumes(engine.Page) bool
}

// Cache holds a tree per salt: sequences with different salts share nothing. It is not safe for concurrent use.
type Cache struct {
	pager Pager
	roots map[string]*node
	clock uint64
	pages int
}

// node is a page with its tokens. A node with less than a full page has no children.
type node struct {
	tokens   []int
	page     engine.Page
	children []*node
	used     uint64 // value of Cache.clock at the last use
}

// New returns an empty cache.
func New(p Pager) *Cache { return &Cache{pager: p, roots: map[string]*node{}} }

// Pages returns the number of pages in the cache.
func (c *Cache) Pages() int { return c.pages }

// Match returns the pages that hold the longest cached prefix of tokens, and its length. The cache keeps them until the
// next Insert or Evict.
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

// closest returns the child that shares the longest prefix with tokens.
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

// Insert takes ownership of the pages of a sequence and releases those that the cache already has.
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

// put returns the child of a node whose tokens start with the given ones. It adds the page if there is none, and drops
// children that are prefixes of it. Of two pages with the same tokens it keeps the one that a sequence can resume
// after: with recurrent layers, not all have a snapshot.
func (c *Cache) put(at *node, tokens []int, page engine.Page) *node {
	if known, common := at.closest(tokens); known != nil && common == len(tokens) {
		known.used = c.clock
		if common == len(known.tokens) && !c.pager.Resumes(known.page) && c.pager.Resumes(page) {
			known.page, page = page, known.page
		}
		c.pager.Release(page)
		return known
	}
	at.children = slices.DeleteFunc(at.children, func(child *node) bool {
		shorter := commonPrefix(child.tokens, tokens) == len(child.tokens) // a prefix of the new page
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

// Evict drops the least recently used leaf whose page no sequence shares; false = there is none, so no more pages can
// be freed.
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

// leaves calls f for all leaves below n.
func (n *node) leaves(f func(parent, leaf *node)) {
	for _, child := range n.children {
		if len(child.children) == 0 {
			f(n, child)
		} else {
			child.leaves(f)
		}
	}
}
