package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/requests"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// TestReplicas: behind HAProxy no request is lost whose answer had not begun when its replica was killed or its machine
// vanished, and none at all during a rolling replacement. All answers equal a single server's, whichever replica they
// come from. HAProxy checks each replica's health every second, and a busy machine answers late: this needs
// LOWPACK_LONG and little other work.
func TestReplicas(t *testing.T) {
	long.Only(t)
	testReplicas(t, haproxy)
}

// TestInteropReplicas: the same behind Envoy, which waits for replicas that are late.
func TestInteropReplicas(t *testing.T) { testReplicas(t, envoy) }

func testReplicas(t *testing.T, p proxy) {
	t.Helper()
	t.Parallel()
	r := newReplicas(t, p)
	r.underLoad(24, func() {
		r.answers(4, r.names...)
		for moved := p.moved(r); p.moved(r) == moved; { // repeats if replica two was idle when killed
			r.end("two", syscall.SIGKILL)
			r.answers(20, "one", "three")
			r.start("two")
			r.answers(4, "two")
		}
	}, "two")
	r.underLoad(24, func() {
		for _, name := range r.names {
			r.end(name, syscall.SIGTERM)
			if code := r.running[name].cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit code %d: %s", code, r.running[name].log)
			}
			r.start(name)
			r.answers(4, name)
		}
	}, "")
	if r.prefix == "" {
		return
	}
	r.underLoad(24, func() {
		r.answers(4, r.names...)
		r.ip("-n", r.prefix+"switch", "link", "set", "three", "down")
		r.answers(20, "one", "two")
	}, "three")
}

// TestThousandClients: a thousand clients at once lose no answer, and get no other, when one of three replicas is
// killed and comes back, but for answers of that replica that had begun.
func TestThousandClients(t *testing.T) {
	long.Only(t)
	testThousandClients(t, haproxy)
}

// TestInteropThousandClients: the same behind Envoy.
func TestInteropThousandClients(t *testing.T) { testThousandClients(t, envoy) }

func testThousandClients(t *testing.T, p proxy) {
	t.Helper()
	t.Parallel()
	r := newReplicas(t, p)
	r.underLoad(1000, func() {
		r.answers(500, r.names...)
		r.end("two", syscall.SIGKILL)
		r.answers(1000, "one", "three")
		r.start("two")
		r.answers(500, r.names...)
	}, "two")
}

// replicas are servers behind a proxy.
type replicas struct {
	t testing.TB
	// of the names of network namespaces, one for each replica and one for the proxy; "" = loopback addresses are used
	prefix  string
	network string // first three numbers of the addresses
	stats   string // socket of the proxy for its counters
	names   []string
	program func(address string) []string // the command line of a replica
	running map[string]*served
	list    []requests.Request
	want    [2][]string // answers of a single server; the same as streams
	client  *http.Client

	mu   sync.Mutex
	seen map[string]int // answers of each replica
}

const replicaKey = "secret"

// newReplicas starts replicas of lowpack with a tiny model.
func newReplicas(t testing.TB, p proxy) *replicas {
	t.Helper()
	p.find(t) // before the work
	file := tinymodel.WithTemplate(t, requests.Template)
	r := behind(t, p, func(address string) []string {
		return []string{probe, "serve", file, "--host", address, "--port", "8080", "--api-key", replicaKey,
			"--threads", "1", "--model-name", "tiny"}
	})
	r.list = requests.Mixed(44)
	r.record(file)
	return r
}

// behind starts replicas of a program behind a proxy.
func behind(t testing.TB, p proxy, program func(address string) []string) *replicas {
	t.Helper()
	dir := t.TempDir()
	r := &replicas{t: t, names: []string{"one", "two", "three"}, program: program, running: map[string]*served{},
		seen: map[string]int{}, stats: filepath.Join(dir, "stats")}
	r.connect()
	for _, name := range r.names {
		r.start(name)
	}
	clients := filepath.Join(dir, "clients") // a socket can be reached from other namespaces
	config := filepath.Join(dir, p.file)
	if err := os.WriteFile(config, p.config(t, clients, r.stats, r.network), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := r.command("switch", slices.Concat([]string{p.find(t)}, p.run, []string{config})...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DialContext: dialer(clients)}}
	wait.For(t, "the proxy to reach a replica", r.ready)
	return r
}

// dialer connects to a socket whatever address is asked for.
func dialer(socket string) func(ctx context.Context, _, _ string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
}

// ready reports whether the proxy listens and knows a replica that is ready.
func (r *replicas) ready() bool {
	answer, err := r.client.Get("http://localhost/health")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body) // so that the connection goes on: else the proxy may count it for a while
	return err == nil && answer.StatusCode == http.StatusOK
}

var networks atomic.Int64

// connect makes a network namespace for each replica and one that connects them, where the proxy lives. If that is not
// permitted, loopback addresses stand for machines.
func (r *replicas) connect() {
	id := os.Getpid()<<3 + int(networks.Add(1))&7 // of those of this process and of others
	r.prefix, r.network = fmt.Sprintf("lowpack%d-", id), "10.77.0."
	if err := exec.Command("ip", "netns", "add", r.prefix+"switch").Run(); err != nil {
		r.t.Logf("no network namespaces: %v", err)
		r.prefix, r.network = "", fmt.Sprintf("127.%d.%d.", 1+id>>8%250, id&0xff)
		return
	}
	remove := func(name string) { exec.Command("ip", "netns", "del", r.prefix+name).Run() }
	r.t.Cleanup(func() { remove("switch") })
	hub := []string{"-n", r.prefix + "switch"}
	r.ip(append(hub, "link", "add", "bridge", "type", "bridge")...)
	r.ip(append(hub, "addr", "add", r.network+"1/24", "dev", "bridge")...)
	r.ip(append(hub, "link", "set", "bridge", "up")...)
	for _, name := range r.names {
		own := []string{"-n", r.prefix + name}
		r.ip("netns", "add", r.prefix+name)
		r.t.Cleanup(func() { remove(name) })
		r.ip(append(hub, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", r.prefix+name)...)
		r.ip(append(hub, "link", "set", name, "master", "bridge", "up")...)
		r.ip(append(own, "addr", "add", r.address(name)+"/24", "dev", "eth0")...)
		r.ip(append(own, "link", "set", "eth0", "up")...)
	}
}

func (r *replicas) ip(args ...string) {
	r.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		r.t.Fatalf("ip %v: %v\n%s", args, err, out)
	}
}

// command runs in a namespace.
func (r *replicas) command(name string, args ...string) *exec.Cmd {
	if r.prefix != "" {
		args = append([]string{"ip", "netns", "exec", r.prefix + name}, args...)
	}
	return exec.Command(args[0], args[1:]...)
}

// address returns the address of a replica in the configurations.
func (r *replicas) address(name string) string {
	return r.network + strconv.Itoa(11+slices.Index(r.names, name))
}

func (r *replicas) start(name string) {
	r.t.Helper()
	r.running[name] = serveBy(r.t, r.command(name, r.program(r.address(name))...), "")
}

// end ends a replica with a signal.
func (r *replicas) end(name string, s syscall.Signal) {
	r.t.Helper()
	if err := r.running[name].cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
	<-r.running[name].end
	r.running[name].cmd.Wait()
}

// record asks a server alone.
func (r *replicas) record(file string) {
	r.t.Helper()
	s := serveFile(r.t, "", file, "--model-name", "tiny")
	for i, q := range r.list {
		r.want[0] = append(r.want[0], s.ask(q.Path, q.Body))
		status, text := s.send(http.MethodPost, q.Path, streamed(q.Body), nil)
		if status != http.StatusOK || !whole(i, text, true) {
			r.t.Fatalf("%d %s", status, text)
		}
		r.want[1] = append(r.want[1], r.frames(text))
	}
}

func streamed(body string) string { return strings.Replace(body, "{", `{"stream": true, `, 1) }

// whole reports whether an answer is complete.
func whole(i int, text []byte, stream bool) bool {
	switch {
	case !stream:
		return bytes.HasSuffix(bytes.TrimSpace(text), []byte("}"))
	case i%11 == 10: // a response
		return bytes.Contains(text, []byte("event: response.completed")) ||
			bytes.Contains(text, []byte("event: response.incomplete"))
	}
	return bytes.HasSuffix(text, []byte("data: [DONE]\n\n"))
}

// frames returns the text of a stream's frames, choice by choice.
func (r *replicas) frames(text []byte) string {
	r.t.Helper()
	var list []string
	for line := range strings.Lines(string(text)) {
		if frame, ok := strings.CutPrefix(line, "data: {"); ok {
			said, err := requests.Essence([]byte("{" + frame))
			if err != nil {
				r.t.Fatal(err)
			}
			list = append(list, said)
		}
	}
	index := func(frame string) string {
		at := strings.LastIndex(frame, `"index":`) // a tool call's index comes before it
		return frame[max(0, at):min(len(frame), at+len(`"index":0`))]
	}
	slices.SortStableFunc(list, func(a, b string) int { return strings.Compare(index(a), index(b)) })
	return strings.Join(list, "\n")
}

// underLoad has n clients ask while something happens to the replicas. An answer that had begun may break off if it
// came from the one named lost.
func (r *replicas) underLoad(n int, happens func(), lost string) {
	var clients sync.WaitGroup
	done, seeds := make(chan struct{}), seed.Rand(r.t)
	for range n {
		own := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					r.ask(own.IntN(len(r.list)), own.IntN(2) == 0, lost)
				}
			}
		})
	}
	happens()
	close(done)
	clients.Wait()
}

// post sends a request through the proxy.
func (r *replicas) post(path, body string) (*http.Response, error) {
	q, err := http.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Authorization", "Bearer "+replicaKey)
	return r.client.Do(q)
}

func (r *replicas) ask(i int, stream bool, lost string) {
	body, want := r.list[i].Body, r.want[0][i]
	if stream {
		body, want = streamed(body), r.want[1][i]
	}
	answer, err := r.post(r.list[i].Path, body)
	if err != nil {
		r.t.Errorf("%s: %v", body, err)
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	from := answer.Header.Get("X-Replica")
	if answer.StatusCode != http.StatusOK || (err != nil || !whole(i, text, stream)) && from != lost {
		r.t.Errorf("%s: from %q: %d, %v: %s", body, from, answer.StatusCode, err, text)
	}
	if err != nil || !whole(i, text, stream) {
		return
	}
	got := ""
	if stream {
		got = r.frames(text)
	} else if got, err = requests.Essence(text); err != nil {
		r.t.Error(err)
	}
	if got != want {
		r.t.Errorf("%s: from %q:\n%s\nwant\n%s", body, from, got, want)
	}
	r.mu.Lock()
	r.seen[from]++
	r.mu.Unlock()
}

// answers waits until some replicas have each answered n more requests.
func (r *replicas) answers(n int, names ...string) {
	r.t.Helper()
	count := func(name string) int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.seen[name]
	}
	for _, name := range names {
		before := count(name)
		wait.For(r.t, name+" to answer", func() bool { return count(name) >= before+n })
	}
}
