package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"time"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/pack"
)

// blobName is the path of a complete blob.
func blobName(f file) string { return path.Join("blobs", f.blob) }

// unfinished is the path of an incomplete blob.
func unfinished(f file) string { return blobName(f) + ".incomplete" }

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
	d := &download{client: p.Client, entry: p.entry, file: f, moved: moved,
		url: fmt.Sprintf("%s/%s/resolve/%s/%s", p.Endpoint, p.name.ID(), p.commit,
			(&url.URL{Path: f.name}).EscapedPath())}
	if err := d.open(); err != nil {
		return err
	}
	defer d.out.Close()
	if err := p.retry(ctx, func() (int64, error) { return d.try(ctx) }); err != nil {
		return d.explain(err)
	}
	return d.finish()
}

// download is a download in progress.
type download struct {
	client *Client
	entry  *entry
	file   file
	url    string
	out    atomicfile.Handle
	at     int64 // bytes in out
	most   int64 // maximum of at so far: only bytes beyond it count as progress
	hash   hash.Hash
	moved  func(bytes int64)
}

// explain adds to the error of a download that makes no progress how far it came and what to do.
func (d *download) explain(err error) error {
	var g *gaveUp
	if !errors.As(err, &g) {
		return err
	}
	return fmt.Errorf("%w; %d of %d bytes are downloaded; the same command continues%s", err, d.at,
		d.file.size, suspects)
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

// open continues an interrupted download or creates a file. It follows no links and uses no files of other users.
func (d *download) open() (err error) {
	if d.out, err = atomicfile.OS.Open(d.entry.path(unfinished(d.file))); err != nil {
		if errors.Is(err, atomicfile.ErrForeign) {
			err = fmt.Errorf("%w: %w", pack.ErrUnsupported, err)
		}
		return err
	}
	d.hash = newHash(d.file)
	if d.at, err = io.Copy(d.hash, io.NewSectionReader(d.out, 0, d.file.size)); err != nil {
		d.out.Close()
		return err
	}
	if err := d.out.Truncate(d.at); err != nil { // drop bytes that are not hashed
		d.out.Close()
		return err
	}
	d.most = d.at
	d.moved(d.at)
	return nil
}

// restart discards the downloaded bytes.
func (d *download) restart() error {
	d.moved(-d.at)
	d.at = 0
	d.hash = newHash(d.file)
	return d.out.Truncate(0)
}

// try requests the missing bytes and reads until the end or until the connection breaks.
func (d *download) try(ctx context.Context) (gained int64, err error) {
	if d.at == d.file.size {
		return 0, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(d.client.stall, func() { cancel(errStalled) })
	defer watch.Stop()
	resp, err := d.client.get(ctx, request{d.url, d.at, d.file.size})
	if err != nil {
		return 0, stalled(ctx, err)
	}
	defer resp.Body.Close()
	if err := d.accept(resp); err != nil {
		return 0, err
	}
	before := d.most
	err = d.read(resp.Body, func() { watch.Reset(d.client.stall) })
	return d.most - before, stalled(ctx, err)
}

// stalled returns errStalled for a connection that the watchdog cut.
func stalled(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	return err
}

// read copies the body and calls alive whenever enough bytes have arrived.
func (d *download) read(body io.Reader, alive func()) error {
	buf := make([]byte, 256<<10)
	for since := 0; ; {
		n, err := body.Read(buf)
		if since += n; since >= enough {
			alive()
			since = 0
		}
		if err := d.write(buf[:n]); err != nil {
			return err
		}
		switch {
		case err == io.EOF && d.at < d.file.size:
			return io.ErrUnexpectedEOF
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errBroken, plain(err))
		}
	}
}

func (d *download) write(data []byte) error {
	if d.at+int64(len(data)) > d.file.size {
		return fmt.Errorf("%w: the server sends more than the %d bytes in the listing", pack.ErrCorrupt, d.file.size)
	}
	if _, err := d.out.WriteAt(data, d.at); err != nil {
		return err
	}
	d.hash.Write(data)
	d.at += int64(len(data))
	d.most = max(d.most, d.at)
	d.moved(int64(len(data)))
	return nil
}

// finish checks the digest and renames the file.
func (d *download) finish() error {
	from, to := filepath.FromSlash(unfinished(d.file)), filepath.FromSlash(blobName(d.file))
	if got := hex.EncodeToString(d.hash.Sum(nil)); got != d.file.blob {
		d.entry.Remove(from)
		return fmt.Errorf("%w: the digest is %s, but %s in the listing; the download was deleted, try again",
			pack.ErrCorrupt, got, d.file.blob)
	}
	if err := errors.Join(d.out.Sync(), d.out.Close()); err != nil {
		return err
	}
	return d.entry.Rename(from, to)
}
