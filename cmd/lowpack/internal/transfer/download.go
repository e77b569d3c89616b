// Package transfer downloads files over HTTP: resumed, of exactly the size that is listed, with retries that end, and
// without showing a secret to another origin.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"

	"github.com/lowpack/lowpack/pack"
)

// File is what a download is written to.
type File interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
}

// Server words errors about one.
type Server struct {
	List string                      // what says how long a file is
	Hint string                      // after answers that no such server sends
	Kind func(*http.Response) string // what the server calls an error
}

// Download is a download in progress.
type Download struct {
	Patience
	Server Server
	Get    func(ctx context.Context, from int64) (*http.Response, error) // asks for the bytes from there on
	Out    File
	Start  int64 // of its bytes in Out
	Size   int64
	Hash   func() hash.Hash
	Moved  func(bytes int64)

	at   int64 // bytes in Out
	most int64 // maximum of at so far: only bytes beyond it count as progress
	hash hash.Hash
}

// Open reads what an interrupted download left, and returns how much that is. What lies behind stays.
func (d *Download) Open() (had int64, err error) {
	d.hash = d.Hash()
	if d.at, err = io.Copy(d.hash, io.NewSectionReader(d.Out, d.Start, d.Size)); err != nil {
		return 0, err
	}
	d.most = d.at
	d.Moved(d.at)
	return d.at, nil
}

// Sum returns the digest of all bytes.
func (d *Download) Sum() []byte { return d.hash.Sum(nil) }

// Restart discards the downloaded bytes, and what lies behind.
func (d *Download) Restart() error {
	d.Moved(-d.at)
	d.at = 0
	d.hash = d.Hash()
	return d.Out.Truncate(d.Start)
}

// Run downloads the missing bytes.
func (d *Download) Run(ctx context.Context) error {
	err := d.Retry(ctx, func() (int64, error) { return d.try(ctx) })
	var g *GaveUp
	if !errors.As(err, &g) {
		return err
	}
	return fmt.Errorf("%w; %d of %d bytes are downloaded; the same command continues%s", err, d.at, d.Size,
		d.Server.Hint)
}

// try requests the missing bytes and reads until the end or until the connection breaks.
func (d *Download) try(ctx context.Context) (gained int64, err error) {
	if d.at == d.Size {
		return 0, nil
	}
	ctx, alive, stop := d.Watch(ctx)
	defer func() { err = stop(err) }()
	resp, err := d.Get(ctx, d.at)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if err := d.accept(resp); err != nil {
		return 0, err
	}
	before := d.most
	err = d.read(resp.Body, alive)
	return d.most - before, err
}

// read copies the body and calls alive whenever enough bytes have arrived.
func (d *Download) read(body io.Reader, alive func()) error {
	buf := make([]byte, 256<<10)
	for since := 0; ; {
		n, err := body.Read(buf)
		if since += n; since >= Enough {
			alive()
			since = 0
		}
		if err := d.write(buf[:n]); err != nil {
			return err
		}
		switch {
		case err == io.EOF && d.at < d.Size:
			return io.ErrUnexpectedEOF
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", ErrBroken, Plain(err))
		}
	}
}

func (d *Download) write(data []byte) error {
	if d.at+int64(len(data)) > d.Size {
		return fmt.Errorf("%w: the server sends more than the %d bytes in the %s", pack.ErrCorrupt, d.Size,
			d.Server.List)
	}
	if _, err := d.Out.WriteAt(data, d.Start+d.at); err != nil {
		return err
	}
	d.hash.Write(data)
	d.at += int64(len(data))
	d.most = max(d.most, d.at)
	d.Moved(int64(len(data)))
	return nil
}
