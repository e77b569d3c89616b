package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var busy = snapshot{what: "convert", unit: size, done: 123_456_789, total: 9_876_543_210, perSecond: 45_000_000,
	at: "model.layers.17.self_attn.q_proj.weight"}

// TestProgressLine: the text fits next to a bar, and drops the least important part first.
func TestProgressLine(t *testing.T) {
	for width := 1; width < 200; width++ {
		line := busy.line(width)
		if n := utf8.RuneCountInString(line); line != "convert" && n > width {
			t.Errorf("%d columns: a line of %d: %q", width, n, line)
		}
	}
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, "convert    1%  123.5 MB of 9876.5 MB  45.0 MB/s  217 s left  model.layers.17.self_attn.q_proj.weight"},
		{200, "convert  123.5 MB of 9876.5 MB  45.0 MB/s  217 s left  model.layers.17.self_attn.q_proj.weight"},
		{72, "convert  123.5 MB of 9876.5 MB  45.0 MB/s  217 s left  …tn.q_proj.weight"},
		{57, "convert  123.5 MB of 9876.5 MB  45.0 MB/s  217 s left"},
		{30, "convert  45.0 MB/s  217 s left"},
		{12, "convert"},
	} {
		want := strings.ReplaceAll(c.want, "217 s", "4 min")
		if line := busy.line(c.width); line != want {
			t.Errorf("%d columns: %q, want %q", c.width, line, want)
		}
	}
	slow := snapshot{what: "bench", unit: things("measurements"), done: 3, total: 12, perSecond: 0.5}
	want := "bench   25%  3 measurements of 12 measurements  0.5 measurements/s  18 s left"
	if line := slow.line(0); line != want {
		t.Errorf("%q, want %q", line, want)
	}
}

func TestDuration(t *testing.T) {
	for seconds, want := range map[float64]string{0.2: "0 s", 119: "119 s", 120: "2 min", 7199: "120 min",
		7200: "2 h 0 min", 90000: "25 h 0 min", 1e9: "days"} {
		if got := duration(seconds); got != want {
			t.Errorf("%v: %q, want %q", seconds, got, want)
		}
	}
}

// TestProgressPlain: lines if nothing can be redrawn: none in the first seconds, then after another tenth and some
// seconds, or at the latest after a minute. A rate covers the current phase only: work done before a resume does not
// count.
func TestProgressPlain(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, "pull")
	start := p.began
	at := func(seconds float64, u unit, done, total int64) {
		p.now = func() time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
		if u == nil {
			p.set(done, total, "x")
		} else {
			p.setIn(u, done, total, "golden")
		}
	}
	at(0, nil, 50_000_000, 100_000_000)
	at(4.9, nil, 55_000_000, 100_000_000)
	at(5, nil, 60_000_000, 100_000_000)
	at(8, nil, 80_000_000, 100_000_000)
	at(14.9, nil, 85_000_000, 100_000_000)
	at(15, nil, 90_000_000, 100_000_000)
	at(20, weightsDone, 0, 3_000_000)
	at(25, weightsDone, 0, 3_000_000)
	at(40, weightsDone, 200_000, 3_000_000)
	at(45, weightsDone, 1_000_000, 3_000_000)
	at(104, weightsDone, 1_000_000, 3_000_000)
	at(105, weightsDone, 1_000_000, 3_000_000)
	p.done()
	want := "pull   60%  60.0 MB of 100.0 MB  2000.0 kB/s  20 s left  x\n" +
		"pull   90%  90.0 MB of 100.0 MB  2666.7 kB/s  4 s left  x\n" +
		"pull: golden    0%  0.0 M weights of 3.0 M weights\n" +
		"pull: golden   33%  1.0 M weights of 3.0 M weights  0.0 M weights/s  50 s left\n" +
		"pull: golden   33%  1.0 M weights of 3.0 M weights  0.0 M weights/s  3 min left\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

// TestProgressPhase: a phase with the same total as the one before has a rate of its own, and lines from its beginning.
func TestProgressPhase(t *testing.T) {
	var out bytes.Buffer
	p := newCounter(&out, "eval", things("questions"))
	at := func(seconds int) {
		p.now = func() time.Time { return p.began.Add(time.Duration(seconds) * time.Second) }
	}
	for i := range 11 {
		at(i)
		p.setIn(things("questions"), int64(1+9*i), 100, "tokenize")
	}
	for i := range 11 {
		at(11 + i)
		p.set(int64(1+i), 100, "")
	}
	want := "eval: tokenize   46%  46 questions of 100 questions  9.0 questions/s  6 s left\n" +
		"eval    5%  5 questions of 100 questions  1.0 questions/s  95 s left\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}
