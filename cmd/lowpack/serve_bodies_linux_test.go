package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// highWater is the most memory that the server has held, in MiB.
func (s *served) highWater() int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	kib, err := strconv.Atoi(strings.TrimSuffix(statusLine(string(status), "VmHWM:"), " kB"))
	if err != nil {
		s.t.Fatal(err)
	}
	return kib >> 10
}

// unfinished is a request with an endless body.
type unfinished struct {
	net.Conn
	chunked bool
}

// begin sends the head of a request.
func (s *served) begin(chunked bool) unfinished {
	s.t.Helper()
	address := strings.TrimPrefix(s.url, "http://")
	c, err := net.Dial("tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	length := "Content-Length: " + strconv.Itoa(8<<20)
	if chunked {
		length = "Transfer-Encoding: chunked"
	}
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", address, length)
	return unfinished{c, chunked}
}

// send sends a piece of the body; false = the server no longer accepts it.
func (u unfinished) send(piece []byte) bool {
	if u.chunked {
		piece = []byte(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece))
	}
	_, err := u.Write(piece)
	return err == nil
}

// TestServeBodies: hundreds of large unfinished requests take a bounded amount of memory together, whatever they
// declare. Requests that are rejected for memory are told when to retry, and others are answered meanwhile: small ones,
// and large ones that arrive without stalling. So are complete requests, many at once.
func TestServeBodies(t *testing.T) {
	const (
		clients = 200
		piece   = 256 << 10
		// MiB, where 200 bodies of 8 MiB are 1,600. 64 MiB of bodies and two that are parsed live; the garbage
		// collector lets the heap double before it is done; 20 to 30 MiB of the program become resident meanwhile.
		most = 320
	)
	s := serveFile(t, "", tinymodel.Path(t), "--threads", "1")
	s.ask("/v1/completions", `{"prompt": "a", "max_tokens": 1}`)
	before := s.highWater()
	blank := []byte(strings.Repeat(" ", piece))
	var open, refused []unfinished
	for i := range clients {
		open = append(open, s.begin(i%2 == 1))
	}
	for range 8<<20/piece - 1 { // all but the last piece
		var still []unfinished
		for _, u := range open {
			if u.send(blank) {
				still = append(still, u)
			} else {
				refused = append(refused, u)
			}
		}
		open = still
		s.ask("/v1/completions", `{"prompt": "a", "max_tokens": 1}`)
	}
	if len(refused) < clients/2 {
		t.Errorf("%d of %d bodies made room", len(refused), clients)
	}
	// A large request is answered, although stalled requests occupy the memory.
	body := `{"prompt": "a", "max_tokens": 1, "x": "` + strings.Repeat("x", 7<<20) + `"}`
	if status, text := s.send(http.MethodPost, "/v1/completions", body, nil); status != http.StatusOK {
		t.Errorf("a large request: %d %s", status, text)
	}
	told := 0
	for _, u := range append(open, refused...) {
		u.Conn.(*net.TCPConn).CloseWrite()
		answer, err := http.ReadResponse(bufio.NewReader(u), nil)
		if err == nil && answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != "" {
			told++
		}
	}
	if told == 0 {
		t.Error("nobody was told to come back")
	}
	if took := s.highWater() - before; took > most {
		t.Errorf("unfinished bodies took %d MiB, more than %d", took, most)
	}
	s.complete(`{"prompt": [`+strings.Repeat("1,", 4<<20-100)+`1], "max_tokens": 1}`, 20)
	if took := s.highWater() - before; took > 2*most {
		t.Errorf("complete bodies took %d MiB, more than %d", took, 2*most)
	}
}

// complete sends a number of identical requests at once. Each is answered or told to retry later.
func (s *served) complete(body string, times int) {
	s.t.Helper()
	var group sync.WaitGroup
	for range times {
		group.Go(func() {
			answer, err := http.Post(s.url+"/v1/completions", "", strings.NewReader(body))
			if err != nil {
				return // the server closed while the body was on its way
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != http.StatusBadRequest && answer.StatusCode != http.StatusServiceUnavailable {
				s.t.Errorf("%d %.200s", answer.StatusCode, text)
			}
		})
	}
	group.Wait()
}
