package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lowpack/lowpack/internal/plainerr"
	"github.com/lowpack/lowpack/pack"
)

// Client talks to one hub and owns nothing: two clients, of two processes, may use one cache at once.
type Client struct {
	Endpoint string // URL of the hub
	Cache    string // folder of the cache
	Token    string // "" = anonymous
	Offline  bool   // take only what the cache has
	Agent    string // User-Agent

	http  http.Client
	stall time.Duration // a connection that is silent for so long is broken
	pause time.Duration // before the first retry
}

const defaultEndpoint = "https://huggingface.co"

// FromEnvironment makes a client as the environment asks for: HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_TOKEN_PATH,
// HF_HUB_OFFLINE and XDG_CACHE_HOME, with the meaning that huggingface_hub gives them.
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
		Cache:    expand(cmp.Or(os.Getenv("HF_HUB_CACHE"), os.Getenv("HUGGINGFACE_HUB_CACHE"), filepath.Join(home, "hub"))),
		Token:    strings.TrimSpace(os.Getenv("HF_TOKEN")),
		Offline:  isTrue(os.Getenv("HF_HUB_OFFLINE")) || isTrue(os.Getenv("TRANSFORMERS_OFFLINE")),
		Agent:    agent,
		stall:    30 * time.Second,
		pause:    time.Second,
	}
	if c.Token == "" && !isTrue(os.Getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		path := expand(cmp.Or(os.Getenv("HF_TOKEN_PATH"), filepath.Join(home, "token")))
		if text, err := os.ReadFile(path); err == nil && len(text) < 4096 {
			c.Token = strings.TrimSpace(string(text))
		}
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, fmt.Errorf("%w: HF_ENDPOINT=%q: want a URL such as %s", pack.ErrUnsupported, c.Endpoint, defaultEndpoint)
	}
	return c, nil
}

// isTrue reads a switch as huggingface_hub does.
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

// get sends a request to the hub; from is the first byte wanted. net/http follows redirects to storage on other hosts and
// leaves the token out there.
func (c *Client) get(ctx context.Context, address string, from int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.Agent)
	req.Header.Set("Accept-Encoding", "identity") // sizes and ranges are those of the file
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	return resp, nil
}

// plain drops the method and the URL, which may carry a signature, from an error of net/http.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var n *net.OpError
	switch {
	case !errors.As(err, &n):
		return err
	case n.Addr == nil: // a name that was not resolved
		return n.Err
	}
	return fmt.Errorf("%s: %w", n.Addr, n.Err)
}

// statusError is an answer other than the one wanted.
type statusError struct {
	code  int
	kind  string // X-Error-Code of the hub: RepoNotFound, GatedRepo, RevisionNotFound, EntryNotFound …
	retry time.Duration
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("HTTP status %d %s", e.code, http.StatusText(e.code))
	if e.kind != "" {
		text += " (" + e.kind + ")"
	}
	return text
}

// passing says whether the same request may succeed later.
func (e *statusError) passing() bool {
	return e.code == http.StatusTooManyRequests || e.code == http.StatusRequestTimeout || e.code >= 500
}

func statusOf(resp *http.Response) *statusError {
	e := &statusError{code: resp.StatusCode, kind: resp.Header.Get("X-Error-Code")}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s >= 0 {
		e.retry = min(time.Duration(s)*time.Second, time.Minute)
	}
	return e
}

// maxListing bounds the answer that lists a model's files: some thousand files of a few hundred bytes each.
const maxListing = 16 << 20

// getJSON reads one JSON document, of at most maxListing bytes.
func (c *Client) getJSON(ctx context.Context, address string, into any) error {
	return c.retry(ctx, func() (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*c.stall)
		defer cancel()
		resp, err := c.get(ctx, address, 0)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return false, statusOf(resp)
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxListing+1))
		if err != nil {
			return false, err
		}
		if len(text) > maxListing {
			return false, fmt.Errorf("%w: the answer has more than %d bytes", pack.ErrLimit, maxListing)
		}
		if err := json.Unmarshal(text, into); err != nil {
			return false, fmt.Errorf("%w: the answer is not what a hub sends: %v", pack.ErrCorrupt, plainerr.JSON(err))
		}
		return false, nil
	})
}

// tries is how often a request is repeated that makes no progress.
const tries = 5

// retry repeats try, which says whether it made progress, with growing pauses, until it succeeds, fails for good, or has
// failed without progress too often.
func (c *Client) retry(ctx context.Context, try func() (progress bool, err error)) error {
	pause := c.pause
	for failed := 1; ; failed++ {
		progress, err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !passing(err):
			return err
		}
		if progress {
			failed, pause = 1, c.pause
		}
		if failed == tries {
			return fmt.Errorf("%w (after %d tries)", err, tries)
		}
		wait := pause
		var s *statusError
		if errors.As(err, &s) && s.retry > wait {
			wait = s.retry
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		pause *= 2
	}
}

// passing says whether an error may be gone at the next try: a broken connection, a busy server.
func passing(err error) bool {
	var s *statusError
	var n net.Error
	switch {
	case errors.As(err, &s):
		return s.passing()
	case errors.As(err, &n), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, errStalled):
		return true
	}
	return false
}
