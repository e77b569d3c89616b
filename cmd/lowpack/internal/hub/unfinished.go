package hub

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// unfinishedEnd is the end of the names of incomplete blobs, also of those of huggingface_hub.
const unfinishedEnd = ".incomplete"

// Unfinished is a model of which a download was interrupted.
type Unfinished struct {
	Name         // without revision and file
	Path  string // folder of the model
	blobs []string
}

// Files are the paths of its incomplete blobs.
func (u *Unfinished) Files() (list []string) {
	for _, blob := range u.blobs {
		list = append(list, filepath.Join(u.Path, filepath.FromSlash(blob)))
	}
	return list
}

// Unfinished lists the models of the cache with interrupted downloads, by name.
func (c *Client) Unfinished() (list []Unfinished, err error) {
	names, err := c.names()
	for _, n := range names {
		u := Unfinished{Name: n, Path: filepath.Join(c.Cache, n.folder())}
		blobs, failed := os.ReadDir(filepath.Join(u.Path, "blobs"))
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			return nil, failed
		}
		for _, b := range blobs {
			if b.Type().IsRegular() && strings.HasSuffix(b.Name(), unfinishedEnd) {
				u.blobs = append(u.blobs, path.Join("blobs", b.Name()))
			}
		}
		if len(u.blobs) > 0 {
			list = append(list, u)
		}
	}
	return list, err
}

// Drop removes the incomplete blobs of a model, and what else an interrupted download has left: the files beside the
// weights, in snapshots that no branch refers to. It returns the number of bytes freed. Models that List lists stay;
// so do snapshots with files that Pull does not download.
func (c *Client) Drop(u *Unfinished) (freed int64, err error) {
	return c.removeFrom(u.Name, func(r *removal) error {
		for _, blob := range u.blobs {
			if err := r.remove(blob); err != nil {
				return err
			}
		}
		named := revisionsOf(u.Path)
		snapshots, err := os.ReadDir(filepath.Join(u.Path, "snapshots"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, s := range snapshots {
			l := &Local{Name: u.Name, snapshot: filepath.Join(u.Path, "snapshots", s.Name())}
			l.files = filesIn(l.snapshot)
			if named[s.Name()] != "" || len(inSnapshot(u.Name, l.snapshot)) > 0 || !allWanted(l.files) {
				continue
			}
			if err := r.model(l); err != nil {
				return err
			}
		}
		return err
	})
}

// allWanted reports whether Pull may have downloaded all files.
func allWanted(files []string) bool {
	return !slices.ContainsFunc(files, func(name string) bool { return !wanted(name) })
}
