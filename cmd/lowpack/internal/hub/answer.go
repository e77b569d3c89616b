package hub

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// suspects is the hint for responses that no hub sends.
const suspects = "; check HF_ENDPOINT and proxies"

// checkLinked compares the size in the header of a redirect to storage with the listing.
func checkLinked(h http.Header, size int64) error {
	text := h.Get("X-Linked-Size")
	if n, err := strconv.ParseInt(text, 10, 64); text != "" && (err != nil || n != size) {
		return fmt.Errorf("%w: the hub lists %d bytes but sends X-Linked-Size %.80q%s", pack.ErrCorrupt, size,
			text, suspects)
	}
	return nil
}

// checkPlain rejects compressed responses, which were not requested: their decompressed size is unbounded.
func checkPlain(h http.Header) error {
	coding := strings.Join(h.Values("Content-Encoding"), ", ")
	if coding == "" || strings.EqualFold(coding, "identity") {
		return nil
	}
	return fmt.Errorf("%w: the server compressed its response (Content-Encoding %.80q) although "+
		"identity was requested%s",
		pack.ErrUnsupported, coding, suspects)
}

// accept checks the headers of a response before reading the body, and drops earlier bytes if the response starts from
// the beginning.
func (d *download) accept(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		if err := d.announced(resp, d.file.size); err != nil || d.at == 0 {
			return err
		}
		return d.restart() // the server ignored the range
	case http.StatusPartialContent:
		return d.part(resp)
	case http.StatusRequestedRangeNotSatisfiable:
		return d.otherRange()
	}
	return statusOf(resp)
}

// announced compares Content-Length with the length derived from the listing.
func (d *download) announced(resp *http.Response, want int64) error {
	if n := resp.ContentLength; n >= 0 && n != want { // -1 = unknown
		return fmt.Errorf("%w: the server sends %d bytes, but the listing requires %d (of %d in total)%s",
			pack.ErrCorrupt, n, want, d.file.size, suspects)
	}
	return nil
}

// part accepts a range that starts where the last one ended. A server may send less than requested.
func (d *download) part(resp *http.Response) error {
	var first, last, size int64
	text := resp.Header.Get("Content-Range")
	if n, _ := fmt.Sscanf(text, "bytes %d-%d/%d", &first, &last, &size); n < 2 || first != d.at || d.at == 0 {
		return d.otherRange()
	} else if n == 2 { // total size is "*"
		size = d.file.size
	}
	if size != d.file.size || last < first || last >= size {
		return fmt.Errorf("%w: the server sends range %.80q of a file with %d bytes in the listing%s",
			pack.ErrCorrupt, text, d.file.size, suspects)
	}
	return d.announced(resp, last-first+1)
}

// otherRange restarts the download, because the server cannot continue it.
func (d *download) otherRange() error {
	if err := d.restart(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the server sent another range than requested", errBroken)
}
