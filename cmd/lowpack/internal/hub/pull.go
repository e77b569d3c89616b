package hub

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/pack"
)

// Progress reports the bytes present, the total, and the current file.
type Progress func(done, total int64, file string)

// Result is the result of a Pull.
type Result struct {
	Path    string // the checkpoint: the snapshot directory, or a GGUF file in it
	Commit  string
	Renamed string // current name of the model, if it was renamed
	Bytes   int64  // of all files
}

// parallel is the number of concurrent downloads: enough to hide the latency of small files.
const parallel = 4

// Pull downloads the files of a model that a conversion needs, unless the cache has them, checks the digests that the
// hub lists, and returns the checkpoint. The next Pull continues an interrupted one. For a GGUF model it downloads all
// parts of the selected file.
//
// Errors: fs.ErrNotExist for an unknown model or revision, fs.ErrPermission for a gated one, pack.ErrUnsupported for a
// model without supported weights or with several matching GGUF files, pack.ErrCorrupt for wrong bytes. All errors name
// the model and, if known, the file.
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
	e, err := c.entry(n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n, err)
	}
	defer e.Close()
	p := &pull{Client: c, entry: e, name: n, commit: l.Commit, progress: progress}
	if files, err = p.choose(ctx, files); err != nil {
		return nil, fmt.Errorf("%s: %w", n, err)
	}
	if err := p.all(ctx, files); err != nil {
		return nil, fmt.Errorf("%s: %w", n, err)
	}
	r := &Result{Path: checkpoint(e.path(p.snapshot("")), parts), Commit: l.Commit, Bytes: p.total}
	if _, err := ParseName(l.ID); err == nil && l.ID != n.ID() {
		r.Renamed = l.ID
	}
	if n.Revision == l.Commit {
		return r, nil
	}
	return r, e.note(n.Revision, l.Commit) // last, so that offline use finds complete snapshots only
}

// checkpoint returns the path to open: the snapshot, or the first part.
func checkpoint(snapshot string, parts []string) string {
	if parts == nil {
		return snapshot
	}
	return filepath.Join(snapshot, filepath.FromSlash(parts[0]))
}

// pull is a Pull in progress.
type pull struct {
	*Client
	entry    *entry
	name     Name
	commit   string
	progress Progress
	total    int64
	done     atomic.Int64
}

// snapshot returns the path of a file in the snapshot; "" = the snapshot itself.
func (p *pull) snapshot(file string) string { return path.Join("snapshots", p.commit, file) }

// choose downloads the index, if there is one, and drops weights that it does not name.
func (p *pull) choose(ctx context.Context, files []file) ([]file, error) {
	for _, f := range files {
		if f.name != indexName {
			continue
		}
		if f.size > maxListing {
			return nil, fmt.Errorf("%w: %s has %d bytes, more than %d", pack.ErrLimit, f.name, f.size, maxListing)
		}
		if err := p.one(ctx, f, func(int64) {}); err != nil {
			return nil, err
		}
		index, err := os.ReadFile(p.entry.path(p.snapshot(f.name)))
		if err != nil {
			return nil, err
		}
		return weights(files, index)
	}
	return files, nil
}

// all downloads the files concurrently until the first error.
func (p *pull) all(ctx context.Context, files []file) error {
	for _, f := range files {
		p.total += f.size
	}
	if err := p.space(files); err != nil {
		return err
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

// space returns an error if the disk is too small.
func (p *pull) space(files []file) error {
	missing := map[string]int64{} // per blob, which several files may share
	for _, f := range files {
		n, err := p.missing(f)
		if err != nil {
			return err
		}
		missing[f.blob] = n
	}
	var sum int64
	for _, n := range missing {
		sum += n
	}
	if err := atomicfile.CheckSpace(p.entry.path("blobs"), sum); err != nil {
		return fmt.Errorf("%w; free some space, or set HF_HUB_CACHE to a folder on another disk", err)
	}
	return nil
}

// missing returns the bytes of a file that are still to be downloaded.
func (p *pull) missing(f file) (int64, error) {
	for _, name := range []string{p.snapshot(f.name), blobName(f)} {
		if ok, err := p.entry.has(name, f.size); ok || err != nil {
			return 0, err
		}
	}
	info, err := p.entry.Lstat(filepath.FromSlash(unfinished(f)))
	if err != nil {
		return f.size, nil
	}
	return f.size - min(f.size, info.Size()), nil
}

// one downloads a file and links it in the snapshot.
func (p *pull) one(ctx context.Context, f file, moved func(int64)) error {
	link := p.snapshot(f.name)
	if ok, err := p.entry.has(link, f.size); err != nil {
		return err
	} else if ok {
		moved(f.size)
		return nil
	}
	if err := p.blob(ctx, f, moved); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return p.entry.enter(blobName(f), link)
}
