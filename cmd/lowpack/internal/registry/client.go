package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"

	orasname "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/pack"
)

// suspects is the hint for answers that no registry gives.
const suspects = "; check the name of the registry and proxies"

// Client accesses registries.
type Client struct {
	transfer.Patience
	PlainHTTP  bool                // without TLS, also where the registry is not this machine
	Agent      string              // User-Agent
	Credential auth.CredentialFunc // nil = anonymous

	below http.RoundTripper // nil = transport
	sizes sizes             // of parts
}

// FromEnvironment returns a client with the credentials of the docker configuration: $DOCKER_CONFIG/config.json, or
// ~/.docker/config.json, and the credential helpers that it names. Without such a file it is anonymous.
func FromEnvironment(agent string, plainHTTP bool) (*Client, error) {
	c := &Client{Patience: transfer.Usual(), PlainHTTP: plainHTTP, Agent: agent, sizes: usual}
	if _, err := os.UserHomeDir(); err != nil && os.Getenv("DOCKER_CONFIG") == "" {
		return c, nil
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("the docker configuration, which may have credentials for the registry: %w", err)
	}
	c.Credential = credentials.Credential(store)
	return c, nil
}

var transport http.RoundTripper = transfer.NewTransport()

// repository is one of a registry, with the tokens that it gave.
type repository struct {
	*Client
	name   Name
	remote *remote.Repository
}

func (c *Client) repository(n Name) *repository {
	client := &auth.Client{
		Client:     &http.Client{Transport: guard{cmp.Or(c.below, transport)}, CheckRedirect: checkRedirect},
		Header:     http.Header{"User-Agent": {c.Agent}, "Accept-Encoding": {"identity"}},
		Credential: c.Credential,
		Cache:      auth.NewCache(),
		ClientID:   "lowpack",
	}
	return &repository{c, n, &remote.Repository{Client: client, PlainHTTP: c.PlainHTTP || isHere(n.Host),
		Reference: orasname.Reference{Registry: n.Host, Repository: n.Repository}}}
}

// isHere reports whether a registry is on this machine, and reached without TLS.
func isHere(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// guard keeps credentials from every origin but the one that they were sent to: after a redirect, net/http would send
// them to subdomains and to other ports too.
type guard struct{ below http.RoundTripper }

func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	first := req
	for first.Response != nil {
		first = first.Response.Request
	}
	req = req.Clone(req.Context())
	req.Header.Del("Referer") // URLs of storage carry signatures
	if !transfer.Within(req, transfer.OriginOf(first.URL)) {
		req.Header.Del("Authorization")
	}
	return g.below.RoundTrip(req)
}

// checkRedirect also rejects redirects that would send a body elsewhere: it can hold a password, or the weights.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if req.Method != http.MethodGet && req.Method != http.MethodHead &&
		transfer.OriginOf(req.URL) != transfer.OriginOf(via[0].URL) {
		return fmt.Errorf("%w: %s redirects a %s to another host%s", pack.ErrUnsupported, via[0].URL.Host, req.Method,
			suspects)
	}
	return transfer.CheckRedirect(req, via, suspects)
}

// get asks for a manifest or blob, from a byte on.
func (r *repository) get(ctx context.Context, kind, reference string, from int64) (*http.Response, error) {
	ctx = auth.AppendRepositoryScope(ctx, r.remote.Reference, auth.ActionPull)
	protocol := "https"
	if r.remote.PlainHTTP {
		protocol = "http"
	}
	address := fmt.Sprintf("%s://%s/v2/%s/%s/%s", protocol, r.remote.Reference.Host(), r.name.Repository, kind,
		reference)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if kind == manifests {
		req.Header.Set("Accept", imageType+", "+indexType)
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := r.remote.Client.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		if err := transfer.CheckPlain(resp.Header, suspects); err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp, nil
}

// Kinds of what a repository holds.
const (
	manifests = "manifests"
	blobs     = "blobs"
)

// maxReason limits the body of an error in bytes.
const maxReason = 8 << 10

// reason returns what a registry calls an error.
func reason(resp *http.Response) string {
	var body struct {
		Errors errcode.Errors `json:"errors"`
	}
	if json.NewDecoder(io.LimitReader(resp.Body, maxReason)).Decode(&body) != nil {
		return ""
	}
	return called(body.Errors)
}

func called(errs errcode.Errors) string {
	if len(errs) == 0 {
		return ""
	}
	errs[0].Detail = nil
	return printable.Line(errs[0].Error())
}

// plain returns the errors of oras-go without URLs, and with the status by which retries go.
func plain(err error) error {
	var e *errcode.ErrorResponse
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %w", e.URL.Host, transfer.Status(e.StatusCode, called(e.Errors)))
	}
	return transfer.Plain(err)
}

// explain adds the artifact and the remedy to an error.
func (n Name) explain(err error) error {
	var s *transfer.StatusError
	errors.As(err, &s)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%v: %w; --plain-http does without TLS", n, err)
	case errors.Is(err, auth.ErrBasicCredentialNotFound), s != nil && (s.Code == http.StatusUnauthorized ||
		s.Code == http.StatusForbidden):
		return fmt.Errorf("%v: %w: %w; docker login %s, or another tool that writes the docker configuration, "+
			"gives access", n, fs.ErrPermission, err, n.Host)
	case s != nil && s.Code == http.StatusNotFound:
		return fmt.Errorf("%v: %w: %w; check repository, tag or digest", n, fs.ErrNotExist, err)
	}
	return fmt.Errorf("%v: %w", n, err)
}
