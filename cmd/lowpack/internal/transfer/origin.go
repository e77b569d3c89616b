package transfer

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// NewTransport returns a transport that requests no compression, so that sizes and ranges refer to files, and limits
// headers.
func NewTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true
	t.MaxResponseHeaderBytes = 256 << 10 // signed URLs have some KiB
	return t
}

// Within reports whether a request and all requests redirected to it go to one origin. A redirect from elsewhere back
// to a server was not issued by the server.
func Within(req *http.Request, origin string) bool {
	for OriginOf(req.URL) == origin {
		if req.Response == nil {
			return true
		}
		req = req.Response.Request
	}
	return false
}

// OriginOf returns scheme, host and port.
func OriginOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// MaxRedirects is net/http's limit, which CheckRedirect replaces.
const MaxRedirects = 10

// CheckRedirect rejects endless redirects and those from TLS to plain text. hint follows the error.
func CheckRedirect(req *http.Request, via []*http.Request, hint string) error {
	if len(via) >= MaxRedirects {
		return fmt.Errorf("%w: the server redirects more than %d times%s", pack.ErrLimit, MaxRedirects, hint)
	}
	if last := via[len(via)-1].URL; last.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("%w: %s redirects from https to %.80s%s", pack.ErrUnsupported, last.Host,
			req.URL.Scheme, hint)
	}
	return nil
}
