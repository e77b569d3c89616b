package hub

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
	"github.com/lowpack/lowpack/pack"
)

// everywhere makes a hub respond at every origin: with TLS on ports 443 and 8443, in plain text on others.
func (h *fakeHub) everywhere(endpoint string) *Client {
	secure := httptest.NewTLSServer(http.HandlerFunc(h.serve))
	h.t.Cleanup(secure.Close)
	c := h.client()
	c.Endpoint = endpoint
	below := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // every name has the certificate of the test
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			server := h.hub
			if _, port, _ := net.SplitHostPort(address); port == "443" || port == "8443" {
				server = secure
			}
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}
	h.t.Cleanup(below.CloseIdleConnections)
	c.below = below
	return c
}

// TestTokenOrigin: only the hub's origin gets the token, for listings and files: no other subdomain, port, scheme or
// host, and not the hub after a redirect from there. No Referer is sent.
func TestTokenOrigin(t *testing.T) {
	const hub = "https://example.com"
	for what, c := range map[string]struct {
		endpoint string
		hops     []string
		token    []bool // which hops get it
	}{
		"subdomain":              {hub, []string{"https://cdn.example.com"}, []bool{false}},
		"parent":                 {"https://hub.example.com", []string{hub}, []bool{false}},
		"port":                   {hub, []string{"https://example.com:8443"}, []bool{false}},
		"default port":           {"https://example.com:8443", []string{hub}, []bool{false}},
		"http to https":          {"http://example.com", []string{hub}, []bool{false}},
		"http, other port":       {"http://example.com", []string{"http://example.com:8080"}, []bool{false}},
		"other host":             {hub, []string{"https://evil.test"}, []bool{false}},
		"prefix":                 {hub, []string{"https://example.com.evil.test"}, []bool{false}},
		"back from another host": {hub, []string{"https://evil.test", hub}, []bool{false, false}},
		"back from a subdomain":  {hub, []string{"https://cdn.example.com", hub}, []bool{false, false}},
		"back from a port": {hub, []string{hub, "https://example.com:8443", hub, hub},
			[]bool{true, false, false, false}},
		"back from TLS":        {"http://example.com", []string{hub, "https://evil.test"}, []bool{false, false}},
		"the hub":              {hub, []string{hub}, []bool{true}},
		"the hub, written out": {hub, []string{"https://EXAMPLE.com:443"}, []bool{true}},
	} {
		t.Run(what, func(t *testing.T) {
			for _, token := range []string{"hf_secret", ""} {
				h := newHub(t, &fakeHub{hops: c.hops})
				client := h.everywhere(c.endpoint)
				client.Token = token
				if token == "" { // a password in the URL is secret, too
					client.Endpoint = strings.Replace(client.Endpoint, "://", "://user:hf_secret@", 1)
				}
				r, err := client.Pull(t.Context(), name(t, h.id), nil)
				if err != nil {
					t.Fatal(err)
				}
				h.holds(r.Path)
				large := 2 // files, after the listing
				if len(h.visits) != (1+large)*len(c.hops) {
					t.Fatalf("%d requests to %v", len(h.visits), c.hops)
				}
				for _, v := range h.visits {
					if got := v.auth == "Bearer hf_secret"; got != (c.token[v.hop] && token != "") ||
						v.auth != "" && !c.token[v.hop] {
						t.Errorf("hop %d, %s, gets %q", v.hop, v.origin, v.auth)
					}
					if v.referer != "" {
						t.Errorf("%s is told of %s", v.origin, v.referer)
					}
				}
			}
		})
	}
}

// TestNoDowngrade: a redirect from TLS to plain text is rejected.
func TestNoDowngrade(t *testing.T) {
	for _, hops := range [][]string{{"http://example.com"}, {"https://evil.test", "http://example.com"}} {
		h := newHub(t, &fakeHub{hops: hops})
		c := h.everywhere("https://example.com")
		c.Token = "hf_secret"
		_, err := c.Pull(t.Context(), name(t, h.id), nil)
		refusal{class: pack.ErrUnsupported}.check(t, err, "https to http")
		if strings.Contains(err.Error(), "hop/") {
			t.Errorf("%v: the message shows a URL", err)
		}
		for _, v := range h.visits {
			if v.auth != "" || strings.HasPrefix(v.origin, "http:") {
				t.Errorf("%+v", v)
			}
		}
		if len(h.asked) != len(hops) {
			t.Errorf("asked again: %v", h.asked)
		}
	}
}

// TestRedirectsEnd: endless redirects are followed a few times, without a retry.
func TestRedirectsEnd(t *testing.T) {
	h := newHub(t, &fakeHub{front: func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, r.URL.Path+"/x", http.StatusFound)
		return true
	}})
	_, err := h.client().Pull(t.Context(), name(t, h.id), nil)
	refusal{class: pack.ErrLimit}.check(t, err, "redirects")
	if len(h.asked) != transfer.MaxRedirects {
		t.Errorf("%d requests", len(h.asked))
	}
}
