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
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/lowpack/lowpack/pack"
)

// errStalled is a connection on which nothing came for Client.stall.
var errStalled = errors.New("the connection stalled")

// blob downloads one file to its place in the cache, unless it is there already. What an interrupted download left is
// continued; what does not match its digest is thrown away.
func (c *Client) blob(ctx context.Context, n Name, id string, f file, moved func(bytes int64)) error {
	folder := filepath.Join(c.Cache, n.folder(), "blobs")
	target := filepath.Join(folder, f.blob)
	locks := filepath.Join(c.Cache, ".locks", n.folder())
	for _, dir := range []string{folder, locks} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	lock := flock.New(filepath.Join(locks, f.blob+".lock"))
	if ok, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil || !ok {
		return fmt.Errorf("%s: cannot lock the cache: %w", f.name, errors.Join(err, ctx.Err()))
	}
	defer lock.Unlock()
	if info, err := os.Stat(target); err == nil && info.Size() == f.size {
		moved(f.size)
		return nil
	}
	d := &download{client: c, file: f, moved: moved,
		url: fmt.Sprintf("%s/%s/resolve/%s/%s", c.Endpoint, n.ID(), id, (&url.URL{Path: f.name}).EscapedPath())}
	if err := d.open(target + ".incomplete"); err != nil {
		return err
	}
	defer d.out.Close()
	if err := c.retry(ctx, func() (bool, error) { return d.try(ctx) }); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return d.finish(target)
}

// download is a file on its way.
type download struct {
	client *Client
	file   file
	url    string
	out    *os.File
	at     int64 // bytes in out
	hash   hash.Hash
	moved  func(bytes int64)
}

// newHash begins the digest that the blob is named by: SHA-256, or that of a git blob.
func newHash(f file) hash.Hash {
	if len(f.blob) == hex.EncodedLen(sha256.Size) {
		return sha256.New()
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", f.size)
	return h
}

// open continues the file that an interrupted download left, or makes a new one. It follows no link.
func (d *download) open(path string) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file; remove it", pack.ErrUnsupported, path)
	}
	var err error
	if d.out, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	d.hash = newHash(d.file)
	if d.at, err = io.Copy(d.hash, io.LimitReader(d.out, d.file.size)); err != nil {
		d.out.Close()
		return err
	}
	d.moved(d.at)
	return nil
}

// restart forgets what came so far.
func (d *download) restart() error {
	d.moved(-d.at)
	d.at = 0
	d.hash = newHash(d.file)
	if err := d.out.Truncate(0); err != nil {
		return err
	}
	_, err := d.out.Seek(0, io.SeekStart)
	return err
}

// try asks for what is missing, and reads until the end or until the connection breaks.
func (d *download) try(ctx context.Context) (progress bool, err error) {
	if d.at == d.file.size {
		return false, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(d.client.stall, func() { cancel(errStalled) })
	defer watch.Stop()
	resp, err := d.client.get(ctx, d.url, d.at)
	if err != nil {
		return false, stalled(ctx, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPartialContent && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.at)):
	case resp.StatusCode == http.StatusOK:
		if d.at > 0 { // the server does not continue files
			if err := d.restart(); err != nil {
				return false, err
			}
		}
	case resp.StatusCode < 300 || resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		if err := d.restart(); err != nil {
			return false, err
		}
		return false, fmt.Errorf("%w: the server answered another range than the one asked for", io.ErrUnexpectedEOF)
	default:
		return false, statusOf(resp)
	}
	before := d.at
	err = d.read(resp.Body, func() { watch.Reset(d.client.stall) })
	return d.at > before, stalled(ctx, err)
}

// stalled names the cause of a connection that the watch has cut.
func stalled(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	return err
}

// read copies the body; alive is called whenever something came.
func (d *download) read(body io.Reader, alive func()) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			alive()
			if d.at+int64(n) > d.file.size {
				return fmt.Errorf("%w: the server sends more than the %d bytes that the hub lists", pack.ErrCorrupt, d.file.size)
			}
			if _, werr := d.out.Write(buf[:n]); werr != nil {
				return werr
			}
			d.hash.Write(buf[:n])
			d.at += int64(n)
			d.moved(int64(n))
		}
		switch {
		case err == io.EOF && d.at < d.file.size:
			return io.ErrUnexpectedEOF
		case err == io.EOF:
			return nil
		case err != nil:
			return plain(err)
		}
	}
}

// finish checks the digest and gives the file its name.
func (d *download) finish(target string) error {
	if got := hex.EncodeToString(d.hash.Sum(nil)); got != d.file.blob {
		os.Remove(d.out.Name())
		return fmt.Errorf("%w: %s: the bytes have digest %s, the hub lists %s; what came was removed, try again", pack.ErrCorrupt, d.file.name, got, d.file.blob)
	}
	if err := errors.Join(d.out.Sync(), d.out.Close()); err != nil {
		return err
	}
	return os.Rename(d.out.Name(), target)
}
