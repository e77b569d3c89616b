package hub

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
	"github.com/lowpack/lowpack/pack"
)

// suspects is the hint for responses that no hub sends.
const suspects = "; check HF_ENDPOINT and proxies"

// theHub words errors about downloads from it.
var theHub = transfer.Server{List: "listing", Hint: suspects,
	Kind: func(resp *http.Response) string { return resp.Header.Get("X-Error-Code") }}

func statusOf(resp *http.Response) *transfer.StatusError {
	return transfer.StatusOf(resp, theHub.Kind(resp))
}

// checkLinked compares the size in the header of a redirect to storage with the listing.
func checkLinked(h http.Header, size int64) error {
	text := h.Get("X-Linked-Size")
	if n, err := strconv.ParseInt(text, 10, 64); text != "" && (err != nil || n != size) {
		return fmt.Errorf("%w: the hub lists %d bytes but sends X-Linked-Size %.80q%s", pack.ErrCorrupt, size,
			text, suspects)
	}
	return nil
}

var transport http.RoundTripper = transfer.NewTransport()

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
	if g.token != "" && transfer.Within(req, g.origin) {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	return g.below.RoundTrip(req)
}
