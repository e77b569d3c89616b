package hub

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
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

// Drop removes the incomplete blobs of a model and returns the number of bytes freed. Snapshots stay as they are: which
// of them an interrupted download has left, and which another program uses, cannot be told. Without snapshots nothing
// refers to the complete blobs, and all of the folder is removed.
func (c *Client) Drop(u *Unfinished) (freed int64, err error) {
	return c.removeFrom(u.Name, func(r *removal) error {
		for _, blob := range u.blobs {
			if err := r.remove(blob); err != nil {
				return err
			}
		}
		return nil
	})
}
