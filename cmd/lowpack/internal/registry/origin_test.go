package registry

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/lowpack/lowpack/internal/testkit/ociregistry"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// world is a registry that answers at every origin, with TLS on ports 443 and 8443, and remembers who got what.
type world struct {
	*ociregistry.Registry
	mu     sync.Mutex
	visits []visit
}

type visit struct{ origin, method, path, auth, referer string }

// seen returns the visits so far: a push that has failed may have requests that are still answered.
func (w *world) seen() []visit {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.visits)
}

// newWorld gives a client whose requests to all hosts go to the registry.
func newWorld(t *testing.T, r *ociregistry.Registry) (*world, *Client) {
	t.Helper()
	w := &world{Registry: r}
	serve := func(scheme string) http.HandlerFunc {
		return func(out http.ResponseWriter, req *http.Request) {
			w.mu.Lock()
			w.visits = append(w.visits, visit{scheme + "://" + req.Host, req.Method, req.URL.Path,
				req.Header.Get("Authorization"), req.Header.Get("Referer")})
			w.mu.Unlock()
			r.Config.Handler.ServeHTTP(out, req)
		}
	}
	plain, secure := httptest.NewServer(serve("http")), httptest.NewTLSServer(serve("https"))
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	below := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // every name has the certificate of the test
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			server := plain
			if _, port, _ := net.SplitHostPort(address); port == "443" || port == "8443" {
				server = secure
			}
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}
	t.Cleanup(below.CloseIdleConnections)
	c := newClient()
	c.below = below
	c.Credential = func(_ context.Context, host string) (auth.Credential, error) {
		if host == "registry.example.com" {
			return auth.Credential{Username: "user", Password: "secret"}, nil
		}
		return auth.EmptyCredential, nil
	}
	return w, c
}

// TestTokenOrigin: credentials and tokens go to the registry's origin alone, and to the endpoint for tokens that it
// names: to no other subdomain, port or host that it redirects to, and not back from there.
func TestTokenOrigin(t *testing.T) {
	const home = "https://registry.example.com"
	for what, hops := range map[string][]string{
		"subdomain": {"https://cdn.registry.example.com"}, "parent": {"https://example.com"},
		"port": {home + ":8443"}, "other host": {"https://storage.test"}, "prefix": {home + ".test"},
		"back from another host": {"https://storage.test", home},
		"back from a subdomain":  {"https://cdn.registry.example.com", home, home},
		"back from a port":       {home, home + ":8443", home, home},
		"the registry":           {home, home + ":443"},
	} {
		for _, token := range []string{"", "secret-token"} {
			t.Run(what+" "+token, func(t *testing.T) {
				r, n, file := pushed(t, "")
				n.Host = "registry.example.com"
				r.Login, r.Token = "user:secret", token
				r.Front = func(w http.ResponseWriter, req *http.Request) bool {
					hop := 0
					path := req.URL.Path
					if rest, ok := strings.CutPrefix(path, "/hop/"); ok {
						fmt.Sscanf(rest, "%d", &hop)
						_, rest, _ := strings.Cut(rest, "/")
						path = "/" + rest
					} else if !strings.Contains(path, "/blobs/") ||
						req.Header.Get("Authorization") == "" {
						return false
					}
					if hop < len(hops) {
						http.Redirect(w, req, fmt.Sprintf("%s/hop/%d%s?signature=x", hops[hop], hop+1, path),
							http.StatusTemporaryRedirect)
						return true
					}
					req.URL.Path = path
					req.Header.Set("Authorization", "Bearer "+r.Token) // storage has a signature in its place
					if r.Token == "" {
						req.SetBasicAuth("user", "secret")
					}
					return false
				}
				w, c := newWorld(t, r)
				target := filepath.Join(t.TempDir(), "model.safetensors")
				if err := fetched(t.Context(), c, n, target); err != nil {
					t.Fatal(err)
				}
				holds(t, target, file)
				away := false
				for _, v := range w.seen() {
					var hop int
					fmt.Sscanf(v.path, "/hop/%d/", &hop)
					trusted := true
					for _, at := range hops[:hop] {
						trusted = trusted && strings.TrimSuffix(at, ":443") == home
					}
					away = away || !trusted
					if v.auth != "" && !trusted || v.referer != "" || hop > 0 && trusted && v.auth == "" {
						t.Errorf("%s%s gets %q and %q", v.origin, v.path, v.auth, v.referer)
					}
				}
				if away != (what != "the registry") {
					t.Errorf("nothing was redirected: %v", w.seen())
				}
			})
		}
	}
}

// TestGuard: what net/http and the library let pass to a subdomain or another port does not leave the origin.
func TestGuard(t *testing.T) {
	for address, want := range map[string]string{
		"https://registry.example.com/b":      "Bearer secret",
		"https://cdn.registry.example.com/b":  "",
		"https://registry.example.com:8443/b": "",
	} {
		first, err := http.NewRequest(http.MethodGet, "https://registry.example.com/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		next, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		next.Response = &http.Response{Request: first} // which redirected
		next.Header.Set("Authorization", "Bearer secret")
		sent := ""
		_, err = guard{roundTrip(func(req *http.Request) (*http.Response, error) {
			sent = req.Header.Get("Authorization")
			return &http.Response{}, nil
		})}.RoundTrip(next)
		if err != nil || sent != want {
			t.Errorf("%s gets %q, want %q, %v", address, sent, want, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestNoDowngrade: redirects, token endpoints and uploads that leave TLS, or take a body to another host, are refused.
func TestNoDowngrade(t *testing.T) {
	for what, c := range map[string]struct {
		says string
		edit func(w http.ResponseWriter, req *http.Request) bool
	}{
		"redirect": {"redirects from https to http", func(w http.ResponseWriter, req *http.Request) bool {
			http.Redirect(w, req, "http://registry.example.com"+req.URL.Path, http.StatusFound)
			return true
		}},
		"token without TLS": {"uses http", func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://registry.example.com/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}},
		"token of this machine": {"bearer realm host", func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://127.0.0.1/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}},
	} {
		t.Run(what, func(t *testing.T) {
			r, n, _ := pushed(t, "")
			n.Host = "registry.example.com"
			r.Front = c.edit
			w, client := newWorld(t, r)
			err := fetched(t.Context(), client, n, filepath.Join(t.TempDir(), "x"))
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %q", err, c.says)
			}
			for _, v := range w.seen() {
				if strings.HasPrefix(v.origin, "http:") || v.auth != "" {
					t.Errorf("%+v", v)
				}
			}
		})
	}
}

// TestUploadElsewhere: an upload goes to the registry alone, whatever it answers.
func TestUploadElsewhere(t *testing.T) {
	for what, edit := range map[string]func(w http.ResponseWriter, req *http.Request) bool{
		"location": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Location", "https://evil.test/upload")
			w.WriteHeader(http.StatusAccepted)
			return req.Method == http.MethodPost
		},
		"redirect": func(w http.ResponseWriter, req *http.Request) bool {
			if req.Method != http.MethodPost {
				return false
			}
			http.Redirect(w, req, "https://evil.test/v2/a/blobs/uploads/", http.StatusTemporaryRedirect)
			return true
		},
	} {
		t.Run(what, func(t *testing.T) {
			r := ociregistry.New(t)
			r.Front = func(w http.ResponseWriter, req *http.Request) bool {
				return req.Method == http.MethodPost && edit(w, req)
			}
			w, client := newWorld(t, r)
			_, err := client.Push(t.Context(), nameOf(t, "oci://registry.example.com/a"), tinymodel.Path(t), nil, none)
			if err == nil || !strings.Contains(err.Error(), "oci://registry.example.com/a:latest") {
				t.Error(err)
			}
			for _, v := range w.seen() {
				if v.origin != "https://registry.example.com" {
					t.Errorf("%+v", v)
				}
			}
		})
	}
}

// TestCredentials: the docker configuration and its credential helpers are asked, for the host of the registry alone.
func TestCredentials(t *testing.T) {
	for _, token := range []string{"", "a-token"} {
		r, n, file := pushed(t, "")
		r.Login, r.Token = "user:secret", token
		dir := t.TempDir()
		t.Setenv("DOCKER_CONFIG", dir)
		configure := func(text string) {
			if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		try := func() error {
			c, err := FromEnvironment("test", false)
			if err != nil {
				return err
			}
			target := filepath.Join(t.TempDir(), "model.safetensors")
			if err := fetched(t.Context(), c, n, target); err != nil {
				return err
			}
			holds(t, target, file)
			return nil
		}
		if err := try(); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "docker login "+r.Host) {
			t.Errorf("without a configuration: %v", err)
		}
		inline := func(host, login string) string {
			return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte(login)))
		}
		configure(inline(r.Host, "user:secret"))
		if err := try(); err != nil {
			t.Error(err)
		}
		for _, text := range []string{inline(r.Host, "user:wrong"), inline("localhost:1", "user:secret")} {
			configure(text)
			if err := try(); !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "wrong") {
				t.Errorf("%s: %v", text, err)
			}
		}
		configure(`{"auths"`)
		if err := try(); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "config.json")) {
			t.Error(err)
		}
		if runtime.GOOS == "windows" {
			continue
		}
		helper := fmt.Sprintf("#!/bin/sh\nread host\n[ \"$1 $host\" = 'get %s' ] || exit 1\n"+
			`echo '{"ServerURL":"","Username":"user","Secret":"secret"}'`+"\n", r.Host)
		if err := os.WriteFile(filepath.Join(dir, "docker-credential-test"), []byte(helper), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		configure(fmt.Sprintf(`{"credHelpers":{%q:"test"}}`, r.Host))
		if err := try(); err != nil {
			t.Error(err)
		}
	}
}

// TestPlainHTTP: only this machine is accessed without TLS, unless the user asks for it.
func TestPlainHTTP(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "localhost:5000": true, "127.0.0.1:5000": true,
		"127.9.9.9": true, "[::1]:5000": true, "[::1]": true, "localhost.example.com": false, "10.0.0.1:5000": false,
		"registry.example.com": false, "0.0.0.0": false, "my-localhost": false} {
		if got := isHere(host); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
	r, n, file := pushed(t, "")
	_, c := newWorld(t, r)
	n.Host = "registry.example.com:5000" // which answers without TLS
	target := filepath.Join(t.TempDir(), "model.safetensors")
	c.Patience.Pause = 0
	if err := fetched(t.Context(), c, n, target); err == nil || !strings.Contains(err.Error(), "--plain-http") {
		t.Error(err)
	}
	c.PlainHTTP = true
	if err := fetched(t.Context(), c, n, target); err != nil {
		t.Fatal(err)
	}
	holds(t, target, file)
}

// TestForeignFile: what another user may have put in the place of the unfinished file is not used.
func TestForeignFile(t *testing.T) {
	_, n, _ := pushed(t, "")
	target := filepath.Join(t.TempDir(), "model.safetensors")
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(filepath.Dir(target), ".model.safetensors.resume")); err != nil {
		t.Skip(err)
	}
	if err := fetched(t.Context(), newClient(), n, target); !errors.Is(err, pack.ErrUnsupported) {
		t.Error(err)
	}
	holds(t, victim, []byte("precious"))
}
