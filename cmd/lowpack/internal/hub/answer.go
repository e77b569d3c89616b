package hub

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// suspects ends an error about an answer that no hub gives.
const suspects = "; check HF_ENDPOINT and proxies"

// checkLinked compares the size that the hub gives beside a redirect to its storage with the size in its listing.
func checkLinked(h http.Header, size int64) error {
	text := h.Get("X-Linked-Size")
	if n, err := strconv.ParseInt(text, 10, 64); text != "" && (err != nil || n != size) {
		return fmt.Errorf("%w: the hub lists %d bytes and gives X-Linked-Size %.80q%s", pack.ErrCorrupt, size, text, suspects)
	}
	return nil
}

// checkPlain refuses compressed answers, which nobody asked for: what they expand to has no bound.
func checkPlain(h http.Header) error {
	coding := strings.Join(h.Values("Content-Encoding"), ", ")
	if coding == "" || strings.EqualFold(coding, "identity") {
		return nil
	}
	return fmt.Errorf("%w: the server compresses its answer (Content-Encoding %.80q) although it was asked not to%s",
		pack.ErrUnsupported, coding, suspects)
}

// accept checks what an answer says of itself before a byte of it is taken, and forgets what is there if the answer
// begins anew.
func (d *download) accept(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		if err := d.announced(resp, d.file.size); err != nil || d.at == 0 {
			return err
		}
		return d.restart() // the server does not continue files
	case http.StatusPartialContent:
		return d.part(resp)
	case http.StatusRequestedRangeNotSatisfiable:
		return d.otherRange()
	}
	return statusOf(resp)
}

// announced compares the length of a body with the one that follows from the listing.
func (d *download) announced(resp *http.Response, want int64) error {
	if n := resp.ContentLength; n >= 0 && n != want { // -1: unknown
		return fmt.Errorf("%w: the server announces %d bytes, the hub lists %d (of %d in all)%s",
			pack.ErrCorrupt, n, want, d.file.size, suspects)
	}
	return nil
}

// part accepts a part of the file that begins where the last one ended. A server may send less than what was asked for.
func (d *download) part(resp *http.Response) error {
	var first, last, size int64
	text := resp.Header.Get("Content-Range")
	if n, _ := fmt.Sscanf(text, "bytes %d-%d/%d", &first, &last, &size); n < 2 || first != d.at || d.at == 0 {
		return d.otherRange()
	} else if n == 2 { // the size is "*"
		size = d.file.size
	}
	if size != d.file.size || last < first || last >= size {
		return fmt.Errorf("%w: the server answers with the range %.80q of a file of which the hub lists %d bytes%s",
			pack.ErrCorrupt, text, d.file.size, suspects)
	}
	return d.announced(resp, last-first+1)
}

// otherRange begins anew, because the server cannot continue.
func (d *download) otherRange() error {
	if err := d.restart(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the server answered another range than the one asked for", errBroken)
}
