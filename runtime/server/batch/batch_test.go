package batch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/pack"
)

// urls are those of the tests.
var urls = []string{"/v1/a", "/v1/b"}

// input returns n requests; every fifth is answered with status 400.
func input(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id": "id %d", "method": "POST", "url": %q, "body": {"n": %d, "pad": %q}}`+"\n", i,
			urls[i%2], i, strings.Repeat("x", i*7%300))
	}
	return b.String()
}

// answer answers a request of input.
func answer(_ context.Context, q *Request) (Answer, error) {
	a := Answer{Status: 200, Body: fmt.Appendf(nil, `{"url":%q,"of":%s}`, q.URL, q.Body), Tokens: 1, PromptTokens: 2}
	if q.Line%5 == 4 {
		a.Status = 400
	}
	return a, nil
}

// files are the options of a batch in a directory of its own.
func files(t *testing.T, text string) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{Input: filepath.Join(dir, "in.jsonl"), Output: filepath.Join(dir, "out.jsonl"),
		Errors: filepath.Join(dir, "errors.jsonl"), URLs: urls, Answer: answer, Parallel: 3, Key: "k"}
	if err := os.WriteFile(o.Input, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

// results returns output and errors, and fails if anything else is left.
func results(t *testing.T, o Options) string {
	t.Helper()
	out, err := os.ReadFile(o.Output)
	errs, err2 := os.ReadFile(o.Errors)
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(o.Output)); len(left) != 3 {
		t.Errorf("left behind: %v", left)
	}
	return string(out) + "errors:\n" + string(errs)
}

// whole runs a batch without an interruption.
func whole(t *testing.T, o Options) string {
	t.Helper()
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return results(t, o)
}

// TestResults: results are in the order of the input, with each request once, for any number of requests at once and in
// whichever order these are answered.
func TestResults(t *testing.T) {
	const n = 100
	text := input(n)
	want := whole(t, files(t, text))
	out, errs, _ := strings.Cut(want, "errors:\n")
	if good, bad := strings.Count(out, "\n"), strings.Count(errs, "\n"); good != n*4/5 || bad != n/5 {
		t.Fatalf("%d answers and %d errors", good, bad)
	}
	last := -1
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		i := 0
		_, after, _ := strings.Cut(line, `"custom_id":"id `)
		if fmt.Sscanf(after, "%d", &i); i <= last || !strings.Contains(line, fmt.Sprintf(`"of":{"n":%d,`, i)) {
			t.Errorf("after %d: %s", last, line)
		}
		last = i
	}
	for _, parallel := range []int{1, 2, 16} {
		o := files(t, text)
		o.Parallel = parallel
		var held []chan struct{} // answers are let go backwards, as many at a time as are computed at once
		var mu sync.Mutex
		var begun atomic.Int64
		o.Answer = func(ctx context.Context, q *Request) (Answer, error) {
			mine := make(chan struct{})
			mu.Lock()
			held = append(held, mine)
			if full := len(held) == parallel || int(begun.Add(1)) > n-parallel; full {
				for i := range held {
					close(held[len(held)-1-i])
				}
				held = nil
			}
			mu.Unlock()
			<-mine
			return answer(ctx, q)
		}
		if got := whole(t, o); got != want {
			t.Errorf("%d at once: other results", parallel)
		}
	}
}

// TestInterrupted: a batch that is interrupted at random moments continues with what is missing, and its results are
// those of one that was not.
func TestInterrupted(t *testing.T) {
	random := seed.Rand(t)
	text := input(60)
	want := whole(t, files(t, text))
	for range 6 {
		o := files(t, text)
		var kept sync.Map
		for round := 0; ; round++ {
			ctx, cancel := context.WithCancel(t.Context())
			left := atomic.Int64{}
			left.Store(random.Int64N(30))
			o.Answer = func(ctx context.Context, q *Request) (Answer, error) {
				if left.Add(-1) < 0 {
					cancel()
				}
				if ctx.Err() != nil {
					return Answer{}, ctx.Err()
				}
				if _, again := kept.LoadOrStore(q.Line, true); again {
					t.Errorf("request %d was answered twice", q.Line)
				}
				return answer(ctx, q)
			}
			c, err := Run(ctx, o)
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, ErrInterrupted) || !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			n := 0
			kept.Range(func(any, any) bool { n++; return true })
			if c.Completed+c.Failed != n || c.Total != 60 {
				t.Fatalf("%+v after %d answers", c, n)
			}
		}
		if got := results(t, o); got != want {
			t.Fatal("other results")
		}
	}
}

// journalOf returns the journal of a batch that was interrupted behind its last answer.
func journalOf(t *testing.T, text string) []byte {
	t.Helper()
	o := files(t, text)
	n, all := 0, strings.Count(text, "\n")
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(Progress) {
		if n++; n > all {
			cancel()
		}
	}
	o.Answer = func(_ context.Context, q *Request) (Answer, error) { return answer(t.Context(), q) }
	o.Errors = filepath.Join(o.Errors, "no such directory")
	if _, err := Run(ctx, o); err == nil {
		t.Fatal("no error")
	}
	data, err := os.ReadFile(atomicfile.ResumePath(o.Output))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestDamaged: of a journal that is cut at any byte, or has a wrong one, the answers before the damage are kept and no
// others; the results are the same.
func TestDamaged(t *testing.T) {
	text := input(12)
	journal := journalOf(t, text)
	begin := bytes.IndexByte(journal, '\n') + 1
	h := header{journalVersion, sha256.Sum256([]byte(text)), "k"}
	ends := []int{begin}
	for i := begin; i < len(journal); i++ {
		if journal[i] == '\n' {
			ends = append(ends, i+1)
		}
	}
	target := filepath.Join(t.TempDir(), "out")
	restored := func(name string, damaged []byte, at int) {
		t.Helper()
		if err := os.WriteFile(atomicfile.ResumePath(target), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(target, h, 12)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer j.close()
		whole := 0
		for whole+1 < len(ends) && ends[whole+1] <= at {
			whole++
		}
		if n := j.progress.Completed + j.progress.Failed; n != whole || j.end != int64(ends[whole]) {
			t.Errorf("%s: %d answers up to byte %d, want %d up to %d", name, n, j.end, whole, ends[whole])
		}
		if now, _ := os.ReadFile(atomicfile.ResumePath(target)); !bytes.Equal(now, journal[:j.end]) {
			t.Errorf("%s: the journal has %d bytes", name, len(now))
		}
	}
	for n := range len(journal) {
		restored(fmt.Sprintf("cut at byte %d", n), journal[:n], n)
	}
	random := seed.Rand(t)
	for range 500 {
		at := begin + random.IntN(len(journal)-begin)
		damaged := bytes.Clone(journal)
		damaged[at] ^= byte(1 + random.IntN(255))
		restored(fmt.Sprintf("byte %d is %#x", at, damaged[at]), damaged, at)
	}
	restored("a block of zeros", append(bytes.Clone(journal), make([]byte, 4096)...), len(journal))
	restored("an answer twice", append(bytes.Clone(journal), journal[begin:]...), len(journal))

	want := whole(t, files(t, text))
	for _, n := range []int{0, 20, begin, begin + 100, len(journal) - 1, len(journal)} {
		o := files(t, text)
		if err := os.WriteFile(atomicfile.ResumePath(o.Output), journal[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := whole(t, o); got != want {
			t.Errorf("cut at byte %d: other results", n)
		}
	}
}

// TestOtherJournal: answers to other requests, or under another key, are neither used nor removed.
func TestOtherJournal(t *testing.T) {
	journal := journalOf(t, input(12))
	for name, change := range map[string]func(*Options){
		"input": func(o *Options) { os.WriteFile(o.Input, []byte(input(13)), 0o600) },
		"key":   func(o *Options) { o.Key = "other" },
	} {
		o := files(t, input(12))
		change(&o)
		path := atomicfile.ResumePath(o.Output)
		if err := os.WriteFile(path, journal, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Run(t.Context(), o)
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, journal) {
			t.Errorf("%s: the journal was changed", name)
		}
	}
}

// TestTwo: a second process at the same output is refused.
func TestTwo(t *testing.T) {
	o := files(t, input(3))
	inner := o
	o.Answer = func(ctx context.Context, q *Request) (Answer, error) {
		if _, err := Run(ctx, inner); err == nil || !strings.Contains(err.Error(), "another process is writing") {
			t.Errorf("%v", err)
		}
		return answer(ctx, q)
	}
	whole(t, o)
}

// TestFaults: a line that is no request is refused with its number, its key and OpenAI's code, and nothing is answered.
func TestFaults(t *testing.T) {
	good := `{"custom_id": "a", "method": "POST", "url": "/v1/a", "body": {"model": "m"}}`
	with := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	for _, c := range []struct {
		text, code, param string
		line              int
	}{
		{"", EmptyFile, "", 0},
		{good + "\n\n", InvalidJSON, "", 2},
		{"nothing", InvalidJSON, "", 1},
		{"[]", InvalidJSON, "", 1},
		{with(`{"model"`, `{"x": 1, "x": 2, "model"`), InvalidJSON, "", 1},
		{with("{", "\xff{"), InvalidJSON, "", 1},
		{with(`"custom_id": "a", `, ""), MissingKey, "custom_id", 1},
		{with(`"method": "POST", `, ""), MissingKey, "method", 1},
		{with(`"url": "/v1/a", `, ""), MissingKey, "url", 1},
		{with(`, "body": {"model": "m"}`, ""), MissingKey, "body", 1},
		{with(`"method"`, `"note": 1, "method"`), UnknownKey, "note", 1},
		{with(`"a"`, `7`), InvalidValue, "custom_id", 1},
		{with(`"a"`, `""`), InvalidValue, "custom_id", 1},
		{with(`"a"`, `"`+strings.Repeat("a", maxID+1)+`"`), InvalidValue, "custom_id", 1},
		{with("POST", "GET"), InvalidMethod, "method", 1},
		{with("/v1/a", "/v1/c"), InvalidURL, "url", 1},
		{with(`{"model": "m"}`, `[]`), InvalidValue, "body", 1},
		{good + "\n" + with(`"a"`, `"b"`) + "\n" + with(`"a"`, `"\u0061"`), DuplicateID, "custom_id", 3},
		{good + "\n" + with(`"a"`, `"b"`) + "\n" + strings.Repeat(" ", maxLine) + good + "\n", LongLine, "", 3},
	} {
		o := files(t, c.text)
		o.ByModel = true
		o.Answer = func(context.Context, *Request) (Answer, error) { t.Error("answered"); return Answer{}, nil }
		_, err := Run(t.Context(), o)
		var e *InputError
		if !errors.As(err, &e) || len(e.Faults) != 1 || !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%.80q: %v", c.text, err)
			continue
		}
		if f := e.Faults[0]; f.Code != c.code || f.Param != c.param || f.Line != c.line || f.Message == "" {
			t.Errorf("%.80q: %+v, want %s, %s, line %d", c.text, f, c.code, c.param, c.line)
		}
		if left, _ := os.ReadDir(filepath.Dir(o.Input)); len(left) != 1 {
			t.Errorf("%.80q: left behind %v", c.text, left)
		}
	}
	o := files(t, strings.Repeat("x\n", 250))
	_, err := Run(t.Context(), o)
	var e *InputError
	if !errors.As(err, &e) || len(e.Faults) != maxFaults || e.More != 150 ||
		!strings.Contains(err.Error(), "150 more") {
		t.Errorf("%v", err)
	}
}

// TestLastLine: a last line without an end is a request, and a file with ends of Windows the same requests.
func TestLastLine(t *testing.T) {
	text := input(7)
	want := whole(t, files(t, text))
	for _, other := range []string{strings.TrimSuffix(text, "\n"), strings.ReplaceAll(text, "\n", "\r\n")} {
		if got := whole(t, files(t, other)); got != want {
			t.Errorf("%q: other results", other[len(other)-10:])
		}
	}
}

// TestChanged: an input that changes while it is answered ends the batch without results.
func TestChanged(t *testing.T) {
	text := input(40)
	for name, changed := range map[string]string{
		"other":   strings.Replace(text, `"n": 39`, `"n": 93`, 1),
		"longer":  text + input(1),
		"shorter": input(39),
		"no JSON": strings.Replace(text, `"custom_id": "id 39"`, `"custom_id":: "id 3"`, 1),
	} {
		o := files(t, strings.ReplaceAll(text, `"pad": "`, `"pad": "`+strings.Repeat("y", 1<<16)))
		changed = strings.ReplaceAll(changed, `"pad": "`, `"pad": "`+strings.Repeat("y", 1<<16))
		o.Parallel = 1 // others would read all of it while the first one changes it
		o.Answer = func(ctx context.Context, q *Request) (Answer, error) {
			if q.Line == 0 {
				if err := os.WriteFile(o.Input, []byte(changed), 0o600); err != nil {
					t.Error(err)
				}
			}
			return answer(ctx, q)
		}
		if _, err := Run(t.Context(), o); !errors.Is(err, errChanged) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(o.Output); err == nil {
			t.Errorf("%s: there are results", name)
		}
	}
}

// TestInputKept: an output is not written over the input, by whichever name.
func TestInputKept(t *testing.T) {
	for _, change := range []func(o *Options, link string){
		func(o *Options, _ string) { o.Output = o.Input },
		func(o *Options, _ string) { o.Errors = o.Input },
		func(o *Options, link string) { o.Errors = link },
	} {
		o := files(t, input(3))
		link := o.Input + ".link"
		if err := os.Link(o.Input, link); err != nil {
			t.Fatal(err)
		}
		change(&o, link)
		if _, err := Run(t.Context(), o); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%v", err)
		}
		if now, _ := os.ReadFile(o.Input); string(now) != input(3) {
			t.Error("the input was changed")
		}
	}
}

// generated is a file of requests that never is in memory, and notes the largest heap while it is read.
type generated struct {
	lines, next int
	rest        string
	most        uint64
}

func (g *generated) Read(p []byte) (int, error) {
	if g.rest == "" {
		if g.next == g.lines {
			return 0, io.EOF
		}
		g.rest = fmt.Sprintf(`{"custom_id":"%d","method":"POST","url":"/v1/a","body":{"p":%q}}`+"\n", g.next,
			strings.Repeat("z", 1000))
		if g.next++; g.next%(g.lines/8) == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			g.most = max(g.most, m.HeapAlloc)
		}
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

// TestCheckMemory: an input is checked in some bytes of memory per request.
func TestCheckMemory(t *testing.T) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	g := &generated{lines: 40_000}
	c, err := check(newLines(g), &Options{URLs: urls})
	if err != nil || c.requests != g.lines {
		t.Fatalf("%d requests: %v", c.requests, err)
	}
	if most := uint64(g.lines*100 + 1<<20); g.most > m.HeapAlloc+most {
		t.Errorf("%d bytes of heap, %d before: want at most %d more", g.most, m.HeapAlloc, most)
	}
}

// TestHeld: requests that are being answered take a bounded amount of memory, however many are answered at once.
func TestHeld(t *testing.T) {
	const size, n = 4 << 20, 40
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"%d","method":"POST","url":"/v1/a","body":{"p":"%s"}}`+"\n", i,
			strings.Repeat("z", size-8))
	}
	o := files(t, b.String())
	var held, most atomic.Int64
	wake := make(chan struct{})
	o.Parallel = n
	o.Answer = func(context.Context, *Request) (Answer, error) {
		now := held.Add(size)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		<-wake
		held.Add(-size)
		return Answer{Status: 200, Body: []byte("{}")}, nil
	}
	done := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), o)
		done <- err
	}()
	wait.For(t, "as many requests as fit", func() bool { return held.Load() == maxHeld })
	close(wake)
	if err := <-done; err != nil || most.Load() > maxHeld {
		t.Errorf("%d bytes held: %v", most.Load(), err)
	}
}
