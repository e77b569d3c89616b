package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/lowpack/lowpack/internal/printable"
)

// plainEvery is how often progress is printed where no terminal can redraw a bar.
const plainEvery = 5 * time.Second

// progress shows how far a long piece of work is: a bar on a terminal, a plain line every few seconds elsewhere. It is
// safe for concurrent use.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	bar   *progressbar.ProgressBar // nil without a terminal
	what  string
	total int64
	last  time.Time
	show  func(int64) string // prints an amount
}

// newProgress counts bytes.
func newProgress(out io.Writer, what string) *progress {
	return &progress{out: out, what: what, last: time.Now(), show: size}
}

// newCounter counts things.
func newCounter(out io.Writer, what, things string) *progress {
	p := newProgress(out, what)
	p.show = func(n int64) string { return fmt.Sprintf("%d %s", n, things) }
	return p
}

// set reports how much of the total is done, and the thing at hand.
func (p *progress) set(done, total int64, at string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at = printable.Line(at)
	if isTerminal(p.out) {
		p.draw(done, total, at)
		return
	}
	if now := time.Now(); now.Sub(p.last) >= plainEvery {
		p.last = now
		fmt.Fprintf(p.out, "%s %3d%% (%s of %s) %s\n", p.what, percent(done, total), p.show(done), p.show(total), at)
	}
}

func (p *progress) draw(done, total int64, at string) {
	if p.bar == nil || p.total != total {
		p.total = total
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(drawing(p.out)),
			progressbar.OptionThrottle(80*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(20),
			progressbar.OptionSetPredictTime(true))
	}
	p.bar.Describe(p.label(done, total, at, width(p.out)))
	_ = p.bar.Set64(done) // drawing is best effort
}

// barColumns is what a bar takes beside its label: percentage, bar and times; and some columns that stay free, because a
// terminal echoes Ctrl-C behind the bar, and if that wraps, the line above cannot be cleared any more.
const barColumns = 44

// label says as much as fits into a terminal of this width beside a bar; a line that wraps would stay when the next is drawn.
func (p *progress) label(done, total int64, at string, width int) string {
	text := fmt.Sprintf("%s %s of %s", p.what, p.show(done), p.show(total))
	room := width - barColumns - len(text) - 1
	switch {
	case room < 0:
		return p.what
	case room < 12 || at == "":
		return text
	}
	return text + " " + shorten(at, min(room, 40))
}

// width is the number of columns of a terminal.
func width(w io.Writer) int {
	if f := fileOf(w); f != nil {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 80
}

// done removes the bar, so that what follows starts on a clean line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func percent(done, total int64) int64 {
	if total <= 0 {
		return 0
	}
	return done * 100 / total
}

// shorten keeps the end of a tensor name, which tells layers apart.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n+1:]
}
