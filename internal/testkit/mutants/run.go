package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A mutant may run longer than the program that it was made from, but not without end.
const (
	slower  = 5
	atLeast = 30 * time.Second
)

// outcome of the tests of a mutant.
type outcome struct {
	killed bool
	how    string // it was killed: the first test that failed, or the timeout
	took   time.Duration
	err    error // the mutant is not one: it does not compile
}

// runner compiles and runs tests in a module, without touching its files.
type runner struct {
	root string
	work string // a folder for what it builds
}

// baseline runs the tests without a mutant. They must pass, or each mutant would seem to be killed.
func (r *runner) baseline(ctx context.Context, test []string) (time.Duration, error) {
	bin, err := r.compile(ctx, test[0])
	if err != nil {
		return 0, err
	}
	defer os.Remove(bin)
	o := r.run(ctx, bin, test, time.Hour)
	if o.killed {
		return 0, fmt.Errorf("%s fails without a mutant: %s", strings.Join(test, " "), o.how)
	}
	return o.took, o.err
}

// try runs the tests of a mutant, which take about so long without it.
func (r *runner) try(ctx context.Context, m *mutant, usual time.Duration) outcome {
	overlay, err := r.overlay(m)
	if err != nil {
		return outcome{err: err}
	}
	bin, err := r.compile(ctx, m.test[0], "-overlay", overlay)
	if err != nil {
		return outcome{err: fmt.Errorf("%s: %w", m.at, err)}
	}
	defer os.Remove(bin)
	return r.run(ctx, bin, m.test, max(atLeast, slower*usual))
}

// overlay writes the changed file, and the file that tells the go command to use it.
func (r *runner) overlay(m *mutant) (string, error) {
	text, err := m.apply(r.root)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(r.work, "mutant")
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(r.root, m.file): changed}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, replace, 0o600)
}

// compile builds the test binary of a package.
func (r *runner) compile(ctx context.Context, pkg string, flags ...string) (string, error) {
	f, err := os.CreateTemp(r.work, "test")
	if err != nil {
		return "", err
	}
	f.Close()
	args := append([]string{"test", "-c", "-ldflags=-s -w", "-o", f.Name()}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not compile: %w\n%s", pkg, err, out)
	}
	return f.Name(), nil
}

// run runs a test binary as go test does, in the folder of its package.
func (r *runner) run(ctx context.Context, bin string, test []string, limit time.Duration) outcome {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin,
		append([]string{"-test.failfast", "-test.timeout=" + limit.String()}, test[1:]...)...)
	cmd.Dir = filepath.Join(r.root, test[0])
	cmd.WaitDelay = time.Second // for what its children write
	start := time.Now()
	out, err := cmd.CombinedOutput()
	o := outcome{killed: err != nil, took: time.Since(start)}
	switch {
	case ctx.Err() != nil:
		o.how = "timeout"
	case err != nil:
		o.how = reason(string(out), err)
	case strings.Contains(string(out), "no tests to run"):
		o.err = fmt.Errorf("%s: no tests to run", strings.Join(test, " "))
	}
	return o
}

// reason is the test that failed first, or else what ended the process.
func reason(out string, err error) string {
	for line := range strings.Lines(out) {
		if _, name, ok := strings.Cut(line, "--- FAIL: "); ok {
			return strings.Fields(name)[0]
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line)
		}
	}
	return err.Error()
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s" }
