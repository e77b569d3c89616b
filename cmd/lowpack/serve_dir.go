package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/signing"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/runtime/server"
)

// modelFolder is a folder whose packed files are served, as they come and go.
type modelFolder struct {
	dir   string
	trust *signing.Trust // nil = none
	open  func(name, path string) (server.Model, error)
	note  func(string)

	files   map[string]*folderFile // by path
	version uint64                 // of the last file that was new or had changed
}

// folderFile is a file as it was seen.
type folderFile struct {
	version         uint64
	file, signature os.FileInfo // signature is nil where none is looked for, or there is none
	refused         atomic.Bool // it could not be opened
	again           atomic.Bool // for a reason that may pass, such as a lack of descriptors or of rights
}

// isModelFolder reports whether an argument is a folder of models, and not a checkpoint.
func isModelFolder(arg string) bool {
	info, err := os.Stat(arg)
	return err == nil && info.IsDir() && !isCheckpoint(arg)
}

// serveFolder serves the packed files of a folder, which may be none at first.
func serveFolder(c *cli.Context, o server.Options, dir string, trust *signing.Trust) error {
	f := &modelFolder{dir: dir, trust: trust, note: o.Note, open: func(name, path string) (server.Model, error) {
		m, err := hostedFile(c, name, path, trust)
		if err == nil {
			m.Close = m.File.Close
		}
		return m, err
	}}
	entries, err := f.models()
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		note(c, fmt.Sprintf("%s holds no packed file yet", dir))
	}
	o.Source = f.models
	return serveModels(c, o, "the packed files of "+dir)
}

// models is the server.Options.Source of the folder: its packed files in the order of their names, which are those of
// the files without extension. Hidden files are left out, such as those that are being written.
func (f *modelFolder) models() ([]server.Entry, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	var list []server.Entry
	seen := map[string]*folderFile{}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), packedExt)
		if !ok || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(f.dir, e.Name())
		if shown := printable.Line(name); shown != name { // clients could not send it, or see another one
			if f.files[path] == nil {
				f.note(fmt.Sprintf("%s is not served: its name is not printable UTF-8; rename it", shown+packedExt))
			}
			seen[path] = &folderFile{}
			continue
		}
		if file := f.look(path); file != nil {
			seen[path] = file
			list = append(list, f.entry(name, path, file))
		}
	}
	f.files = seen
	return list, nil
}

// look returns a file with its version, which is another one if the file is not as it was; nil = it was removed
// meanwhile. The signature counts only for a file that was refused: one that is open was checked.
func (f *modelFolder) look(path string) *folderFile {
	now := &folderFile{}
	var err error
	if now.file, err = os.Stat(path); err != nil {
		if now.file, err = os.Lstat(path); err != nil { // a dangling link is there
			return nil
		}
	}
	if f.trust != nil {
		now.signature, _ = os.Stat(signatureOf(path))
	}
	known := f.files[path]
	if known != nil && unchanged(known.file, now.file) && !known.again.Load() &&
		(!known.refused.Load() || unchanged(known.signature, now.signature)) {
		return known
	}
	f.version++
	now.version = f.version
	return now
}

// unchanged reports whether a path leads to the same file of the same size and time, or still to none.
func unchanged(before, now os.FileInfo) bool {
	if before == nil || now == nil {
		return before == nil && now == nil
	}
	return os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}

func (f *modelFolder) entry(name, path string, file *folderFile) server.Entry {
	return server.Entry{ID: name, Version: file.version, Open: func() (server.Model, error) {
		m, err := f.open(name, path)
		file.refused.Store(err != nil)
		file.again.Store(err != nil && !faulty(err))
		return m, err
	}}
}

// checkFolder refuses what does not go with a folder.
func checkFolder(c *cli.Context) error {
	for _, arg := range c.Args().Slice() {
		switch {
		case !isModelFolder(arg):
			continue
		case c.NArg() > 1:
			return usagef("%s is a folder of models: it is served alone", printable.Line(arg))
		}
		for _, name := range []string{"model-name", "any-model"} {
			if c.IsSet(name) {
				return usagef("--%s cannot be combined with a folder, whose models may change", name)
			}
		}
	}
	return nil
}
