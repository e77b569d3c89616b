package draft

import (
	"sync"
	"time"
)

// Costs learns the cost of passes with a few tokens, as multiples of a one-token pass. The zero value has measured
// nothing. Its methods may be called from any goroutine.
type Costs struct {
	mu     sync.Mutex
	one    float64 // seconds of a one-token pass; 0 = not measured
	passes int     // measured so far
	of     [Most + 2]cost
}

// cost of a pass with some number of tokens.
type cost struct {
	ratio   float64 // to a one-token pass
	samples int     // up to averaged
	last    int     // pass of the last sample
}

const (
	// assumed is the cost of one more token until it is measured: the knee of the curve of a two-core machine with fast
	// memory, so that guesses are tried where they are likely to be right.
	assumed  = 0.3
	averaged = 8
	// surprise bounds the influence of one sample, as a multiple of the expected value: other processes delay a pass at
	// times.
	surprise = 2
	// forgotten is the number of passes after which a measurement expires, so that one made on a busy machine is
	// repeated.
	forgotten = 256
)

// Learn records the time of a pass of some tokens, with logits after each of them.
func (c *Costs) Learn(tokens int, took time.Duration) {
	s := took.Seconds()
	if tokens < 1 || tokens > Most+1 || s <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passes++
	if c.one == 0 && tokens > 1 {
		return
	}
	if tokens == 1 && c.one > 0 {
		s = c.one + (min(s, surprise*c.one)-c.one)/averaged
	}
	if tokens == 1 || s < c.one { // a one-token pass takes no longer than a larger one
		c.one = s
	}
	if tokens == 1 {
		return
	}
	k, expected := &c.of[tokens], c.curve(tokens)
	if !c.known(tokens) {
		*k = cost{ratio: expected}
	}
	k.samples = min(k.samples+1, averaged)
	k.ratio += (min(s/c.one, surprise*expected) - k.ratio) / float64(k.samples)
	k.last = c.passes
}

// Of is the cost of a pass of at most Most+1 tokens, as a multiple of a one-token pass.
func (c *Costs) Of(tokens int) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.curve(tokens)
}

// One is the time of a one-token pass in seconds, 0 before one is measured.
func (c *Costs) One() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.one
}

// curve is monotone. Token counts that were not measured cost a little more than measured ones.
func (c *Costs) curve(tokens int) float64 {
	y := 1.0
	for n := 2; n <= tokens; n++ {
		if c.known(n) {
			y = max(y, c.of[n].ratio)
		} else {
			y += assumed
		}
	}
	return y
}

func (c *Costs) known(tokens int) bool {
	k := &c.of[tokens]
	return k.samples > 0 && c.passes-k.last < forgotten
}
