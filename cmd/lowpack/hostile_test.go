package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/hostile"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// maxMemory bounds one command on one hostile file (G3). It counts pages of the program and of files too, of which the
// kernel maps more or fewer.
const maxMemory = 80 << 20

// maxTime bounds the CPU time of one command on one hostile file (G3). It leaves room for slowdowns by other load, so
// that only a near-endless command exceeds it.
func maxTime() time.Duration {
	if long.All {
		return time.Second
	}
	return time.Minute
}

// said returns the words by which a refusal reveals its class.
func said(c hostile.Class) string {
	switch c {
	case hostile.Limit:
		return "limit exceeded: "
	case hostile.Unsupported:
		return "unsupported: "
	}
	return "corrupt: "
}

// trial is one case, deep in an empty directory, so that stray writes are detected.
type trial struct {
	*testing.T
	hostile.Case
	base      string // of everything
	path, out string // the case; a directory for the output of commands
	processes *residents
}

func newTrial(t *testing.T, p *residents, c hostile.Case, build func(dir string) (string, error)) *trial {
	t.Helper()
	r := &trial{T: t, Case: c, base: t.TempDir(), processes: p}
	in := filepath.Join(r.base, "a", "b", "in")
	r.out = filepath.Join(r.base, "a", "b", "out")
	if err := errors.Join(os.MkdirAll(in, 0o755), os.Mkdir(r.out, 0o755)); err != nil {
		t.Fatal(err)
	}
	path, err := build(in)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system makes no pipes")
	}
	if err != nil {
		t.Fatal(err)
	}
	r.path = path
	return r
}

// target is a new file below out.
func (r *trial) target(name string) string { return filepath.Join(r.out, name) }

// run runs a command within the bounds. It must end with code 0 or 1, without a panic, and write nothing, except below
// out if it is a command that writes and succeeds.
func (r *trial) run(args ...string) outcome {
	r.Helper()
	before := tree(r, r.base)
	o := outcome{}
	if long.All {
		o = command(r, args...)
	} else {
		o = r.processes.run(r, args...)
	}
	r.Logf("%s: exit code %d, %d MiB, %v", args[0], o.code, o.memory>>20, o.cpu)
	after := tree(r, r.base)
	writes := args[0] == "convert" || args[0] == "repack" || args[0] == "unpack"
	if writes && o.code == 0 {
		before, after = notBelow(before, r.out), notBelow(after, r.out)
	}
	switch {
	case o.killed:
		r.Errorf("%q hangs\n%s", args, o.out)
	case o.code != 0 && o.code != 1:
		r.Errorf("%q: exit code %d\n%s", args, o.code, o.out)
	case strings.Contains(o.out, "goroutine "):
		r.Errorf("%q panics\n%s", args, o.out)
	case o.memory > maxMemory:
		r.Errorf("%q takes %d MiB, more than %d", args, o.memory>>20, maxMemory>>20)
	case o.cpu > maxTime():
		r.Errorf("%q takes %v, more than %v", args, o.cpu, maxTime())
	case runtime.GOOS == "linux" && o.memory == 0:
		r.Errorf("%q did not tell its memory", args)
	case before != after:
		r.Errorf("%q writes\nbefore:\n%s\nafter:\n%s", args, before, after)
	}
	return o
}

// notBelow removes the lines about a path from a tree.
func notBelow(tree, path string) string {
	var rest []string
	for line := range strings.Lines(tree) {
		if !strings.HasPrefix(line, path) {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "")
}

// accepts demands that a command succeeds.
func (r *trial) accepts(args ...string) {
	r.Helper()
	if o := r.run(args...); o.code != 0 {
		r.Errorf("%q refuses %s (%s)\n%s", args, r.ID, r.Note, o.out)
	}
}

// refuses demands that a command fails with an error that contains the words.
func (r *trial) refuses(words string, args ...string) {
	r.Helper()
	if o := r.run(args...); o.code != 1 || !strings.Contains(o.out, words) {
		r.Errorf("%q: exit code %d, want 1 and %q for %s (%s)\n%s", args, o.code, words, r.ID, r.Note, o.out)
	}
}

// checkpoint runs a case whose fault lies in a checkpoint. control is an unrelated packed file.
func (r *trial) checkpoint(control string) {
	words, target := said(r.Class), r.target("out.safetensors")
	switch {
	case r.Class == hostile.Accept:
		r.accepts("inspect", r.path)
		r.accepts("convert", r.path, "-o", target)
		r.accepts("verify", target, "--source", r.path)
		if r.Group == hostile.Container { // weights alone
			r.refuses("tokenizer", "run", target, "-p", "the")
		} else {
			r.accepts("run", target, "-p", "the", "-n", "2")
		}
	case r.Group == hostile.Tokenizer && r.Class != hostile.Unsupported:
		r.accepts("inspect", r.path)
		r.refuses(words, "convert", r.path, "-o", target)
		r.refuses(words, "tokenize", r.path, "-p", "the")
	case r.Group == hostile.Tokenizer: // a packed file carries it along; who tokenizes refuses it
		r.accepts("inspect", r.path)
		r.accepts("convert", r.path, "-o", target)
		r.accepts("inspect", target)
		r.accepts("verify", target)
		r.refuses(words, "run", target, "-p", "the", "-n", "2")
		r.refuses(words, "tokenize", r.path, "-p", "the")
	default:
		if strings.HasPrefix(r.ID, "S34") { // the header is right, the weights are not
			r.accepts("inspect", r.path)
		} else {
			r.refuses(words, "inspect", r.path)
		}
		r.refuses(words, "convert", r.path, "-o", target)
		r.refuses("FAIL", "verify", control, "--source", r.path)
	}
	r.refuses(": ", "verify", r.path) // no case is a packed file
	if r.Class == hostile.Accept && r.Group != hostile.Container {
		r.accepts("run", r.path, "-p", "the", "-n", "2")
	} else {
		r.refuses(": ", "run", r.path, "-p", "the")
	}
}

// packedFile runs a case that is a packed file. Faults after the header are detected by the commands that read that
// part.
func (r *trial) packedFile() {
	commands := [][]string{
		{"run", r.path, "-p", "the", "-n", "2"},
		{"repack", r.path, "--layout", "vnni4i", "-o", r.target("repacked.safetensors")},
		{"unpack", r.path, "-o", r.target("unpacked")},
		{"convert", r.path, "--quant", "none", "-o", r.target("converted.safetensors")},
	}
	if r.Class == hostile.Accept {
		r.accepts("verify", r.path)
		r.accepts("inspect", r.path)
		for _, c := range commands[:3] {
			r.accepts(c...)
		}
		return
	}
	r.refuses("rule "+r.Rule+": ", "verify", r.path)
	switch r.Rule {
	case "F7", "F8", "F9", "F15", "F17", "F24", "F25": // of the data, or what a model needs
		for _, c := range append(commands, []string{"inspect", r.path}) {
			r.run(c...)
		}
	default:
		r.refuses(said(r.Class), "inspect", r.path)
		for _, c := range commands[:3] {
			r.refuses(said(r.Class), c...)
		}
		r.run(commands[3]...)
	}
}

// TestHostile runs every case of the corpus through every command that reads it: many commands in one process, and with
// LOWPACK_LONG each in a separate process, whose time is bounded too.
func TestHostile(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // where run caches packed files
	base, control := t.TempDir(), filepath.Join(t.TempDir(), "control.safetensors")
	if _, err := hostile.Base(base); err != nil {
		t.Fatal(err)
	}
	if o := command(t, "convert", base, "-o", control); o.code != 0 {
		t.Fatal(o.out)
	}
	processes := &residents{t: t}
	for _, c := range hostile.Cases() {
		if c.During != nil {
			continue // cases that change while read are tested in formats/checkpoint and convert
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			r := newTrial(t, processes, c, c.Build)
			if c.Group == hostile.Packed {
				r.packedFile()
			} else {
				r.checkpoint(control)
			}
		})
	}
}

// TestFormatVersions: for a file in another version of the format, every reader names the version, and what to do.
func TestFormatVersions(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]string{
		"P07c": "format version 99, this program reads version 2: a newer lowpack reads it",
		"P07e": "format version 0, this program reads version 2: convert the checkpoint again",
		"P07f": "format version 3, this program reads version 2: a newer lowpack reads it",
		"P07g": "written by lowpack 0.1, in format version 1, and this program reads version 2: convert the " +
			"checkpoint again",
	} {
		path := shared.Testdata(t, "hostile/packed/"+name+".safetensors")
		for _, args := range [][]string{
			{"inspect", path}, {"verify", path}, {"run", path, "-p", "the"}, {"repack", path, "--layout", "i2", "-o",
				filepath.Join(t.TempDir(), "x")},
			{"unpack", path, "-o", filepath.Join(t.TempDir(), "x")}, {"bench", path}, {"tokenize", path, "-p", "the"},
		} {
			if o := command(t, args...); o.code != 1 || !strings.Contains(o.out, "unsupported: ") ||
				!strings.Contains(o.out, words) {
				t.Errorf("%q: exit code %d\n%s", args, o.code, o.out)
			}
		}
	}
}

// TestHostileFiles runs third-party files through the same commands: safetensors files with their verdicts, and files
// that broke readers of another format, which lowpack does not read.
func TestHostileFiles(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var verdicts []struct{ File, Expect string }
	text, err := os.ReadFile(shared.Path(t, "data/hostile/safetensors/MANIFEST.json"))
	if err == nil {
		err = json.Unmarshal(text, &verdicts)
	}
	if err != nil {
		t.Fatal(err)
	}
	accepted := map[string]bool{}
	for _, v := range verdicts {
		// One file has white space other than spaces after the JSON, which the format does not allow.
		accepted[v.File] = v.Expect == "accept" && v.File != "test_whitespace_padded_header.safetensors"
	}
	processes := &residents{t: t}
	for _, folder := range []string{"data/hostile/safetensors", "data/hostile/gguf"} {
		files, err := os.ReadDir(shared.Path(t, folder))
		if err != nil || len(files) < 10 {
			t.Fatal(folder, len(files), err)
		}
		for _, f := range files {
			t.Run(f.Name(), func(t *testing.T) {
				t.Parallel()
				r := newTrial(t, processes, hostile.Case{ID: f.Name()}, func(dir string) (string, error) {
					b, err := os.ReadFile(filepath.Join(shared.Path(t, folder), f.Name()))
					path := filepath.Join(dir, "model.safetensors")
					return path, errors.Join(err, os.WriteFile(path, b, 0o644))
				})
				convert := []string{"convert", r.path, "--quant", "none", "-o", r.target("out.safetensors")}
				if accepted[f.Name()] {
					r.accepts("inspect", r.path)
					r.accepts(convert...)
					r.accepts("verify", r.target("out.safetensors"))
				} else {
					r.refuses(": ", "inspect", r.path)
					r.refuses(": ", convert...)
				}
				r.refuses("FAIL", "verify", r.path)
				r.refuses(": ", "run", r.path, "-p", "the")
			})
		}
	}
}
