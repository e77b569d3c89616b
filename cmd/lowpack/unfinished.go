package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/hub"
	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/version"
)

// leftover is what an interrupted download or conversion has left of a model.
type leftover struct {
	files  []string
	then   string                // what continues and what removes it
	remove func() (int64, error) // returns the number of bytes freed; nil: not of a cache
	beside bool                  // a complete model has the name, too
}

// unfinishedAtHand returns what interrupted downloads have left in the caches.
func unfinishedAtHand() (list []local, err error) {
	if folder, err := packedFolder(); err == nil {
		if list, err = unfinishedIn(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for i := range list {
		l := &list[i]
		target := l.name
		l.name = cachedName(filepath.Base(target))
		l.left.then = continuedBy + removedBy(l.name)
		l.left.remove = func() (int64, error) { return dropResume(target) }
	}
	client, err := hub.FromEnvironment(version.Tool)
	if err != nil {
		return nil, err
	}
	models, err := client.Unfinished()
	for i := range models {
		u := &models[i]
		name := u.ID()
		list = append(list, local{name: name, path: u.Path, left: &leftover{files: u.Files(),
			then:   continuedBy + removedBy(name),
			remove: func() (int64, error) { return client.Drop(u) }}})
	}
	slices.SortStableFunc(list, func(a, b local) int { return cmp.Compare(a.name, b.name) })
	return list, err
}

// continuedBy names no model: the revision, and the file of a GGUF, of an interrupted download are not known.
const continuedBy = "the same lowpack pull continues it, "

func removedBy(name string) string {
	return "lowpack rm " + shellWord(name) + " removes it and no complete model"
}

// unfinishedIn returns the packed files of a folder whose conversion or download was interrupted, by their paths.
func unfinishedIn(dir string) (list []local, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, e := range entries {
		name, hidden := strings.CutPrefix(e.Name(), ".")
		name, left := strings.CutSuffix(name, resumeEnd)
		target := filepath.Join(dir, strings.TrimSuffix(name, convert.CodesSuffix))
		if !hidden || !left || !e.Type().IsRegular() || filepath.Ext(target) != packedExt || seen[target] {
			continue
		}
		seen[target] = true
		files, words := resumeFiles(target), []string{"rm"}
		for _, file := range files {
			words = append(words, shellWord(file))
		}
		list = append(list, local{name: target, path: files[0], left: &leftover{files: files,
			then: "the same lowpack convert --resume or lowpack pull continues it, " + strings.Join(words, " ") +
				" removes it"}})
	}
	return list, nil
}

// resumeEnd is the end of the names that atomicfile.ResumePath returns.
const resumeEnd = ".resume"

// resumeFiles returns what is there of an unfinished packed file: its data, the codes of a calibration, and journals.
func resumeFiles(target string) (files []string) {
	for _, of := range unfinishedOf(target) {
		for _, file := range []string{atomicfile.ResumePath(of), convert.JournalPath(of)} {
			if isFile(file) {
				files = append(files, file)
			}
		}
	}
	return files
}

// unfinishedOf lists the targets that a conversion may leave unfinished.
func unfinishedOf(target string) []string { return []string{target, target + convert.CodesSuffix} }

// dropResume removes what there is of an unfinished packed file, and returns the number of bytes freed.
func dropResume(target string) (freed int64, err error) {
	for _, of := range unfinishedOf(target) {
		n, err := dropUnfinished(of)
		if freed += n; err != nil {
			return freed, err
		}
	}
	return freed, nil
}

// dropUnfinished removes an unfinished file and its journal.
func dropUnfinished(target string) (freed int64, err error) {
	info, err := os.Lstat(atomicfile.ResumePath(target))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !atomicfile.DropResume(target) {
		return 0, fmt.Errorf("%s was not removed: a process uses it", atomicfile.ResumePath(target))
	}
	freed = info.Size()
	if info, err = os.Lstat(convert.JournalPath(target)); err == nil {
		err = os.Remove(convert.JournalPath(target))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return freed, nil
	case err != nil:
		return freed, err
	}
	return freed + info.Size(), nil
}
