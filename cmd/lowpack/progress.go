package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/lowpack/lowpack/internal/printable"
)

const (
	drawAfter  = 300 * time.Millisecond // shorter work shows no bar, which would only flicker
	drawEvery  = 80 * time.Millisecond
	plainEvery = 5 * time.Second // how often a line is printed where no terminal can redraw a bar
	rateAfter  = time.Second     // of a phase; before that, rate and remaining time would be guesses
)

// unit prints an amount of work.
type unit func(int64) string

// things counts pieces of work.
func things(name string) unit {
	return func(n int64) string { return fmt.Sprintf("%d %s", n, name) }
}

// weightsDone counts what golden outputs are computed with.
func weightsDone(n int64) string { return fmt.Sprintf("%.1f M weights", float64(n)/1e6) }

// progress shows how far a long piece of work is, how fast it goes and how long it will take: a bar on a terminal, a plain
// line every few seconds elsewhere. Work has phases, each with a total, a rate and a remaining time of its own. It is safe
// for concurrent use.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	what  string
	unit  unit
	now   func() time.Time
	began time.Time
	last  time.Time // something was shown
	drawn int       // columns of the bar on the screen

	total int64 // of this phase, and where and when it began
	first int64
	since time.Time
}

// newProgress counts bytes.
func newProgress(out io.Writer, what string) *progress { return newCounter(out, what, size) }

// newCounter counts what the unit prints.
func newCounter(out io.Writer, what string, u unit) *progress {
	start := time.Now()
	return &progress{out: out, what: what, unit: u, now: time.Now, began: start, last: start}
}

// set reports how much of the total is done, and the thing at hand.
func (p *progress) set(done, total int64, at string) {
	p.show(&snapshot{what: p.what, unit: p.unit, done: done, total: total, at: printable.Line(at)})
}

// setIn is set for a phase with a name and a unit of its own.
func (p *progress) setIn(u unit, done, total int64, phase string) {
	p.show(&snapshot{what: p.what + ": " + printable.Line(phase), unit: u, done: done, total: total})
}

// show shows a state, if it is time to. A new total begins a new phase.
func (p *progress) show(s *snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if s.total != p.total || s.done < p.first {
		p.total, p.first, p.since = s.total, s.done, now
	}
	if took := now.Sub(p.since); took >= rateAfter {
		s.perSecond = float64(s.done-p.first) / took.Seconds()
	}
	switch since := now.Sub(p.last); {
	case !redraws(p.out):
		if since >= plainEvery {
			p.last = now
			fmt.Fprintln(p.out, s.line(0))
		}
	case now.Sub(p.began) >= drawAfter && since >= drawEvery:
		p.last = now
		p.draw(s.line(width(p.out) - echo))
	}
}

// draw writes a line over the one before. Blanks clear the rest, which every terminal understands.
func (p *progress) draw(line string) {
	n := utf8.RuneCountInString(line)
	fmt.Fprint(drawing(p.out), "\r"+line+strings.Repeat(" ", max(0, p.drawn-n)))
	p.drawn = n
}

// done removes the bar, so that what follows starts on a clean line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn > 0 {
		p.draw("")
		fmt.Fprint(drawing(p.out), "\r")
	}
}

// echo is the number of columns that stay free, because a terminal echoes Ctrl-C behind the bar, and if that wraps, the
// line above cannot be cleared any more.
const echo = 4

// snapshot is the state of a piece of work.
type snapshot struct {
	what        string
	unit        unit
	done, total int64
	perSecond   float64 // 0 = not known yet
	at          string  // the thing at hand
}

// line says as much as fits into the columns of a terminal, with a bar; everything, without a bar, for 0 columns. What
// matters least is left out first: the thing at hand, the bar, the amount, the rate, the remaining time.
func (s *snapshot) line(columns int) string {
	fields := []struct {
		text string
		rank int // 0 is left out last
	}{
		{s.what, 0}, {fmt.Sprintf("%3d%%", percent(s.done, s.total)), 1}, {s.bar(columns), 5},
		{s.unit(s.done) + " of " + s.unit(s.total), 4}, {s.rate(), 3}, {s.remaining(), 2}, {s.at, 6},
	}
	for rank := 6; ; rank-- {
		var words []string
		for _, f := range fields {
			if f.rank <= rank && f.text != "" {
				words = append(words, f.text)
			}
		}
		line := strings.Join(words, "  ")
		n := utf8.RuneCountInString(line)
		if columns == 0 || n <= columns || rank == 0 {
			return line
		}
		if room := columns - (n - utf8.RuneCountInString(s.at)); rank == 6 && room >= 12 {
			return strings.TrimSuffix(line, s.at) + shorten(s.at, room)
		}
	}
}

const barColumns = 20

func (s *snapshot) bar(columns int) string {
	if columns == 0 {
		return ""
	}
	full := int(min(max(percent(s.done, s.total), 0), 100)) * barColumns / 100
	return strings.Repeat("█", full) + strings.Repeat("░", barColumns-full)
}

func (s *snapshot) rate() string {
	switch {
	case s.perSecond <= 0:
		return ""
	case s.perSecond < 10: // slow things have a fraction: 0.4 measurements/s
		_, name, _ := strings.Cut(s.unit(0), " ")
		return fmt.Sprintf("%.1f %s/s", s.perSecond, name)
	}
	return s.unit(int64(s.perSecond)) + "/s"
}

func (s *snapshot) remaining() string {
	if s.perSecond <= 0 || s.done >= s.total {
		return ""
	}
	return duration(float64(s.total-s.done)/s.perSecond) + " left"
}

// duration prints seconds as people say them.
func duration(seconds float64) string {
	switch n := int64(seconds + 0.5); {
	case n < 120:
		return fmt.Sprintf("%d s", n)
	case n < 7200:
		return fmt.Sprintf("%d min", (n+30)/60)
	case n < 100*3600:
		return fmt.Sprintf("%d h %d min", n/3600, n%3600/60)
	}
	return "days"
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

func percent(done, total int64) int64 {
	if total <= 0 {
		return 0
	}
	return int64(float64(done) / float64(total) * 100)
}

// shorten keeps the end of a tensor name, which tells layers apart.
func shorten(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return "…" + string(runes[len(runes)-n+1:])
}
