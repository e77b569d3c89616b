package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// proxy is a program in front of replicas.
type proxy struct {
	file   string                    // its configuration in docs/examples/serve
	find   func(t testing.TB) string // the program; skips the test where there is none
	run    []string                  // arguments, before the path of the configuration
	check  []string                  // the same, to check the configuration
	change []string                  // for the test: old and new texts of the configuration, with CLIENTS for a socket
	stats  string                    // added for the test: counters at the socket STATS
	moved  func(r *replicas) (n int) // how many requests it sent again, to another replica
}

var (
	haproxy = proxy{
		file: "haproxy.cfg", find: findHAProxy, run: []string{"-db", "-f"}, check: []string{"-c", "-V", "-f"},
		change: []string{"bind :8080", "bind unix@CLIENTS"},
		stats:  "\nglobal\n    stats socket unix@STATS\n", moved: (*replicas).redispatched,
	}
	envoy = proxy{
		file: "envoy.yaml", find: findEnvoy,
		run:    []string{"--use-dynamic-base-id", "--log-level", "error", "-c"}, // beside others on this machine
		check:  []string{"--mode", "validate", "-c"},
		change: []string{"{socket_address: {address: 0.0.0.0, port_value: 8080}}", "{pipe: {path: CLIENTS}}"},
		stats:  "\nadmin: {address: {pipe: {path: STATS}}}\n", moved: (*replicas).retried,
	}
)

func findHAProxy(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"haproxy", "/usr/sbin/haproxy"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	t.Skip("no haproxy")
	return ""
}

func findEnvoy(t testing.TB) string {
	t.Helper()
	return interop.File(t, "envoy", "envoy/_bin/envoy")
}

// config is the example with clients that come through a socket, replicas in another network, and counters.
func (p proxy) config(t testing.TB, clients, stats, network string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs/examples/serve", p.file))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(p.change...).Replace(string(text)) + p.stats
	return []byte(strings.NewReplacer("CLIENTS", clients, "STATS", stats, "10.77.0.", network).Replace(changed))
}

// TestReplicaConfig: HAProxy accepts haproxy.cfg.
func TestReplicaConfig(t *testing.T) { testReplicaConfig(t, haproxy) }

// TestInteropReplicaConfig: Envoy accepts envoy.yaml.
func TestInteropReplicaConfig(t *testing.T) { testReplicaConfig(t, envoy) }

func testReplicaConfig(t *testing.T, p proxy) {
	t.Helper()
	t.Parallel()
	program, path := p.find(t), filepath.Join(t.TempDir(), p.file)
	if err := os.WriteFile(path, p.config(t, "clients", "stats", "127.0.0."), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, slices.Concat(p.check, []string{path})...).CombinedOutput()
	if err != nil || strings.Contains(strings.ToLower(string(out)), "warning") {
		t.Errorf("%v: %s", err, out)
	}
}

// redispatched asks HAProxy.
func (r *replicas) redispatched() (n int) {
	r.t.Helper()
	c, err := net.Dial("unix", r.stats)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "show stat\n")
	rows, err := csv.NewReader(c).ReadAll()
	if err != nil || len(rows) == 0 {
		r.t.Fatal(err)
	}
	column := slices.Index(rows[0], "wredis")
	for _, row := range rows[1:] {
		if row[0] == "replicas" && row[1] == "BACKEND" {
			n, err = strconv.Atoi(row[column])
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// retried asks Envoy.
func (r *replicas) retried() (n int) {
	r.t.Helper()
	const counter = "cluster.replicas.upstream_rq_retry"
	admin := http.Client{Transport: &http.Transport{DialContext: dialer(r.stats), DisableKeepAlives: true}}
	answer, err := admin.Get("http://localhost/stats?filter=^" + counter + "$")
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := fmt.Fscanf(answer.Body, counter+": %d", &n); err != nil {
		r.t.Fatal(err)
	}
	return n
}
