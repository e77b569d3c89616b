package transfer

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// CheckPlain rejects compressed answers, which were not requested: their decompressed size is unbounded. hint follows
// the error.
func CheckPlain(h http.Header, hint string) error {
	coding := strings.Join(h.Values("Content-Encoding"), ", ")
	if coding == "" || strings.EqualFold(coding, "identity") {
		return nil
	}
	return fmt.Errorf("%w: the server compressed its response (Content-Encoding %.80q) although "+
		"identity was requested%s",
		pack.ErrUnsupported, coding, hint)
}

// accept checks the headers of a response before reading the body, and drops earlier bytes if the response starts from
// the beginning.
func (d *Download) accept(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		if err := d.announced(resp, d.Size); err != nil || d.at == 0 {
			return err
		}
		return d.Restart() // the server ignored the range
	case http.StatusPartialContent:
		return d.part(resp)
	case http.StatusRequestedRangeNotSatisfiable:
		return d.otherRange()
	}
	return StatusOf(resp, d.Server.Kind(resp))
}

// announced compares Content-Length with the length that follows from the size.
func (d *Download) announced(resp *http.Response, want int64) error {
	if n := resp.ContentLength; n >= 0 && n != want { // -1 = unknown
		return fmt.Errorf("%w: the server sends %d bytes, but the %s requires %d (of %d in total)%s",
			pack.ErrCorrupt, n, d.Server.List, want, d.Size, d.Server.Hint)
	}
	return nil
}

// part accepts a range that starts where the last one ended. A server may send less than requested.
func (d *Download) part(resp *http.Response) error {
	var first, last, size int64
	text := resp.Header.Get("Content-Range")
	if n, _ := fmt.Sscanf(text, "bytes %d-%d/%d", &first, &last, &size); n < 2 || first != d.at || d.at == 0 {
		return d.otherRange()
	} else if n == 2 { // total size is "*"
		size = d.Size
	}
	if size != d.Size || last < first || last >= size {
		return fmt.Errorf("%w: the server sends range %.80q of a file with %d bytes in the %s%s",
			pack.ErrCorrupt, text, d.Size, d.Server.List, d.Server.Hint)
	}
	return d.announced(resp, last-first+1)
}

// otherRange restarts the download, because the server cannot continue it.
func (d *Download) otherRange() error {
	if err := d.Restart(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the server sent another range than requested", ErrBroken)
}
