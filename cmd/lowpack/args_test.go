package main

import (
	"io"
	"strings"
	"testing"
)

func TestFlagsFirst(t *testing.T) {
	app := newApp(strings.NewReader(""), io.Discard, io.Discard)
	for _, c := range []struct{ args, want string }{
		{"", ""},
		{"--help", "--help"},
		{"frobnicate a --json", "frobnicate a --json"},
		{"verify FILE --json", "verify --json -- FILE"},
		{"run FILE -n 3 -p text", "run -n 3 -p text -- FILE"},
		{"run -n=3 FILE", "run -n=3 -- FILE"},
		{"run -- -n 3", "run -- -n 3"},
		{"run -", "run -- -"},
		{"bench FILE --json --batch 1,8", "bench --json --batch 1,8 -- FILE"},
		{"bench machine --threads 1 --json", "bench machine --threads 1 --json"},
		{"bench --threads 1 machine --json", "bench machine --threads 1 --json"},
		{"bench --json machine extra --threads 1", "bench machine --json --threads 1 -- extra"},
		{"bench --tokens 1 --layout vnni4i kernels", "bench kernels --tokens 1 --layout vnni4i"},
		{"bench --svg machine FILE", "bench --svg machine -- FILE"},
		{"bench FILE machine", "bench -- FILE machine"},
		{"bench machine --help", "bench machine --help"},
	} {
		got, err := flagsFirst(app, append([]string{"lowpack"}, strings.Fields(c.args)...))
		if err != nil || strings.Join(got[1:], " ") != c.want {
			t.Errorf("%q: %q, %v; %q expected", c.args, got[1:], err, c.want)
		}
	}
	for _, args := range []string{"run FILE -n", "bench machine --threads"} {
		if _, err := flagsFirst(app, append([]string{"lowpack"}, strings.Fields(args)...)); err == nil ||
			exitCode(err) != 2 {
			t.Errorf("%q: %v", args, err)
		}
	}
}
