package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
	"github.com/lowpack/lowpack/internal/plainerr"
	"github.com/lowpack/lowpack/pack"
)

// Client accesses a hub. Clients of several processes may share a cache.
type Client struct {
	transfer.Patience
	Endpoint string // URL of the hub
	Cache    string // cache directory
	Token    string // "" = anonymous
	Offline  bool   // use only the cache
	Agent    string // User-Agent

	below http.RoundTripper // nil = transport
}

const defaultEndpoint = "https://huggingface.co"

// FromEnvironment returns a client configured by HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_TOKEN_PATH,
// HF_HUB_OFFLINE and XDG_CACHE_HOME, with the same meaning as in huggingface_hub.
func FromEnvironment(agent string) (*Client, error) {
	home := os.Getenv("HF_HOME")
	if home == "" {
		base := os.Getenv("XDG_CACHE_HOME")
		if base == "" {
			user, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("no folder for the hub cache: %w; set HF_HOME or HF_HUB_CACHE", err)
			}
			base = filepath.Join(user, ".cache")
		}
		home = filepath.Join(base, "huggingface")
	}
	home = expand(home)
	c := &Client{
		Endpoint: strings.TrimRight(cmp.Or(os.Getenv("HF_ENDPOINT"), defaultEndpoint), "/"),
		Cache: expand(cmp.Or(os.Getenv("HF_HUB_CACHE"), os.Getenv("HUGGINGFACE_HUB_CACHE"),
			filepath.Join(home, "hub"))),
		Token:    strings.TrimSpace(os.Getenv("HF_TOKEN")),
		Offline:  isTrue(os.Getenv("HF_HUB_OFFLINE")) || isTrue(os.Getenv("TRANSFORMERS_OFFLINE")),
		Agent:    agent,
		Patience: transfer.Usual(),
	}
	if c.Token == "" && !isTrue(os.Getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		path := expand(cmp.Or(os.Getenv("HF_TOKEN_PATH"), filepath.Join(home, "token")))
		if text, err := os.ReadFile(path); err == nil && len(text) < 4096 {
			c.Token = strings.TrimSpace(string(text))
		}
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, fmt.Errorf("%w: HF_ENDPOINT=%q: want a URL such as %s", pack.ErrUnsupported, c.shown(),
			defaultEndpoint)
	}
	return c, nil
}

// isTrue parses a switch like huggingface_hub.
func isTrue(text string) bool {
	switch strings.ToUpper(text) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// expand replaces a leading ~/ and $VARIABLES.
func expand(path string) string {
	path = os.ExpandEnv(path)
	if rest, ok := strings.CutPrefix(path, "~"+string(filepath.Separator)); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

// request is a GET request.
type request struct {
	address string
	from    int64 // first byte requested
	size    int64 // of the file in the listing; -1 = unknown
}

// get sends a request and follows redirects. Only the hub gets the token.
func (c *Client) get(ctx context.Context, r request) (*http.Response, error) {
	hub, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.Agent)
	req.Header.Set("Accept-Encoding", "identity")
	if r.from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", r.from))
	}
	below := &guard{cmp.Or(c.below, transport), transfer.OriginOf(hub), c.Token}
	client := http.Client{Transport: below, CheckRedirect: r.redirected}
	resp, err := client.Do(req)
	if err != nil {
		return nil, transfer.Plain(err)
	}
	if err := r.check(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func (r request) redirected(next *http.Request, via []*http.Request) error {
	if err := transfer.CheckRedirect(next, via, suspects); err != nil {
		return err
	}
	return r.check(next.Response)
}

// check rejects a response by its headers.
func (r request) check(resp *http.Response) error {
	if resp.StatusCode >= http.StatusBadRequest {
		return nil // the status is the error
	}
	if r.size >= 0 {
		if err := checkLinked(resp.Header, r.size); err != nil {
			return err
		}
	}
	return transfer.CheckPlain(resp.Header, suspects)
}

// maxListing limits the listing of a model's files in bytes: several thousand files of a few hundred bytes each.
const maxListing = 16 << 20

// getJSON reads a JSON document of at most maxListing bytes. It does not follow further pages (Link: rel="next").
func (c *Client) getJSON(ctx context.Context, address string, into any) error {
	return c.Retry(ctx, func() (int64, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*c.Stall)
		defer cancel()
		resp, err := c.get(ctx, request{address: address, size: -1})
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return 0, statusOf(resp)
		}
		return 0, readJSON(resp.Body, into)
	})
}

func readJSON(body io.Reader, into any) error {
	text, err := io.ReadAll(io.LimitReader(body, maxListing+1))
	if err != nil {
		return fmt.Errorf("%w: %w", transfer.ErrBroken, transfer.Plain(err))
	}
	if len(text) > maxListing {
		return fmt.Errorf("%w: the response exceeds %d bytes", pack.ErrLimit, maxListing)
	}
	err = json.Unmarshal(text, into)
	if err != nil && !errors.Is(err, pack.ErrLimit) {
		err = fmt.Errorf("%w: the response is not what a hub sends: %v", pack.ErrCorrupt, plainerr.JSON(err))
	}
	return err
}
