package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"path"
	"path/filepath"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/pack"
)

// blobName is the path of a complete blob.
func blobName(f file) string { return path.Join("blobs", f.blob) }

// unfinished is the path of an incomplete blob.
func unfinished(f file) string { return blobName(f) + unfinishedEnd }

// blob downloads a file into the cache unless it is there already. It continues an interrupted download and deletes a
// file that does not match its digest.
func (p *pull) blob(ctx context.Context, f file, moved func(bytes int64)) error {
	if err := p.entry.folder("blobs"); err != nil {
		return err
	}
	lock, err := p.lock(ctx, p.name, f.blob)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if ok, err := p.entry.has(blobName(f), f.size); err != nil {
		return err
	} else if ok {
		moved(f.size)
		return nil
	}
	out, err := p.open(f)
	if err != nil {
		return err
	}
	defer out.Close()
	address := fmt.Sprintf("%s/%s/resolve/%s/%s", p.Endpoint, p.name.ID(), p.commit,
		(&url.URL{Path: f.name}).EscapedPath())
	d := &transfer.Download{Patience: p.Patience, Server: theHub, Out: out, Size: f.size, Moved: moved,
		Hash: func() hash.Hash { return newHash(f) },
		Get: func(ctx context.Context, from int64) (*http.Response, error) {
			return p.get(ctx, request{address, from, f.size})
		}}
	had, err := d.Open()
	if err == nil {
		err = out.Truncate(had) // drop bytes that are not hashed
	}
	if err != nil {
		return err
	}
	if err := d.Run(ctx); err != nil {
		return err
	}
	return p.finish(f, out, d.Sum())
}

// open opens the incomplete blob, or creates it. It follows no links and uses no files of other users.
func (p *pull) open(f file) (atomicfile.Handle, error) {
	out, err := atomicfile.OS.Open(p.entry.path(unfinished(f)))
	if errors.Is(err, atomicfile.ErrForeign) {
		err = fmt.Errorf("%w: %w", pack.ErrUnsupported, err)
	}
	return out, err
}

// newHash returns the hash that names the blob: SHA-256, or a git blob id.
func newHash(f file) hash.Hash {
	if len(f.blob) == hex.EncodedLen(sha256.Size) {
		return sha256.New()
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", f.size)
	return h
}

// finish checks the digest and renames the file.
func (p *pull) finish(f file, out atomicfile.Handle, sum []byte) error {
	from, to := filepath.FromSlash(unfinished(f)), filepath.FromSlash(blobName(f))
	if got := hex.EncodeToString(sum); got != f.blob {
		p.entry.Remove(from)
		return fmt.Errorf("%w: the digest is %s, but %s in the listing; the download was deleted, try again",
			pack.ErrCorrupt, got, f.blob)
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return err
	}
	return p.entry.Rename(from, to)
}
