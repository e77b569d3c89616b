package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// resident is the program that runs one command after another in one process, so that its start-up is paid once.
// Crashes, hangs and memory are still attributed to a single command.
const resident = "lowpack-resident"

// ran is its report about a command.
type ran struct {
	Code   int
	Out    string
	Memory int64
}

// beResident runs the commands that standard input names. Pages of the program that commands before have read do not
// count.
func beResident() {
	in, say, idle := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout), filePages()
	for {
		var args []string
		if in.Decode(&args) != nil {
			os.Exit(0)
		}
		forgetPeak()
		before := filePages() - idle
		var out bytes.Buffer
		code := Main(append([]string{"lowpack"}, args...), bytes.NewReader(nil), &out, &out)
		say.Encode(ran{code, out.String(), peakMemory() - before})
	}
}

// forgetPeak makes peakMemory count from now on, as in a new process. If the system does not support that, the peak
// covers all commands so far, which is no less.
func forgetPeak() {
	debug.FreeOSMemory()
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// filePages returns the file-backed resident memory of this process, in bytes; 0 = unknown.
func filePages() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	kib, _ := strconv.ParseInt(strings.TrimSuffix(statusLine(string(status), "RssFile:"), " kB"), 10, 64)
	return kib << 10
}

// residents is a pool of such processes. Each command takes a free one.
type residents struct {
	t    testing.TB
	mu   sync.Mutex
	free []*process
}

type process struct {
	cmd   *exec.Cmd
	say   *json.Encoder
	hear  *json.Decoder
	crash bytes.Buffer // output of the Go runtime
}

// run runs a command, as command does in a separate process.
func (r *residents) run(t testing.TB, args ...string) outcome {
	t.Helper()
	p, err := r.take()
	if err != nil {
		t.Fatal(err)
	}
	var said ran
	if p.say.Encode(args) == nil && p.hear.Decode(&said) == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.free = append(r.free, p)
		return outcome{code: said.Code, out: said.Out, memory: said.Memory}
	}
	p.cmd.Wait()
	return outcome{code: p.cmd.ProcessState.ExitCode(), out: p.crash.String(), killed: untilDeadline(t).Err() != nil}
}

// take returns a process that is free, or starts one that ends with the test.
func (r *residents) take() (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := len(r.free) - 1; last >= 0 {
		p := r.free[last]
		r.free = r.free[:last]
		return p, nil
	}
	p := &process{cmd: exec.CommandContext(untilDeadline(r.t), resident)}
	// otherwise threads spin longer than there is work
	p.cmd.Env = append(os.Environ(), usualGC, "GOMAXPROCS=1")
	p.cmd.Stderr = &p.crash
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.t.Cleanup(func() { in.Close(); p.cmd.Wait() })
	p.say, p.hear = json.NewEncoder(in), json.NewDecoder(out)
	return p, p.cmd.Start()
}
