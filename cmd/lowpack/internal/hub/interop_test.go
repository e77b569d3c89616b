package hub

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// TestInteropCache: huggingface_hub finds lowpack's downloads offline, and lowpack finds huggingface_hub's, shared
// blobs included: the same folder, for a branch and for a commit.
func TestInteropCache(t *testing.T) {
	h := newHub(t, &fakeHub{})
	python := func(c *Client, revision, mode string) string {
		out := interop.Python(t, "hub", filepath.Join("testdata", "snapshot.py"), h.hub.URL, c.Cache, h.id,
			revision, mode)
		return strings.TrimSpace(string(out))
	}
	ours := h.client()
	r, err := ours.Pull(t.Context(), name(t, h.id), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range []string{"main", h.commit} {
		if dir := python(ours, revision, "offline"); dir != r.Path {
			t.Errorf("%s: huggingface_hub finds %s, lowpack wrote %s", revision, dir, r.Path)
		}
	}
	before := len(h.requests)
	if dir := python(ours, "main", "online"); dir != r.Path || len(h.requests) != before {
		t.Errorf("huggingface_hub downloads again: %s, %v", dir, h.requests[before:])
	}

	theirs := h.client()
	dir := python(theirs, "main", "online")
	h.holds(dir)
	before = len(h.requests)
	if r, err := theirs.Pull(t.Context(), name(t, h.id), nil); err != nil || r.Path != dir ||
		len(h.requests) != before {
		t.Errorf("lowpack downloads again: %v, %v, %v", r, err, h.requests[before:])
	}
	if shared := python(theirs, "main", "shared"); shared != dir {
		t.Errorf("huggingface_hub finds %s", shared)
	}
	if r, err := theirs.Pull(t.Context(), name(t, h.id), nil); err != nil || r.Path != dir ||
		len(h.requests) != before {
		t.Errorf("lowpack downloads shared blobs again: %v, %v, %v", r, err, h.requests[before:])
	}
	theirs.Offline = true
	for _, n := range []string{h.id, h.id + "@" + h.commit} {
		if r, err := theirs.Pull(t.Context(), name(t, n), nil); err != nil || r.Path != dir {
			t.Errorf("%s: lowpack does not find what huggingface_hub wrote: %v, %v", n, r, err)
		}
	}
}
