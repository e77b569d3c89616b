package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/seed"
)

// TestShow shows the events of packages that pass, skip, fail, panic, exit, do not compile and have no tests.
func TestShow(t *testing.T) {
	for _, v := range os.Environ() { // the commands that repeat a test name these
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "LOWPACK_") || name == "GOMAXPROCS" ||
			name == "GOGC" {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Setenv("CGO_ENABLED", "0")
	events, err := os.Open("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	want, err := os.ReadFile("testdata/want.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	v := newView(&got, []string{"-short", "-run", "Test", "./..."})
	if err := v.show(events); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("printed:\n%s\nwant:\n%s", got.String(), want)
	}
}

// TestSilence: while nothing ends, a line says what runs.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, in := io.Pipe()
		go func() {
			time.Sleep(silence + time.Second)
			fmt.Fprintln(in, `{"Action":"start","Package":"example/slow"}`)
			fmt.Fprintln(in, `{"Action":"run","Package":"example/slow","Test":"TestSlow"}`)
			time.Sleep(silence)
			fmt.Fprintln(in, `{"Action":"output","Package":"example/slow","Output":"ok example/slow\n"}`)
			fmt.Fprintln(in, `{"Action":"pass","Package":"example/slow"}`)
			in.Close()
		}()
		var got strings.Builder
		v := newView(&got, nil)
		v.plan = newPlan([]string{"example/slow", "example/other"}, map[string]float64{"example/slow": 20})
		if err := v.show(events); err != nil {
			t.Error(err)
		}
		want := "... 8s: 0 of 2 packages; compiling\n" +
			"... 16s: 0 of 2 packages; running example/slow TestSlow 7s\n"
		if !strings.HasPrefix(got.String(), want) ||
			!strings.HasSuffix(got.String(), "ok example/slow\t[1 of 2 packages, about 17s left]\n") {
			t.Errorf("printed:\n%s", got.String())
		}
	})
}

// TestRepeat: the command repeats one test, with the flags that choose none.
func TestRepeat(t *testing.T) {
	f := failure{pkg: "example/x", test: "TestA/it's_(1)/b"}
	flags := flagsOf([]string{"-race", "-run", "Test", "-tags", "purego", "-count=3", "-timeout=2m", "./x"})
	want := `go test -count=1 -race -tags purego -timeout=2m -run '^TestA$/^it'\''s_\(1\)$/^b$' example/x` + "\n"
	if got := f.text(flags); !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant: %s", got, want)
	}
	t.Setenv(seed.Env, "")
	f.output = []string{"    a_test.go:1: LOWPACK_SEED=17\n", "    a_test.go:2: 2 is not 3\n"}
	if got := f.text(flags); !strings.Contains(got, "LOWPACK_SEED=17 go test ") {
		t.Errorf("%s\nwant the seed", got)
	}
}
