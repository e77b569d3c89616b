//go:build unix

package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/seed"
)

// process is a conversion in a separate process.
type process struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan error
}

// startProcess starts TestConvertProcess. env adds to its environment.
func startProcess(t *testing.T, dir, target string, threads int, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], "-test.run", "^TestConvertProcess$"), done: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), "LOWPACK_TEST_CONVERT="+dir, "LOWPACK_TEST_TARGET="+target,
		fmt.Sprintf("LOWPACK_TEST_THREADS=%d", threads),
		"GOGC=") // memory as users see it
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	return p
}

// populate is Linux's MAP_POPULATE, which one test needs.
const populate = 0x8000

// TestConvertProcess is the child side of tests that need a separate process.
func TestConvertProcess(t *testing.T) {
	dir, target := os.Getenv("LOWPACK_TEST_CONVERT"), os.Getenv("LOWPACK_TEST_TARGET")
	if dir == "" {
		return // only other tests start it
	}
	if n, err := strconv.ParseUint(os.Getenv("LOWPACK_TEST_FSIZE"), 10, 63); err == nil {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := strconv.Atoi(os.Getenv("LOWPACK_TEST_MOMENT")); err == nil {
		b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE|populate)
		if err == nil {
			err = syscall.Munmap(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	o := plain(packed.Recipe{Layout: os.Getenv("LOWPACK_TEST_LAYOUT"),
		Head: packed.Head(os.Getenv("LOWPACK_TEST_HEAD"))})
	if mode := os.Getenv("LOWPACK_TEST_GOLDEN"); mode != "" {
		o.Recipe.Golden = packed.GoldenMode(mode)
	}
	o.Threads, _ = strconv.Atoi(os.Getenv("LOWPACK_TEST_THREADS"))
	if _, err := newPlan(t, dir, o).Run(context.Background(), target); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("LOWPACK_TEST_STATUS") != "" {
		status, _ := os.ReadFile("/proc/self/status")
		os.Stdout.Write(status)
	}
}

// TestKilled kills conversions at random moments: the target is old or complete, and the next conversion cleans up
// whatever a kill between a hidden name and the rename left. LOWPACK_LONG kills 1,000 of them, LOWPACK_KILLS sets the
// number (`make kills`).
func TestKilled(t *testing.T) {
	path, at := mini(t, "bitnet-2b4t", nil), newPlace(t, "old")
	rounds := 40 / race.Every(10)
	if long.All {
		rounds = 1000
	}
	if n, err := strconv.Atoi(os.Getenv("LOWPACK_KILLS")); err == nil {
		rounds = n
	}
	r, start := seed.Rand(t), time.Now()
	if err := <-startProcess(t, path, at.target, 2).done; err != nil {
		t.Fatal(err)
	}
	whole := time.Since(start)
	complete, err := os.ReadFile(at.target)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for range rounds {
		if err := os.WriteFile(at.target, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		p := startProcess(t, path, at.target, 2)
		time.Sleep(time.Duration(r.Int64N(int64(whole * 11 / 10))))
		p.cmd.Process.Kill()
		<-p.done
		b, err := os.ReadFile(at.target)
		switch {
		case err != nil:
			t.Fatal(err)
		case string(b) == "old":
			counts["old"]++
		case bytes.Equal(b, complete):
			counts["complete"]++
		default:
			t.Fatalf("the target is neither old nor complete: %d bytes", len(b))
		}
		if entries, _ := os.ReadDir(at.dir); len(entries) > 1 {
			counts["left behind"]++
		}
	}
	t.Log(counts)
	if _, err := newPlan(t, path, plain(packed.Recipe{})).Run(context.Background(), at.target); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(at.dir); len(entries) != 1 {
		t.Errorf("not swept: %v", entries)
	}
}

// TestFileSizeLimit stops the target at several sizes.
func TestFileSizeLimit(t *testing.T) {
	path := mini(t, "bitnet-2b4t", nil)
	p := newPlan(t, path, plain(packed.Recipe{}))
	for _, limit := range []int64{0, 1000, p.Bytes - 1} {
		at := newPlace(t, "old")
		run := startProcess(t, path, at.target, 1, fmt.Sprintf("LOWPACK_TEST_FSIZE=%d", limit))
		if err := <-run.done; err == nil || !strings.Contains(run.out.String(), syscall.EFBIG.Error()) {
			t.Errorf("limit %d: %v\n%s", limit, err, run.out.String())
		}
		at.untouched(t, fmt.Sprintf("limit %d", limit))
	}
}

// TestNoSpace asks for more than any disk has: a hole of 8 TiB in the source is refused before anything is written.
func TestNoSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.safetensors")
	header := "{\"x\":{\"dtype\":\"U8\",\"shape\":[8796093022208],\"data_offsets\":[0,8796093022208]}}"
	b := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(b))+8796093022208); err != nil {
		t.Skip(err)
	}
	at := newPlace(t, "old")
	_, err := newPlan(t, path, plain(packed.Recipe{})).Run(context.Background(), at.target)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free") {
		t.Errorf("no space: %v", err)
	}
	at.untouched(t, "no space")
}
