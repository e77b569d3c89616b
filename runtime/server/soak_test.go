package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/requests"
	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/runtime/engine"
)

// soak is a server with clients of all kinds.
type soak struct {
	t    *testing.T
	web  *httptest.Server
	list []requests.Request
	want []string
	end  time.Time

	mu   sync.Mutex
	done map[string]int // actions by kind
}

// TestSoak: clients that read, read slowly, disconnect and send garbage, each ten times or for LOWPACK_SOAK, and until
// each kind has met every outcome. No byte is wrong, no request fails unexpectedly, and nothing leaks: KV cache pages,
// goroutines, descriptors, memory.
func TestSoak(t *testing.T) {
	var last time.Duration
	if long := os.Getenv("LOWPACK_SOAK"); long != "" {
		var err error
		if last, err = time.ParseDuration(long); err != nil {
			t.Fatal(err)
		}
	}
	var panics bytes.Buffer
	before, files := runtime.NumGoroutine(), descriptors(t)
	k := &soak{t: t, list: requests.Mixed(66), done: map[string]int{}}
	// so few that some clients are rejected in every run
	model := tiny(t, "tiny", engine.Options{Threads: 2, Context: 256, Sequences: 2, Page: 32, CacheTokens: 768},
		requests.Template)
	s, err := New(Options{Queue: 1, PrefixCache: true, ITLTarget: 5 * time.Millisecond}, model)
	if err != nil {
		t.Fatal(err)
	}
	k.web = httptest.NewUnstartedServer(s)
	k.web.Config.ErrorLog = log.New(&panics, "", 0)
	k.web.Start()
	for _, r := range k.list {
		_, _, text := post(t, k.web, r.Path, r.Body)
		k.want = append(k.want, essence(t, text))
	}
	memory := heap()
	k.end = time.Now().Add(last)
	var group sync.WaitGroup
	for client := range 12 {
		group.Go(func() { k.client(rand.New(rand.NewPCG(uint64(client), 9))) })
	}
	group.Wait()
	e := s.models.list[0].model.engine
	s.Drain(t.Context())
	k.web.Close()
	if all, free := e.Pages(); free != all {
		t.Errorf("%d of %d pages of the KV cache are free at the end", free, all)
	}
	if strings.Contains(panics.String(), "panic") {
		t.Errorf("%s", panics.String())
	}
	atMost(t, "goroutines", runtime.NumGoroutine, before)
	atMost(t, "descriptors", func() int { return descriptors(t) }, files+1) // the model file
	atMost(t, "bytes of memory", heap, memory+32<<20)
	t.Logf("%v: %v", last, k.done)
}

// met lists the outcomes that clients must meet, some of which need other clients.
var met = []string{"read", "sent away", "streamed", "slow", "hung up", "mutated", "garbage", "probed"}

// over reports whether a client has done enough.
func (k *soak) over(actions int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := !slices.ContainsFunc(met, func(what string) bool { return k.done[what] == 0 })
	return all && actions >= 10 && time.Now().After(k.end)
}

// atMost waits until a count is at most its former value; closing may take a moment.
func atMost(t *testing.T, what string, count func() int, most int) {
	t.Helper()
	wait.For(t, fmt.Sprintf("at most %d %s", most, what), func() bool { return count() <= most })
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// descriptors returns the number of open files; 0 if the system does not list them.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

// client performs actions one after another.
func (k *soak) client(r *rand.Rand) {
	for actions := 0; !k.over(actions); actions++ {
		i := r.IntN(len(k.list))
		what := k.act(r, r.IntN(7), k.list[i], k.want[i])
		k.mu.Lock()
		k.done[what]++
		k.mu.Unlock()
	}
}

func (k *soak) act(r *rand.Rand, kind int, q requests.Request, want string) string {
	switch kind {
	case 0:
		status, h, text := post(k.t, k.web, q.Path, q.Body)
		if status == http.StatusTooManyRequests && h.Get("Retry-After") != "" {
			return "sent away"
		}
		if status != http.StatusOK || essence(k.t, text) != want {
			k.t.Errorf("%s: %d %s, want %s", q.Body, status, text, want)
		}
		return "read"
	case 1:
		if q.Path == "/v1/responses" {
			return "nothing"
		}
		compareStream(k.t, k.web, q.Path, q.Body, want)
		return "streamed"
	case 2:
		return k.slow(r, q)
	case 3:
		q.HangUp(k.t, k.web.Client(), k.web.URL, 5*time.Millisecond)
		return "hung up"
	case 4:
		k.mutated(r, q)
		return "mutated"
	case 5:
		k.garbage(r)
		return "garbage"
	}
	for _, path := range []string{"/health", "/metrics", "/v1/models"} {
		if status, _, text := do(k.t, k.web, http.MethodGet, path, ""); status != http.StatusOK {
			k.t.Errorf("%s: %d %s", path, status, text)
		}
	}
	return "probed"
}

// slow reads a stream in small parts and leaves at a random point.
func (k *soak) slow(r *rand.Rand, q requests.Request) string {
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Duration(r.IntN(1000))*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, k.web.URL+q.Path,
		strings.NewReader(`{"stream": true, `+q.Body[1:]))
	if err != nil {
		k.t.Error(err)
		return ""
	}
	answer, err := k.web.Client().Do(request)
	if err != nil {
		return "slow"
	}
	defer answer.Body.Close()
	part := make([]byte, 64)
	for err == nil {
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		_, err = answer.Body.Read(part)
	}
	return "slow"
}

// mutated sends a request with some bytes changed.
func (k *soak) mutated(r *rand.Rand, q requests.Request) {
	body := []byte(q.Body)
	for range 1 + r.IntN(3) {
		switch i := r.IntN(len(body)); r.IntN(3) {
		case 0:
			body[i] = byte(r.Uint32())
		case 1:
			body = body[:i+1]
		case 2:
			body = slices.Concat(body[:i], []byte(`"-1[{]}`)[r.IntN(7):], body[i:])
		}
	}
	status, _, text := post(k.t, k.web, q.Path, string(body))
	if status != http.StatusOK && status != http.StatusBadRequest && status != http.StatusTooManyRequests &&
		status != http.StatusNotFound {
		k.t.Errorf("%q: %d %s", body, status, text)
	}
}

// garbage sends what no HTTP client sends.
func (k *soak) garbage(r *rand.Rand) {
	c, err := net.Dial("tcp", k.web.Listener.Addr().String())
	if err != nil {
		k.t.Error(err)
		return
	}
	defer c.Close()
	text := []string{
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET\r\n\r\n",
		"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
		"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{",
		"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /" + strings.Repeat("a", 1<<12) + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
	}[r.IntN(7)]
	io.WriteString(c, text)
	if r.IntN(2) == 0 {
		c.(*net.TCPConn).CloseWrite() // otherwise the server waits for the rest of the request
		bufio.NewReader(c).ReadString('\n')
	}
}
