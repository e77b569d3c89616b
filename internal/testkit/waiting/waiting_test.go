package waiting

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var files = map[string]string{
	"internal/testkit/kit/kit.go": `package kit
import "os/exec"
type Program struct{ cmd *exec.Cmd }
func Start() *Program { return nil }
func Read() []byte { return nil }
`,
	"a/a.go": `package a
func Compute() { go func() {}() } // no test's
type Sum struct{ n int }
`,
	"a/export_test.go": `package a
func Signalled() chan int { return nil }
`,
	"a/a_test.go": `package a
import ("sync"; "testing"; "time"; clock "time"; "context"
	"github.com/lowpack/lowpack/internal/testkit/kit")
func TestMain(m *testing.M) { go m.Run() }
var begun = time.Now()
var once sync.Once
type server struct{ done chan bool }
func (*server) close() {}
type pair[T any] struct{ x T }
func (p *pair[T]) both() { select {} }
func open() server { return server{} }
func through() { x := open(); x.close() }
func Test0Goroutine(t *testing.T) { go t.Log() }
func Test0Receive(t *testing.T) { <-t.Context().Done() }
func Test0Group(t *testing.T) { var g sync.WaitGroup; g.Go(nil) }
func Test0Clock(t *testing.T) { t.Run("a", func(t *testing.T) { clock.Now() }) }
func Test0Context(t *testing.T) { context.WithCancel(t.Context()) }
func Test0Through(t *testing.T) { through() }
func Test0Variable(t *testing.T) { t.Log(begun) }
func Test0Generic(t *testing.T) { var p pair[int]; p.both() }
func Test0Program(t *testing.T) { kit.Start() }
func Example0() { through() }
func Fuzz0(f *testing.F) { through() }
func Test1Computes(t *testing.T) { Compute(); t.Log(Sum{1}.n) }
func Test1Context(t *testing.T) { t.Log(context.Background(), once) }
func Test1Local(t *testing.T) { begun, through := 1, 2; t.Log(begun, through) }
func Test1Kit(t *testing.T) { kit.Read() }
func Fuzz1(f *testing.F) {}
`,
	"a/outside_test.go": `package a_test
import ("testing"; "github.com/lowpack/lowpack/a")
func through() {}
func Test0Exported(t *testing.T) { a.Signalled() }
func Test1Outside(t *testing.T) { a.Compute(); through() }
`,
}

// TestTests: tests with a 0 in their names wait, those with a 1 do not.
func TestTests(t *testing.T) {
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests, err := Tests(root, "a")
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(tests))
	for _, name := range names {
		if want := strings.Contains(name, "0"); tests[name] != want {
			t.Errorf("%s: waits %t, want %t", name, tests[name], want)
		}
	}
	if len(names) != 18 {
		t.Errorf("%d tests: %q", len(names), names)
	}
	if _, err := Tests(root, "b"); err == nil {
		t.Error("tests of a folder that does not exist")
	}
}
