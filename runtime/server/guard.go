package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// open lists the paths that need no API key: probes send none, and the page asks the user for it.
var open = []string{"/", "/health", "/v1/health", "/ready"}

// guard wraps the endpoints: it checks host, origin and API key, and answers unknown paths and methods.
func (s *Server) guard(routes []route) http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, r := range routes {
		mux.HandleFunc(r.Method+" "+r.Path, r.handle)
		methods[r.Path] = append(methods[r.Path], r.Method)
	}
	for path, allowed := range methods {
		if slices.Contains(allowed, http.MethodGet) {
			allowed = append(allowed, http.MethodHead)
		}
		mux.HandleFunc(path, wrongMethod(append(allowed, http.MethodOptions)))
	}
	if methods["/"] == nil {
		mux.HandleFunc("/", unknownPath)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", requestID(r))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if e := s.checkHost(r); e != nil {
			e.Write(w)
			return
		}
		if e := s.checkOrigin(w, r); e != nil {
			e.Write(w)
			return
		}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		salt, e := s.checkKey(r)
		if e != nil {
			e.Write(w)
			return
		}
		ctx, cancel := s.limited(context.WithValue(r.Context(), saltKey{}, salt))
		defer cancel()
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// limited returns a context that ends with Options.Timeout, if there is one. The caller calls cancel.
func (s *Server) limited(ctx context.Context) (limited context.Context, cancel context.CancelFunc) {
	if s.o.Timeout > 0 {
		return context.WithTimeout(ctx, s.o.Timeout)
	}
	return ctx, func() {}
}

func wrongMethod(allowed []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		(&api.Error{Status: http.StatusMethodNotAllowed, Type: api.InvalidRequest,
			Message: "method " + r.Method + " is not allowed here; use " + allowed[0]}).Write(w)
	}
}

func unknownPath(w http.ResponseWriter, r *http.Request) {
	(&api.Error{Status: http.StatusNotFound, Type: api.NotFound,
		Message: "no endpoint at " + quoted(r.URL.Path)}).Write(w)
}

// quoted quotes at most 80 bytes of client input.
func quoted(text string) string { return strconv.QuoteToASCII(text[:min(len(text), 80)]) }

// requestID returns the client's X-Request-Id if it is up to 128 letters, digits, - and _, or a new id.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	plain := func(c rune) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_'
	}
	if id != "" && len(id) <= 128 && strings.IndexFunc(id, func(c rune) bool { return !plain(c) }) < 0 {
		return id
	}
	return api.Origin{}.ID("req_")
}

// checkHost rejects a Host header that does not name this machine if the server listens on loopback. Otherwise a web
// page could reach the server through a domain that resolves to 127.0.0.1 (DNS rebinding).
func (s *Server) checkHost(r *http.Request) *api.Error {
	if !s.o.Loopback {
		return nil
	}
	name := hostName(r.Host)
	if IsLoopback(name) || slices.ContainsFunc(s.o.Hosts,
		func(own string) bool { return plainHost(own) == plainHost(name) }) {
		return nil
	}
	return &api.Error{Status: http.StatusForbidden, Type: api.Forbidden,
		Message: "the host " + quoted(name) + " is not allowed; allow it with --allowed-host"}
}

// IsLoopback reports whether host, a name or an address without a port, is localhost or a loopback address.
func IsLoopback(host string) bool {
	host = plainHost(host)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// plainHost normalizes a host name: lower case, without the trailing dot of the DNS root.
func plainHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// hostName strips the port from a Host header.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// checkOrigin rejects cross-origin requests unless the origin is allowed, for which it sets the CORS headers.
func (s *Server) checkOrigin(w http.ResponseWriter, r *http.Request) *api.Error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	w.Header().Add("Vary", "Origin")
	if u, err := url.Parse(origin); err == nil && strings.EqualFold(u.Host, r.Host) && u.Host != "" {
		return nil
	}
	if !slices.Contains(s.o.Origins, origin) && !slices.Contains(s.o.Origins, "*") {
		return &api.Error{Status: http.StatusForbidden, Type: api.Forbidden,
			Message: "the origin " + quoted(origin) + " is not allowed; allow it with --cors-origin"}
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin) // never with credentials
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	h.Set("Access-Control-Max-Age", "600")
	h.Set("Access-Control-Expose-Headers",
		"X-Request-Id, X-Lowpack-Seed, X-Lowpack-Ignored, X-Lowpack-Time, Retry-After")
	if wanted := r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		h.Set("Access-Control-Allow-Headers", wanted)
	}
	return nil
}

type saltKey struct{}

// saltOf returns the cache salt of the client's API key, so that clients with different keys share no prefix cache.
func saltOf(r *http.Request) string {
	salt, _ := r.Context().Value(saltKey{}).(string)
	return salt
}

// checkKey rejects requests without a valid API key. It compares digests in constant time, with all keys.
func (s *Server) checkKey(r *http.Request) (salt string, e *api.Error) {
	if len(s.o.Keys) == 0 || slices.Contains(open, r.URL.Path) {
		return "", nil
	}
	key := r.Header.Get("X-Api-Key")
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		key = strings.TrimSpace(token)
	}
	sent, found := sha256.Sum256([]byte(key)), -1
	for i, k := range s.o.Keys {
		known := sha256.Sum256([]byte(k))
		if subtle.ConstantTimeCompare(sent[:], known[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return "", &api.Error{Status: http.StatusUnauthorized, Type: api.Unauthorized, Code: "invalid_api_key",
			Message: "the API key is missing or wrong"}
	}
	return strconv.Itoa(found), nil
}
