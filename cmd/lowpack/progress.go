package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/lowpack/lowpack/internal/printable"
)

const (
	drawAfter = 300 * time.Millisecond // shorter work shows no bar, which would only flicker
	drawEvery = 80 * time.Millisecond
	rateAfter = time.Second // of a phase; before that, rate and remaining time would be guesses
)

// Without a terminal that can redraw a bar, lines are printed: the first after some seconds, the next ones after
// further progress, with a minimum interval and a maximum one, because some systems kill silent jobs.
const (
	plainFirst  = 5 * time.Second
	plainEvery  = 10 * time.Second
	plainShare  = 10 // per cent of a phase
	plainLatest = time.Minute
)

// unit prints an amount of work.
type unit func(int64) string

// things counts pieces of work.
func things(name string) unit {
	return func(n int64) string { return fmt.Sprintf("%d %s", n, name) }
}

// weightsDone prints the number of weights that golden outputs have been computed with.
func weightsDone(n int64) string { return fmt.Sprintf("%.1f M weights", float64(n)/1e6) }

// progress shows how far a long piece of work is, how fast it goes and how long it will take: a bar on a terminal,
// plain lines elsewhere. Work has phases, each with a total, a rate and a remaining time of its own. It is safe
// for concurrent use.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	what  string
	unit  unit
	now   func() time.Time
	began time.Time
	last  time.Time                // something was shown
	bar   *progressbar.ProgressBar // of this phase; nil until it is drawn

	shown *snapshot // by the last line; nil = none in this phase
	phase string    // this one
	total int64     // of this phase, and where and when it began
	first int64
	since time.Time
}

// newProgress counts bytes.
func newProgress(out io.Writer, what string) *progress { return newCounter(out, what, size) }

// newCounter returns a progress in the given unit.
func newCounter(out io.Writer, what string, u unit) *progress {
	start := time.Now()
	return &progress{out: out, what: what, unit: u, now: time.Now, began: start, last: start}
}

// set reports how much of the total is done, and the thing at hand.
func (p *progress) set(done, total int64, at string) {
	p.show(&snapshot{what: p.what, unit: p.unit, done: done, total: total, at: printable.Line(at)})
}

// setIn is set for a phase with a name and its own unit.
func (p *progress) setIn(u unit, done, total int64, phase string) {
	p.show(&snapshot{what: p.what + ": " + printable.Line(phase), unit: u, done: done, total: total})
}

// show shows a state, if it is due. A new name or total begins a new phase.
func (p *progress) show(s *snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if s.what != p.phase || s.total != p.total || s.done < p.first {
		p.phase, p.total, p.first, p.since, p.shown = s.what, s.total, s.done, now, nil
		p.clear()
	}
	if took := now.Sub(p.since); took >= rateAfter {
		s.perSecond = float64(s.done-p.first) / took.Seconds()
	}
	switch since := now.Sub(p.last); {
	case !redraws(p.out):
		if p.due(s, since) {
			p.last, p.shown = now, s
			fmt.Fprintln(p.out, s.line(0))
		}
	case now.Sub(p.began) >= drawAfter && since >= drawEvery:
		p.last = now
		p.draw(s)
	}
}

// due reports whether to print a line, at the given time since the previous one.
func (p *progress) due(s *snapshot, since time.Duration) bool {
	switch {
	case p.last.Equal(p.began): // nothing was shown
		return since >= plainFirst
	case p.shown == nil:
		return since >= plainEvery
	}
	more := percent(s.done, s.total)-percent(p.shown.done, p.shown.total) >= plainShare
	return more && since >= plainEvery || since >= plainLatest
}

// draw draws the bar, with the text that fits next to it.
func (p *progress) draw(s *snapshot) {
	label := s.line(max(1, width(p.out)-barColumns))
	if p.bar != nil {
		p.bar.Describe(label)
	} else {
		p.bar = progressbar.NewOptions64(s.total, progressbar.OptionSetWriter(drawing(p.out)),
			progressbar.OptionSetWidth(20),
			progressbar.OptionSetDescription(label), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerPadding: "░", BarStart: " ", BarEnd: " "}))
	}
	_ = p.bar.Set64(s.done) // drawing is best effort
}

// clear removes the bar.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

// done removes the bar, so that further output starts on a clean line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// barColumns is the width of a bar without its text: the percentage and the bar; and some columns that stay free,
// because a terminal echoes Ctrl-C after the bar, and if that wraps, the line above can no longer be cleared.
const barColumns = 34

// snapshot is the state of a piece of work.
type snapshot struct {
	what        string
	unit        unit
	done, total int64
	perSecond   float64 // 0 = not known yet
	at          string  // the thing at hand
}

// line formats as much as fits in the columns next to a bar; everything, with the percentage, for 0 columns. The least
// important part is dropped first: the current item, then the amount, the rate, the remaining time.
func (s *snapshot) line(columns int) string {
	share := ""
	if columns == 0 {
		share = fmt.Sprintf("%3d%%", percent(s.done, s.total))
	}
	fields := []struct {
		text string
		rank int // 0 is left out last
	}{
		{s.what, 0}, {share, 1}, {s.unit(s.done) + " of " + s.unit(s.total), 4}, {s.rate(), 3},
		{s.remaining(), 2}, {s.at, 5},
	}
	for rank := 5; ; rank-- {
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
		if room := columns - (n - utf8.RuneCountInString(s.at)); rank == 5 && room >= 12 {
			return strings.TrimSuffix(line, s.at) + shorten(s.at, room)
		}
	}
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

// duration formats seconds for people.
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

// shorten keeps the end of a tensor name, which identifies the layer.
func shorten(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return "…" + string(runes[len(runes)-n+1:])
}
