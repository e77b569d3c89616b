package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
	"github.com/lowpack/lowpack/internal/atomicfile"
)

// input is a flag whose value is the path that the command reads.
type input struct{ *cli.StringFlag }

// output is a flag whose value is the path that the command writes.
type output struct{ *cli.StringFlag }

// path is the part of a value that is a path.
func (o output) path(value string) string { return value }

// isDir reports whether the command writes a directory.
func (o output) isDir() bool { return manual.Placeholder(o) == "DIR" }

// kindOutput is an output with a word before the path, such as junit:
type kindOutput struct {
	output
	kinds []string
}

func (o kindOutput) Offers() []string { return o.kinds }

func (o kindOutput) path(value string) string {
	_, path := o.cut(value)
	return path
}

// cut parts a value into its word and its path; both are empty if it has neither.
func (o kindOutput) cut(value string) (kind, path string) {
	for _, kind := range o.kinds {
		if path, ok := strings.CutPrefix(value, kind); ok {
			return kind, path
		}
	}
	return "", ""
}

// written is the common interface of input and output.
type written interface {
	cli.Flag
	path(value string) string
	isDir() bool
}

func inputFlag(name, usage string) cli.Flag {
	return input{&cli.StringFlag{Name: name, Usage: usage, TakesFile: true}}
}

func outputFlag(usage string) cli.Flag {
	return output{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: usage, TakesFile: true}}
}

// besideFlag is a flag for an additional output, such as a chart.
func besideFlag(name, usage string) cli.Flag {
	return output{&cli.StringFlag{Name: name, Usage: usage, TakesFile: true}}
}

// kindFlag is a flag for an output in one of several formats.
func kindFlag(name, usage string, kinds ...string) kindOutput {
	f := kindOutput{output{&cli.StringFlag{Name: name, Usage: usage, TakesFile: true}}, kinds}
	f.Action = func(_ *cli.Context, value string) error {
		if _, path := f.cut(value); path == "" {
			kind, _, _ := strings.Cut(value, ":")
			return usagef("invalid value %q for --%s: want %sFILE%s", value, name, strings.Join(kinds, "FILE or "),
				didYouMean(kind+":", kinds))
		}
		return nil
	}
	return f
}

// place is a path of a command line, with its name in messages.
type place struct {
	what, path string
	info       os.FileInfo // nil if it does not exist
	dir        bool        // must be a directory
}

func (p *place) String() string { return strings.TrimSuffix(p.what+" "+p.path, " ") } // a stream has no path

// checkPaths refuses, before any work, a command line that would write to something that it reads, or write two outputs
// to one place: by the same path, by hard or symbolic links, or into the directory of a checkpoint. It also refuses
// targets that no file can replace.
func checkPaths(c *cli.Context) error {
	reads, writes, err := placesOf(c)
	if err != nil {
		return err
	}
	for i := range writes {
		w := &writes[i]
		if err := w.writable(); err != nil {
			return err
		}
		for j := range reads {
			if err := w.apart(&reads[j]); err != nil {
				return err
			}
		}
		for j := range writes[:i] {
			streams := w.path == "" && writes[j].path == "" // >log 2>&1
			if !streams && w.same(&writes[j]) {
				return usagef("same path given for two outputs: %v and %v", &writes[j], w)
			}
		}
	}
	return nil
}

// checkDrawing refuses the name of a drawing that promises another format than SVG: most viewers go by the extension.
func checkDrawing(c *cli.Context) error {
	if name := c.String("svg"); name != "" && !strings.EqualFold(filepath.Ext(name), ".svg") {
		return usagef("--svg %s: the name must end in .svg", name)
	}
	return nil
}

// placesOf collects the paths of a command line, and standard input and output where they are files.
func placesOf(c *cli.Context) (reads, writes []place, err error) {
	add := func(list *[]place, what, path string, dir bool) {
		if path == "" {
			err = usagef("invalid value \"\" for %s: want a path", what)
		}
		if named, err := modelPath(path); err == nil && list == &reads {
			path = named
		}
		*list = append(*list, newPlace(what, path, dir))
	}
	if readsArguments(c.Command) {
		for _, arg := range c.Args().Slice() {
			add(&reads, c.Command.ArgsUsage, arg, false)
		}
	}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if !c.IsSet(name) {
			continue
		}
		switch f := f.(type) {
		case input:
			value := c.String(name) // standard input is possibly the source of a text; ./- is a file of this name
			if value == standardInput || value == selfText && name == "calibrate" {
				continue
			}
			add(&reads, manual.Dashed(name), c.String(name), false)
		case written:
			add(&writes, manual.Dashed(name), f.path(c.String(name)), f.isDir())
		}
	}
	if err == nil {
		err = checkDirectory(slices.Concat(reads, writes))
	}
	reads, writes = addStream(reads, "standard input", c.App.Reader), addStream(writes, "standard output", c.App.Writer)
	return reads, addStream(writes, "standard error", c.App.ErrWriter), err
}

// readsArguments reports whether the arguments of a command are paths.
func readsArguments(cmd *cli.Command) bool {
	return !slices.Contains([]string{"", "NAME", "MODEL...", "SHELL", "COMMAND"}, cmd.ArgsUsage)
}

func newPlace(what, path string, dir bool) place {
	p := place{what: what, path: path, dir: dir}
	if info, err := os.Stat(path); err == nil {
		p.info = info
	}
	return p
}

// addStream adds a standard stream if it is a regular file.
func addStream(list []place, what string, stream any) []place {
	if f := fileOf(stream); f != nil {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return append(list, place{what: what, info: info})
		}
	}
	return list
}

// checkDirectory reports a working directory that is gone, where relative paths lead nowhere.
func checkDirectory(list []place) error {
	if !slices.ContainsFunc(list, func(p place) bool { return !filepath.IsAbs(p.path) }) {
		return nil
	}
	if _, err := os.Getwd(); err != nil {
		return atomicfile.Failed(fmt.Errorf("the working directory is gone: %w", err))
	}
	return nil
}

// writable refuses a target that cannot be written, or replaced.
func (p *place) writable() error {
	switch {
	case p.path == "":
		return nil // a stream
	case p.path == "-":
		return usagef("invalid value \"-\" for %s: an output appears whole or not at all, which standard output "+
			"cannot; name a file (./- for one of this name)", p.what)
	case p.dir:
		return atomicfile.CheckName(p.path)
	}
	return atomicfile.Check(p.path)
}

// apart refuses an output that is an input, or lies in a directory that is one.
func (p *place) apart(in *place) error {
	if p.same(in) {
		return usagef("%v is the same file as %v, which is read", p, in)
	}
	if in.info == nil || !in.info.IsDir() || p.path == "" {
		return nil
	}
	if inside(p.path, in.info) {
		return usagef("%v lies in %v, which is read; choose a path elsewhere", p, in)
	}
	entries, err := os.ReadDir(in.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if file := newPlace(in.what, filepath.Join(in.path, e.Name()), false); p.same(&file) {
			return usagef("%v is the same file as %v, which is read", p, &file)
		}
	}
	return nil
}

// inside reports whether a path lies below a directory.
func inside(path string, dir os.FileInfo) bool {
	parent, err := realParent(path)
	for ; err == nil; parent = filepath.Dir(parent) {
		if info, err := os.Stat(parent); err == nil && os.SameFile(info, dir) {
			return true
		}
		if parent == filepath.Dir(parent) {
			break
		}
	}
	return false
}

// same reports whether two paths lead to one file. If neither exists, the directories and the names are compared.
func (p *place) same(q *place) bool {
	if p.info != nil || q.info != nil {
		return p.info != nil && q.info != nil && os.SameFile(p.info, q.info)
	}
	a, errA := realParent(p.path)
	b, errB := realParent(q.path)
	return errA == nil && errB == nil && sameDir(a, b) && sameName(filepath.Base(p.path), filepath.Base(q.path))
}

// sameDir reports whether two paths lead to one directory: on Windows a directory has many paths, for example with the
// prefix \\?\.
func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// realParent is the directory of a path without symbolic links.
func realParent(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(filepath.Dir(path))
}

// sameName compares the names of files that do not exist, ignoring case on systems whose file systems usually do.
func sameName(a, b string) bool {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return strings.EqualFold(a, b)
	}
	return a == b
}
