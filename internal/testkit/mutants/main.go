// Command mutants checks that the tests notice wrong programs: it applies the changes listed in .ci/mutants one at a
// time, in a copy that the compiler reads in place of the file, and runs the tests that must fail. A mutant that
// survives is a hole in the tests.
//
//	go run ./internal/testkit/mutants                         all of them
//	go run ./internal/testkit/mutants -sample 20 -seed TEXT   20 of them, chosen by the text
//	go run ./internal/testkit/mutants internal/kernel         those of files whose path begins so
//
// The exit code is 1 if a mutant survives, or if the list does not fit the program: the old text is gone or not unique,
// a mutant does not compile, the tests fail without one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lowpack/lowpack/internal/parallel"
)

func main() {
	sample := flag.Int("sample", 0, "try only `N` mutants")
	seed := flag.String("seed", "", "choose them by this `TEXT`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := hold(ctx, os.Stdout, ".", *sample, *seed, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// hold tries the mutants of the module at root.
func hold(ctx context.Context, w io.Writer, root string, sample int, seed string, prefixes []string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	all, err := readList(filepath.Join(root, ".ci", "mutants"))
	if err != nil {
		return err
	}
	for i := range all {
		if _, e := all[i].apply(root); e != nil {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	c := &campaign{runner: runner{root, work}, w: w, mutants: choose(all, sample, seed, prefixes)}
	return c.run(ctx)
}

// choose picks mutants by the path of their file, and some of those by a text.
func choose(all []mutant, sample int, seed string, prefixes []string) []mutant {
	var list []mutant
	for _, m := range all {
		if len(prefixes) == 0 || slices.ContainsFunc(prefixes,
			func(p string) bool { return strings.HasPrefix(m.file, p) }) {
			list = append(list, m)
		}
	}
	if sample <= 0 || sample >= len(list) {
		return list
	}
	h := fnv.New64a()
	io.WriteString(h, seed)
	rand.New(rand.NewPCG(h.Sum64(), 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:sample]
}

// campaign tries mutants, several at a time.
type campaign struct {
	runner
	w       io.Writer
	mutants []mutant
	usual   map[string]time.Duration // of tests without a mutant

	lock     sync.Mutex
	failures []string
}

func (c *campaign) run(ctx context.Context) error {
	start := time.Now()
	if err := c.measure(ctx); err != nil {
		return err
	}
	err := parallel.Do(ctx, 0, len(c.mutants), 1, func(i, _ int) error {
		m := &c.mutants[i]
		c.report(m, c.try(ctx, m, c.usual[strings.Join(m.test, " ")]))
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.w, "%d mutants in %s on %d CPUs: %d killed\n", len(c.mutants), time.Since(start).Round(time.Second),
		runtime.GOMAXPROCS(0), len(c.mutants)-len(c.failures))
	if len(c.failures) > 0 {
		return fmt.Errorf("%d mutants were not killed:\n%s", len(c.failures), strings.Join(c.failures, "\n"))
	}
	return nil
}

// measure runs every test that is needed without a mutant.
func (c *campaign) measure(ctx context.Context) error {
	c.usual = map[string]time.Duration{}
	var tests [][]string
	for _, m := range c.mutants {
		if _, ok := c.usual[strings.Join(m.test, " ")]; !ok {
			c.usual[strings.Join(m.test, " ")] = 0
			tests = append(tests, m.test)
		}
	}
	return parallel.Do(ctx, 0, len(tests), 1, func(i, _ int) error {
		took, err := c.baseline(ctx, tests[i])
		c.lock.Lock()
		defer c.lock.Unlock()
		c.usual[strings.Join(tests[i], " ")] = took
		return err
	})
}

// report writes the line of a mutant.
func (c *campaign) report(m *mutant, o outcome) {
	c.lock.Lock()
	defer c.lock.Unlock()
	verdict := "killed"
	switch {
	case o.err != nil:
		verdict, o.how = "ERROR", o.err.Error()
	case !o.killed:
		verdict, o.how = "SURVIVED", strings.Join(m.test, " ")
	}
	if verdict != "killed" {
		c.failures = append(c.failures, fmt.Sprintf("%s  %s: %s (%s)", verdict, m.file, m.what, m.at))
	}
	fmt.Fprintf(c.w, "%-8s %8s  %s: %s  [%s]\n", verdict, seconds(o.took), m.file, m.what, o.how)
}
