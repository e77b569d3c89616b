package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// TestPool: bodies never exceed the pool, and the one that stalls longest is dropped; a complete one is not, but leaves
// memory for small ones.
func TestPool(t *testing.T) {
	const size = 1 << 20
	p, stopped := NewPool(size), map[string]bool{}
	begin := func(name string) *upload { return p.begin(func() { stopped[name] = true }) }
	first, second, third := begin("first"), begin("second"), begin("third")
	for _, u := range []*upload{first, second, third} {
		if !u.grow(size / 4) {
			t.Fatal("a pool with room refuses a body")
		}
	}
	first.progress(false)
	if fourth := begin("fourth"); !fourth.grow(size/4) || !stopped["second"] || len(stopped) != 1 {
		t.Errorf("a new body: %v make room", stopped)
	} else if second.progress(false) || second.grow(1) || p.held > size {
		t.Errorf("a body that made room goes on, %d bytes are held", p.held)
	} else {
		fourth.progress(true)
	}
	first.progress(true)
	third.progress(true)
	if large := begin("large"); large.grow(smallBody + 1<<17) {
		t.Error("a large body takes what is reserved for small ones")
	} else if large.grow(smallBody); p.held > size {
		t.Errorf("%d bytes are held", p.held)
	}
	if small := begin("small"); !small.grow(smallBody) || len(stopped) != 1 {
		t.Errorf("a small body beside large ones: %v make room", stopped)
	}
	for _, u := range []*upload{first, second, third} {
		u.release()
		u.release()
	}
	if p.held >= size/2 {
		t.Errorf("%d bytes are held after all", p.held)
	}
}

// TestPoolSmall: while a large body is incomplete, no small one is dropped; stalled small ones are dropped for a large
// one.
func TestPoolSmall(t *testing.T) {
	const size = 1 << 20
	p, stopped := NewPool(size), 0
	var small []*upload
	for range size / smallBody {
		u := p.begin(func() { stopped++ })
		if !u.grow(smallBody) {
			t.Fatal("a pool with room refuses a body")
		}
		small = append(small, u)
	}
	large := p.begin(func() { t.Error("a large body that grows makes room for itself") })
	if !large.grow(size/2) || stopped < 8 || !small[0].gone || small[15].gone || p.held > size-size/8 {
		t.Errorf("%d small bodies made room, %d bytes are held", stopped, p.held)
	}
	before := stopped
	large.stop = func() {}
	for range 16 {
		if !p.begin(func() { stopped++ }).grow(smallBody) {
			t.Fatal("a small body is refused")
		}
		if !large.gone && stopped > before {
			t.Error("a small body made room before a large one")
		}
	}
	if !large.gone {
		t.Error("the large body is not given up")
	}
}

// TestPoolRead: a body is read correctly whatever it declares and however it arrives, into a buffer of at most about
// twice its size.
func TestPoolRead(t *testing.T) {
	for _, n := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, 100000} {
		text := bytes.Repeat([]byte("x"), n)
		for _, declared := range []int{-1, n, 0, 2 * n, 1 << 40} {
			for name, r := range map[string]io.Reader{
				"one":   iotest.OneByteReader(bytes.NewReader(text)),
				"whole": bytes.NewReader(text),
				"end":   iotest.DataErrReader(bytes.NewReader(text)),
			} {
				p := NewPool(1 << 30)
				u := p.begin(func() {})
				got, err := u.read(r, int64(declared), 1<<40)
				if err != nil || !bytes.Equal(got, text) || p.held > int64(2*n+2*firstRead) || p.held < int64(n) ||
					p.large.Len()+p.small.Len() != 0 {
					t.Fatalf("%d bytes, %d declared, %s: %d, %v, %d held", n, declared, name, len(got), err, p.held)
				}
			}
		}
	}
}

// stalling is the connection of a client whose body does not end.
type stalling struct {
	*httptest.ResponseRecorder
	body *io.PipeReader
}

func (s stalling) SetReadDeadline(time.Time) error {
	return s.body.CloseWithError(os.ErrDeadlineExceeded)
}

// TestReadBodyTime: a body takes no longer than the time of its request, which then gets 504 and leaves no memory in
// the pool; of a client that leaves, the request was not too late.
func TestReadBodyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{http.StatusGatewayTimeout, http.StatusBadRequest} {
			p, start := NewPool(1<<20), time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			body, client := io.Pipe()
			go client.Write([]byte(`{"a": `))
			if status == http.StatusBadRequest {
				time.AfterFunc(time.Second, cancel)
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", body)
			_, e := ReadBody(stalling{httptest.NewRecorder(), body}, r, 1<<18, p)
			if e == nil || e.Status != status || p.held != 0 {
				t.Errorf("%v, want %d; %d bytes are held", e, status, p.held)
			}
			if took := time.Since(start); status == http.StatusGatewayTimeout && took != time.Minute {
				t.Errorf("it took %v", took)
			}
			cancel()
		}
	})
}

// TestReadBody: a pool gets all memory back, also after an error; a request for which it has none gets Retry-After.
func TestReadBody(t *testing.T) {
	p := NewPool(1 << 20)
	read := func(body string) (*Body, *Error) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		return ReadBody(httptest.NewRecorder(), r, 1<<18, p)
	}
	long := `{"a": "` + strings.Repeat("x", 1<<17) + `", "b": 1}`
	for body, status := range map[string]int{long: 0, "{}": 0, `{"a"`: http.StatusBadRequest,
		long + long: http.StatusRequestEntityTooLarge} {
		b, e := read(body)
		switch {
		case status == 0 && e == nil:
			if p.held < int64(len(body)) || b.Begin(t.Context()) != nil {
				t.Errorf("%.20s: %d bytes are held", body, p.held)
			}
			b.Raw("a")
			b.Close()
			if b.Raw("b") != nil || len(body) > 2 && strings.Join(b.Ignored(), " ") != "b" {
				t.Errorf("%.20s: after Close: %s, ignored %q", body, b.Raw("b"), b.Ignored())
			}
			b.Close()
		case e == nil || e.Status != status:
			t.Errorf("%.20s: %v, want %d", body, e, status)
		}
		if p.held != 0 || p.large.Len()+p.small.Len() != 0 || len(p.turns) != 0 {
			t.Errorf("%.20s: %d bytes, %d bodies and %d turns are left", body, p.held, p.large.Len()+p.small.Len(),
				len(p.turns))
		}
	}
	full := p.begin(func() {})
	full.grow(1<<20 - 1<<17)
	full.progress(true)
	if _, e := read(long); e == nil || e.Status != http.StatusServiceUnavailable || e.RetryAfter == 0 ||
		e.Code != "bodies_full" {
		t.Errorf("a full pool: %v", e)
	}
	if b, e := read("{}"); e != nil {
		t.Errorf("a small request beside a full pool: %v", e)
	} else {
		b.Close()
	}
}
