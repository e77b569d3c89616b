package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
)

// TestFlagsAlike: a flag name means the same in every command: flags for texts, threads and verbosity.
func TestFlagsAlike(t *testing.T) {
	texts := []string{"run", "eval", "tokenize"}
	threads := []string{"convert", "verify", "run", "serve", "batch", "repack", "unpack", "eval", "recommend", "report"}
	app := newApp(strings.NewReader(""), io.Discard, io.Discard)
	for _, c := range app.Commands {
		for _, cmd := range append([]*cli.Command{c}, c.Subcommands...) {
			names := map[string]int{}
			for _, f := range cmd.Flags {
				names[f.Names()[0]]++
			}
			for _, name := range []string{verboseName, quietName} {
				if names[name] != 1 {
					t.Errorf("%s has %d flags --%s", cmd.Name, names[name], name)
				}
			}
			prompt, file := manual.FlagOf(cmd, "-p"), manual.FlagOf(cmd, "--file")
			if has := slices.Contains(texts, cmd.Name); has != (prompt != nil) || has != (file != nil) {
				t.Errorf("%s: a text is given by %v and %v", cmd.Name, prompt, file)
			} else if has && (manual.Placeholder(prompt) != "TEXT" ||
				!strings.Contains(file.GetUsage(), "- is standard input")) {
				t.Errorf("%s: %s; %s", cmd.Name, prompt.GetUsage(), file.GetUsage())
			}
			n := manual.FlagOf(cmd, "--threads")
			isList := n != nil && manual.Placeholder(n) == "LIST" // what measures does it with each number of a list
			if has := slices.Contains(threads, cmd.Name) && cmd.ArgsUsage != "URL"; !isList && has != (n != nil) {
				t.Errorf("%s: --threads is %v", cmd.Name, n)
			} else if has && (n.GetDefaultText() != "one per CPU" || manual.FlagOf(cmd, "--jobs") != n) {
				t.Errorf("%s: --threads %s", cmd.Name, n.GetDefaultText())
			}
		}
	}
}

// TestStandardInput: - in place of a file is standard input, and so is the absence of a text.
func TestStandardInput(t *testing.T) {
	_, file := small(t)
	want := ""
	for _, args := range []string{"tokenize FILE", "tokenize FILE --file -", "tokenize FILE -p abc",
		"tokenize FILE abc"} {
		var out strings.Builder
		code := Main(strings.Fields("lowpack "+strings.Replace(args, "FILE", file, 1)), strings.NewReader("abc"),
			&out, &out)
		if want == "" {
			want = out.String()
		}
		if code != 0 || out.String() != want {
			t.Errorf("%s: %d, %q, want %q", args, code, out.String(), want)
		}
	}
}
