package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/pack"
)

func name(t *testing.T, text string) Name {
	t.Helper()
	n, err := ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// holds checks that a snapshot has exactly the wanted files of the hub, each linked to a blob with its digest.
func (h *fakeHub) holds(dir string) {
	h.t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil || !bytes.Equal(data, h.files[e.Name()]) {
			h.t.Errorf("%s: other bytes than the hub's (%v)", e.Name(), err)
		}
		if link, err := os.Readlink(filepath.Join(dir, e.Name())); err != nil ||
			link != filepath.Join("..", "..", "blobs", blobOf(data)) {
			h.t.Errorf("%s links to %q (%v)", e.Name(), link, err)
		}
	}
	var want []string
	for n := range h.files {
		if wanted(n) {
			want = append(want, n)
		}
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		h.t.Errorf("snapshot has %v, want %v", names, want)
	}
}

// leftovers lists files of a cache other than blobs, links, refs and locks.
func leftovers(t *testing.T, cache string) (out []string) {
	t.Helper()
	filepath.WalkDir(cache, func(path string, e fs.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(path, ".incomplete") || strings.HasPrefix(e.Name(), ".ref-")) {
			out = append(out, path)
		}
		return nil
	})
	return out
}

// TestPull: Pull downloads what a conversion needs and nothing else, nothing the second time, and finds it offline.
func TestPull(t *testing.T) {
	h := newHub(t, &fakeHub{token: "hf_secret"})
	c := h.client()
	c.Token = "hf_secret"
	var last, total int64
	var mu sync.Mutex
	r, err := c.Pull(t.Context(), name(t, "acme/tiny-model"), func(done, all int64, _ string) {
		mu.Lock()
		defer mu.Unlock()
		last, total = max(last, done), all
	})
	if err != nil {
		t.Fatal(err)
	}
	h.holds(r.Path)
	if last != total || total != r.Bytes {
		t.Errorf("progress ended at %d of %d, files have %d", last, total, r.Bytes)
	}
	if h.leaked {
		t.Error("the token went to the storage host")
	}
	ref, err := os.ReadFile(filepath.Join(c.Cache, "models--acme--tiny-model", "refs", "main"))
	if err != nil || string(ref) != h.commit {
		t.Errorf("refs/main is %q (%v)", ref, err)
	}
	before := len(h.requests)
	if _, err := c.Pull(t.Context(), name(t, "acme/tiny-model"), nil); err != nil || len(h.requests) != before {
		t.Errorf("the second time: %v, %v", err, h.requests[before:])
	}
	c.Offline = true
	h.hub.Close()
	for _, n := range []string{"acme/tiny-model", "acme/tiny-model@" + h.commit} {
		if again, err := c.Pull(t.Context(), name(t, n), nil); err != nil || again.Path != r.Path {
			t.Errorf("%s offline: %v, %v", n, again, err)
		}
	}
	for _, n := range []string{"acme/other", "acme/tiny-model@v1", "acme/tiny-model@" + strings.Repeat("0", 40)} {
		if _, err := c.Pull(t.Context(), name(t, n), nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s offline: %v", n, err)
		}
	}
}

// TestTroubles: the bytes are right in spite of broken and silent connections, ignored ranges and a busy hub.
func TestTroubles(t *testing.T) {
	for what, h := range map[string]*fakeHub{
		"breaks six times":       {cut: 6, cutAt: 50_000},
		"breaks, without ranges": {cut: 2, cutAt: 50_000, noRange: true},
		"falls silent":           {silent: true, cutAt: 50_000},
		"busy":                   {busy: 3},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHub(t, h)
			c := h.client()
			if h.silent {
				c.Stall = time.Second // of five tries in a row without progress
			}
			r, err := c.Pull(t.Context(), name(t, "acme/tiny-model@v1"), nil)
			if err != nil {
				t.Fatal(err)
			}
			h.holds(r.Path)
			if left := leftovers(t, c.Cache); left != nil {
				t.Error(left)
			}
			ranged := slices.ContainsFunc(h.requests, func(s string) bool { return strings.Contains(s, "bytes=") })
			if h.cutAt > 0 && !ranged {
				t.Errorf("nothing was continued: %v", h.requests)
			}
		})
	}
}

// TestResume: the next Pull continues an interrupted one, and does not trust foreign files.
func TestResume(t *testing.T) {
	h := newHub(t, &fakeHub{cut: 1 << 20, cutAt: 60_000})
	c := h.client()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Pull(ctx, name(t, "acme/tiny-model"), func(done, _ int64, _ string) {
		if done > 100_000 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || len(leftovers(t, c.Cache)) == 0 {
		t.Fatal(err, leftovers(t, c.Cache))
	}
	if _, err := os.Stat(filepath.Join(c.Cache, "models--acme--tiny-model", "refs")); err == nil {
		t.Error("an interrupted pull noted its commit")
	}
	h.mu.Lock()
	h.cut, h.requests = 0, nil
	h.mu.Unlock()
	r, err := c.Pull(t.Context(), name(t, "acme/tiny-model"), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.holds(r.Path)
	if !slices.ContainsFunc(h.requests,
		func(s string) bool { return strings.HasPrefix(s, "model.safetensors bytes=") }) {
		t.Errorf("nothing was continued: %v", h.requests)
	}

	h2 := newHub(t, &fakeHub{})
	c = h2.client()
	h2.begin(c, "model.safetensors", "other bytes")
	if _, err := c.Pull(t.Context(), name(t, "acme/tiny-model"), nil); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("a forged beginning: %v", err)
	}
	if r, err = c.Pull(t.Context(), name(t, "acme/tiny-model"), nil); err != nil {
		t.Fatal(err)
	}
	h2.holds(r.Path)
}

// TestRefusals: every error has its class and names the remedy.
func TestRefusals(t *testing.T) {
	weights := []byte(strings.Repeat("w", 2000))
	for what, c := range map[string]struct {
		hub   *fakeHub
		name  string
		class error
		says  string
	}{
		"missing":   {&fakeHub{}, "acme/none", fs.ErrNotExist, "HF_TOKEN"},
		"private":   {&fakeHub{token: "x"}, "acme/tiny-model", fs.ErrNotExist, "HF_TOKEN"},
		"gated":     {&fakeHub{gated: true}, "acme/tiny-model", fs.ErrPermission, "accept its terms"},
		"revision":  {&fakeHub{}, "acme/tiny-model@v9", fs.ErrNotExist, `"v9"`},
		"lie":       {&fakeHub{lie: "model.safetensors"}, "acme/tiny-model", pack.ErrCorrupt, "model.safetensors"},
		"small lie": {&fakeHub{lie: "config.json"}, "acme/tiny-model", pack.ErrCorrupt, "config.json"},
		"broken":    {&fakeHub{cut: 1 << 20, cutAt: 0}, "acme/tiny-model", nil, "after 5 tries"},
		"busy":      {&fakeHub{busy: 1 << 20}, "acme/tiny-model", nil, "429"},
		"pickles": {&fakeHub{files: map[string][]byte{"config.json": weights, "pytorch_model.bin": weights}},
			"acme/tiny-model", pack.ErrUnsupported, "pickle"},
		"two ggufs": {&fakeHub{files: map[string][]byte{"m.Q4_0.gguf": weights, "m.Q8_0.gguf": weights}},
			"acme/tiny-model", pack.ErrUnsupported, "acme/tiny-model:m.Q"},
		"nothing": {&fakeHub{files: map[string][]byte{"README.md": weights}}, "acme/tiny-model", pack.ErrUnsupported,
			"no weights"},
		"outside": {&fakeHub{files: map[string][]byte{"../model.safetensors": weights}}, "acme/tiny-model",
			pack.ErrCorrupt, "not a name inside"},
		"missing shard": {&fakeHub{files: map[string][]byte{
			indexName:             []byte(`{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}`),
			"model-1.safetensors": weights,
		}}, "acme/tiny-model", pack.ErrCorrupt, "model-2.safetensors"},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHub(t, c.hub)
			client := h.client()
			client.Endpoint = strings.Replace(client.Endpoint, "http://", "http://user:secret@", 1)
			_, err := client.Pull(t.Context(), name(t, c.name), nil)
			if err == nil || c.class != nil && !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), "acme/") {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the message shows a signature, or the password of the hub: %v", err)
			}
			if _, err := os.Stat(filepath.Join(client.Cache, "models--acme--tiny-model", "refs")); err == nil {
				t.Error("a failed pull noted its commit")
			}
		})
	}
}

// TestRenamed: a renamed model is found under its old name.
func TestRenamed(t *testing.T) {
	h := newHub(t, &fakeHub{})
	r, err := h.client().Pull(t.Context(), name(t, "acme/old-name"), nil)
	if err != nil || r.Renamed != "acme/tiny-model" {
		t.Fatal(r, err)
	}
	h.holds(r.Path)
}

// TestIndex: of several sets of weights, only the one in the index is downloaded.
func TestIndex(t *testing.T) {
	files := map[string][]byte{"config.json": []byte("{}"),
		"consolidated.safetensors": []byte(strings.Repeat("c", 3000))}
	shards := []string{}
	for i := range 5 {
		shard := fmt.Sprintf("model-%d.safetensors", i)
		files[shard] = []byte(strings.Repeat(shard, 200))
		shards = append(shards, fmt.Sprintf("%q: %q", shard, shard))
	}
	files[indexName] = []byte(`{"weight_map": {` + strings.Join(shards, ", ") + `}}`)
	h := newHub(t, &fakeHub{files: files})
	r, err := h.client().Pull(t.Context(), name(t, "acme/tiny-model"), nil)
	if err != nil {
		t.Fatal(err)
	}
	delete(h.files, "consolidated.safetensors")
	h.holds(r.Path)
}

// TestTwoAtOnce: two processes that pull the same model share its downloads.
func TestTwoAtOnce(t *testing.T) {
	h := newHub(t, &fakeHub{})
	c := h.client()
	second := *c
	errs := make(chan error, 2)
	for _, c := range []*Client{c, &second} {
		go func() {
			_, err := c.Pull(t.Context(), name(t, "acme/tiny-model"), nil)
			errs <- err
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"model.safetensors ", "tokenizer.json "} {
		if n := len(slices.DeleteFunc(slices.Clone(h.requests), func(s string) bool { return s != f })); n != 1 {
			t.Errorf("%s was downloaded %d times", f, n)
		}
	}
}

func TestParseName(t *testing.T) {
	for text, want := range map[string]Name{
		"microsoft/bitnet-b1.58-2B-4T": {"microsoft", "bitnet-b1.58-2B-4T", "main", ""},
		"a/b@v1.0":                     {"a", "b", "v1.0", ""},
		"a/b@refs/pr/3":                {"a", "b", "refs/pr/3", ""},
		"a/b@v1:Q4_0":                  {"a", "b", "v1", "Q4_0"},
	} {
		if got, err := ParseName(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "a/", "/b", "a/b/c", "../b", "a/..", "a/b--c", "a/b.", "-a/b", "a/b.git",
		"a/b@", "a/b@../x", "a/b@x//y", "a b/c", "a/b@x y", "./model", "a/b@-x", strings.Repeat("a", 97) + "/b"} {
		if got, err := ParseName(text); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestFromEnvironment: the variables have the same meaning as in huggingface_hub.
func TestFromEnvironment(t *testing.T) {
	home := t.TempDir()
	os.WriteFile(filepath.Join(home, "token"), []byte("hf_file\n"), 0o600)
	for what, c := range map[string]struct {
		env  map[string]string
		want Client
	}{
		"home": {map[string]string{"HF_HOME": home},
			Client{Endpoint: defaultEndpoint, Cache: filepath.Join(home, "hub"),
				Token: "hf_file"}},
		"cache": {map[string]string{"HF_HOME": home, "HF_HUB_CACHE": "$HF_HOME/c", "HF_TOKEN": "t",
			"HF_HUB_OFFLINE": "1"},
			Client{Endpoint: defaultEndpoint, Cache: home + "/c", Token: "t", Offline: true}},
		"xdg": {map[string]string{"XDG_CACHE_HOME": home, "HF_ENDPOINT": "http://localhost:1/"},
			Client{Endpoint: "http://localhost:1", Cache: filepath.Join(home, "huggingface", "hub")}},
		"default": {map[string]string{"HOME": home}, Client{Endpoint: defaultEndpoint,
			Cache: filepath.Join(home, ".cache", "huggingface", "hub")}},
	} {
		for _, key := range []string{"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_TOKEN_PATH",
			"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_ENDPOINT", "XDG_CACHE_HOME",
			"HF_HUB_DISABLE_IMPLICIT_TOKEN"} {
			t.Setenv(key, c.env[key])
		}
		if h := c.env["HOME"]; h != "" {
			t.Setenv("HOME", h)
		}
		got, err := FromEnvironment("")
		if err != nil || got.Endpoint != c.want.Endpoint || got.Cache != c.want.Cache || got.Token != c.want.Token ||
			got.Offline != c.want.Offline {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	t.Setenv("HF_ENDPOINT", "huggingface")
	if _, err := FromEnvironment(""); !errors.Is(err, pack.ErrUnsupported) {
		t.Error(err)
	}
}
