package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
)

// TestPathFlags: every flag whose value is a path declares whether the command reads or writes it, so that checkPaths
// knows it.
func TestPathFlags(t *testing.T) {
	eachFlag(func(c *cli.Command, f cli.Flag) {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok {
			return
		}
		word := manual.Placeholder(d)
		isPath := word == "DIR" || word == "PATH" || strings.HasPrefix(word, "FILE") ||
			strings.Contains(strings.ToLower(d.GetUsage()), " file `") && d.TakesValue()
		_, reads := f.(input)
		_, writes := f.(written)
		if isPath != (reads || writes) {
			t.Errorf("%s --%s: a path: %v, input: %v, output: %v", c.Name, f.Names()[0], isPath, reads, writes)
		}
	})
}

// sample makes files for the arguments of commands: a file, a complete model directory, and links.
func sample(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	model := filepath.Join(dir, "model")
	if err := os.Mkdir(model, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "other", "model/config.json", "model/tokenizer.json",
		"model/model-00001-of-00002.safetensors"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"symlink": "file", "dirlink": ".",
		"weights": "model/model-00001-of-00002.safetensors"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	for link, target := range map[string]string{"hardlink": "file", "tokens": "model/tokenizer.json"} {
		if err := os.Link(filepath.Join(dir, target), filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	return dir
}

// flagWith gives a flag a path.
func flagWith(f cli.Flag, path string) []string {
	if k, ok := f.(kindOutput); ok {
		path = k.kinds[0] + path
	}
	return []string{"--" + f.Names()[0], path}
}

// words of the command line of a command or subcommand.
func lineOf(c, sub *cli.Command, args ...[]string) []string {
	line := []string{"lowpack", c.Name}
	if sub != c {
		line = append(line, sub.Name)
	}
	return slices.Concat(append([][]string{line}, args...)...)
}

// collisions lists, for every command and every pair of an output with an input or another output, command lines that
// would destroy something. All paths lie in dir.
func collisions(dir string) (lines [][]string) {
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range commands() {
		for _, cmd := range append([]*cli.Command{c}, c.Subcommands...) {
			var reads [][]string // an input flag; its path comes last
			var writes []cli.Flag
			if readsArguments(cmd) {
				reads = append(reads, []string{"--"})
			}
			for _, f := range cmd.Flags {
				switch f.(type) {
				case input:
					reads = append(reads, []string{"--" + f.Names()[0]})
				case written:
					writes = append(writes, f)
				}
			}
			for i, w := range writes {
				for _, r := range reads {
					for _, pair := range [][2]string{
						{"file", "file"}, {"file", "./model/../file"}, {"file", "hardlink"}, {"symlink", "file"},
						{"hardlink", "file"},
						{"file", "dirlink/file"}, {"model", "model/config.json"}, {"model", "tokens"},
						{"dirlink/model", "tokens"},
						{"model", "dirlink/model/new"},
						{"model", "model/sub/../new"},
					} {
						if _, path, _ := strings.Cut(pair[1], "sub/"); path != "" {
							os.Mkdir(at("model/sub"), 0o755)
						}
						lines = append(lines, lineOf(c, cmd, flagWith(w, dir+"/"+pair[1]),
							append(slices.Clone(r), at(pair[0]))))
					}
				}
				for _, other := range writes[:i] {
					for _, pair := range [][2]string{{"new", "new"}, {"new", "dirlink/new"}, {"file", "hardlink"},
						{"other", "dirlink/other"}} {
						lines = append(lines, lineOf(c, cmd, flagWith(w, at(pair[0])), flagWith(other, at(pair[1]))))
					}
				}
				for _, bad := range []string{"", "-"} {
					lines = append(lines, lineOf(c, cmd, flagWith(w, bad)))
				}
			}
		}
	}
	return lines
}

// collision matches the errors of checkPaths.
var collision = regexp.MustCompile(`same path given for two outputs: |which is read|^lowpack: invalid value ("-"|""|"junit:") for `)

// TestCollisions: no command overwrites its input, or writes two outputs to one place; it reports this before any work.
func TestCollisions(t *testing.T) {
	dir := sample(t)
	lines := collisions(dir)
	before := tree(t, dir)
	for _, line := range lines {
		var out, notes bytes.Buffer
		if code := Main(line, nil, &out, &notes); code != 2 || !collision.MatchString(notes.String()) || out.Len() > 0 {
			t.Errorf("%q: exit code %d\n%s%s", line[1:], code, &out, &notes)
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if len(lines) < 250 {
		t.Errorf("only %d command lines", len(lines))
	}
}

// TestStreamCollisions: standard input and output are inputs and outputs too.
func TestStreamCollisions(t *testing.T) {
	dir := sample(t)
	file, err := os.OpenFile(filepath.Join(dir, "file"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var notes bytes.Buffer
	args := []string{"lowpack", "run", filepath.Join(dir, "other"), "--logits", filepath.Join(dir, "hardlink")}
	if code := Main(args, file, &notes, &notes); code != 2 ||
		!strings.Contains(notes.String(), "standard input, which") {
		t.Errorf("exit code %d\n%s", code, &notes)
	}
	notes.Reset()
	if code := Main([]string{"lowpack", "layouts", "vnni4i"}, nil, file, file); code != 0 {
		t.Errorf("standard output and standard error in one file: exit code %d", code)
	}
	if code := Main(append(args, "-p", "x"), nil, file, &notes); code != 2 ||
		!strings.Contains(notes.String(), "hardlink and standard output") {
		t.Errorf("exit code %d\n%s", code, &notes)
	}
}

// TestEmptyPaths: an empty path is not the working directory.
func TestEmptyPaths(t *testing.T) {
	for _, c := range commands() {
		for _, cmd := range append([]*cli.Command{c}, c.Subcommands...) {
			if !readsArguments(cmd) {
				continue
			}
			var notes bytes.Buffer
			if code := Main(lineOf(c, cmd, []string{""}), nil, &notes, &notes); code != 2 ||
				!strings.Contains(notes.String(), `invalid value ""`) {
				t.Errorf("%s: exit code %d\n%s", cmd.Name, code, &notes)
			}
		}
	}
}

// TestDrawings: every command that draws takes only a name that ends in .svg.
func TestDrawings(t *testing.T) {
	drawing := 0
	for _, c := range commands() {
		for _, cmd := range append([]*cli.Command{c}, c.Subcommands...) {
			if !slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return f.Names()[0] == "svg" }) {
				continue
			}
			drawing++
			for _, name := range []string{"x.png", "svg", "x.svg.gz"} {
				code, said := inPlace(lineOf(c, cmd, []string{"--svg", filepath.Join(t.TempDir(), name)})[1:]...)
				if code != 2 || !strings.Contains(said, "must end in .svg") {
					t.Errorf("%s --svg %s: exit code %d: %s", cmd.Name, name, code, said)
				}
			}
		}
	}
	if drawing < 5 {
		t.Errorf("only %d commands have --svg", drawing)
	}
}
