package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Progress tells how many bytes of a model are there, of how many, and which file is being read.
type Progress func(done, total int64, file string)

// Result of a Pull.
type Result struct {
	Path    string // the checkpoint: the snapshot, a directory, or a GGUF file in it
	Commit  string
	Renamed string // the model's name of today, where it has another one
	Bytes   int64  // of all files
}

// parallel is how many files are downloaded side by side: enough to hide the latency of small ones.
const parallel = 4

// Pull makes sure that the cache holds the files of a model that a conversion needs, each with the digest that the hub
// lists, and returns the checkpoint. An interrupted Pull is continued by the next one. Of a model in GGUF that is the file that
// the name means, or all its parts.
//
// Errors: fs.ErrNotExist for a model or revision that is not there, fs.ErrPermission for a gated one, pack.ErrUnsupported for
// one without weights that can be read or with several GGUF files to choose from, pack.ErrCorrupt for bytes that do not match; all name the model and, where there is one, the
// file.
func (c *Client) Pull(ctx context.Context, n Name, progress Progress) (*Result, error) {
	if c.Offline {
		return c.cached(n)
	}
	l, err := c.list(ctx, n)
	if err != nil {
		return nil, err
	}
	parts, err := l.gguf(n)
	if err != nil {
		return nil, err
	}
	want := wanted
	if parts != nil {
		want = func(name string) bool { return slices.Contains(parts, name) }
	}
	files, err := l.files(n, want)
	if err != nil {
		return nil, err
	}
	if err := l.check(n, files); parts == nil && err != nil {
		return nil, err
	}
	p := &pull{Client: c, name: n, commit: l.Commit, progress: progress}
	if files, err = p.choose(ctx, files); err != nil {
		return nil, fmt.Errorf("%s: %w", n, err)
	}
	if err := p.all(ctx, files); err != nil {
		return nil, fmt.Errorf("%s: %w", n, err)
	}
	r := &Result{Path: checkpoint(p.snapshot(), parts), Commit: l.Commit, Bytes: p.total}
	if l.ID != "" && l.ID != n.ID() {
		r.Renamed = l.ID
	}
	return r, p.noteRef()
}

// checkpoint is what can be opened in a snapshot: the snapshot, or the first of some files.
func checkpoint(snapshot string, parts []string) string {
	if parts == nil {
		return snapshot
	}
	return filepath.Join(snapshot, filepath.FromSlash(parts[0]))
}

// pull is a Pull at work.
type pull struct {
	*Client
	name     Name
	commit   string
	progress Progress
	total    int64
	done     atomic.Int64
}

func (p *pull) snapshot() string {
	return filepath.Join(p.Cache, p.name.folder(), "snapshots", p.commit)
}

// choose downloads the index, if there is one, and drops weights that it does not name.
func (p *pull) choose(ctx context.Context, files []file) ([]file, error) {
	for _, f := range files {
		if f.name != indexName {
			continue
		}
		if f.size > maxListing {
			return nil, fmt.Errorf("%s has %d bytes, more than %d", f.name, f.size, maxListing)
		}
		if err := p.one(ctx, f, func(int64) {}); err != nil {
			return nil, err
		}
		index, err := os.ReadFile(filepath.Join(p.snapshot(), f.name))
		if err != nil {
			return nil, err
		}
		return weights(files, index)
	}
	return files, nil
}

// all downloads the files side by side; the first error ends it.
func (p *pull) all(ctx context.Context, files []file) error {
	for _, f := range files {
		p.total += f.size
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, f := range files {
		g.Go(func() error {
			return p.one(ctx, f, func(n int64) {
				if done := p.done.Add(n); p.progress != nil {
					p.progress(done, p.total, f.name)
				}
			})
		})
	}
	return g.Wait()
}

// one downloads a file and enters it in the snapshot.
func (p *pull) one(ctx context.Context, f file, moved func(int64)) error {
	link := filepath.Join(p.snapshot(), filepath.FromSlash(f.name))
	if info, err := os.Stat(link); err == nil && info.Size() == f.size {
		moved(f.size)
		return nil
	}
	if err := p.blob(ctx, p.name, p.commit, f, moved); err != nil {
		return err
	}
	return enter(filepath.Join(p.Cache, p.name.folder(), "blobs", f.blob), link)
}

// enter makes the snapshot's link to a blob; where the system allows none, the file itself moves there, as
// huggingface_hub does it.
func enter(blob, link string) error {
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	relative, err := filepath.Rel(filepath.Dir(link), blob)
	if err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err = os.Symlink(relative, link)
	if err == nil || errors.Is(err, os.ErrExist) { // another process was faster
		return nil
	}
	return os.Rename(blob, link)
}

// noteRef writes which commit the branch or tag stood for. It comes last: whoever works offline finds whole snapshots only.
func (p *pull) noteRef() error {
	if p.name.Revision == p.commit {
		return nil
	}
	ref := filepath.Join(p.Cache, p.name.folder(), "refs", filepath.FromSlash(p.name.Revision))
	if text, err := os.ReadFile(ref); err == nil && strings.TrimSpace(string(text)) == p.commit {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(ref), 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(ref), ".ref-*")
	if err != nil {
		return err
	}
	_, err = temporary.WriteString(p.commit)
	if err := errors.Join(err, temporary.Chmod(0o644), temporary.Close()); err != nil {
		os.Remove(temporary.Name())
		return err
	}
	return os.Rename(temporary.Name(), ref)
}
