package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// usualGC resets GOGC to the default, so that a process uses as much memory as for users, whatever GOGC is for the
// tests.
const usualGC = "GOGC="

// testChoices is the environment variable with the folder in place of that of the user's choices.
const testChoices = "LOWPACK_TEST_CHOICES"

// probe is the program; it also writes its peak memory to file descriptor 3.
const probe = "lowpack-measured"

func TestMain(m *testing.M) {
	choicesFolder = func() (string, error) {
		folder := os.Getenv(testChoices)
		if folder == "" {
			return "", fs.ErrNotExist
		}
		return folder, nil
	}
	if os.Getenv("LOWPACK_MAIN") != "" { // the test binary acts as lowpack when a shell calls it
		main()
	}
	testscript.Main(m, map[string]func(){
		"lowpack": main,
		stuck:     beStuck,
		resident:  beResident,
		probe: func() {
			limitFiles(os.Getenv("LOWPACK_TEST_FSIZE"))
			code := Main(os.Args, os.Stdin, os.Stdout, os.Stderr)
			if report := os.NewFile(3, "report"); report != nil {
				fmt.Fprint(report, peakMemory())
			}
			os.Exit(code)
		},
	})
}

// stuck is a command that ignores signals while it writes a directory, like one whose disk does not respond.
const stuck = "lowpack-stuck"

func beStuck() {
	d, err := atomicfile.CreateDir(atomicfile.OS, os.Args[1])
	if err == nil {
		_, err = d.Create("half")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	notify(context.Background(), os.Stderr)
	fmt.Println("begun")
	select {}
}

// outcome is the result of a command in a separate process.
type outcome struct {
	code   int
	out    string // standard output and standard error
	memory int64  // peak in bytes; 0 = unknown
	cpu    time.Duration
	killed bool // it did not end by itself
}

// reserve is the part of a test's time reserved for reporting which command hangs.
const reserve = 5 * time.Second

// untilDeadline returns a context for the processes of a test: they are killed shortly before go test -timeout would
// end the test itself.
func untilDeadline(t testing.TB) context.Context {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := d.Deadline(); ok {
			ctx, cancel := context.WithDeadline(t.Context(), end.Add(-reserve))
			t.Cleanup(cancel)
			return ctx
		}
	}
	return t.Context()
}

// command runs the program in a separate process. Standard input is empty.
func command(t testing.TB, args ...string) outcome {
	t.Helper()
	ctx := untilDeadline(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, probe, args...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &out, &out, []*os.File{write}
	cmd.Env = append(os.Environ(), usualGC)
	err = cmd.Start()
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	report, _ := io.ReadAll(read)
	cmd.Wait()
	o := outcome{code: cmd.ProcessState.ExitCode(), out: out.String(), killed: ctx.Err() != nil}
	o.memory, _ = strconv.ParseInt(string(report), 10, 64)
	o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return o
}

// tree lists everything below a directory, files with sizes and times: equal texts mean that nothing changed.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		switch {
		case err != nil:
		case d.IsDir(): // its time changes with what is written and removed again
			fmt.Fprintln(&list, path, info.Mode())
		default:
			fmt.Fprintln(&list, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
