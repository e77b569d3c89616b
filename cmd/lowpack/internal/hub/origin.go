package hub

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// transport requests no compression, so that sizes and ranges refer to files, and limits headers.
var transport = func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true
	t.MaxResponseHeaderBytes = 256 << 10 // signed URLs have some KiB
	return t
}()

// guard sends the token to a single origin. net/http would keep an Authorization header for subdomains and other ports
// of a host; here only the request on the wire has the token.
type guard struct {
	below  http.RoundTripper
	origin string // the hub's
	token  string // "" = anonymous
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Referer") // URLs of storage carry signatures
	if g.token != "" && g.trusts(req) {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	return g.below.RoundTrip(req)
}

// trusts reports whether a request and all requests redirected to it go to the hub. A redirect from elsewhere back to
// the hub was not issued by the hub.
func (g *guard) trusts(req *http.Request) bool {
	for originOf(req.URL) == g.origin {
		if req.Response == nil {
			return true
		}
		req = req.Response.Request
	}
	return false
}

// originOf returns scheme, host and port.
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// maxRedirects is net/http's limit, which CheckRedirect replaces.
const maxRedirects = 10

// checkRedirect rejects endless redirects and those from TLS to plain text.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("%w: the server redirects more than %d times%s", pack.ErrLimit, maxRedirects, suspects)
	}
	if last := via[len(via)-1].URL; last.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("%w: %s redirects from https to %.80s%s", pack.ErrUnsupported, last.Host,
			req.URL.Scheme, suspects)
	}
	return nil
}
