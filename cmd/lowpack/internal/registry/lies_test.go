package registry

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
	"github.com/lowpack/lowpack/internal/testkit/ociregistry"
	"github.com/lowpack/lowpack/pack"
)

// refused pulls into an empty folder, and checks the error and that no file appeared.
func refused(t *testing.T, n Name, class error, says ...string) {
	t.Helper()
	target := filepath.Join(t.TempDir(), "model.safetensors")
	err := fetched(t.Context(), newClient(), n, target)
	if err == nil || class != nil && !errors.Is(err, class) {
		t.Errorf("%v, want %v", err, class)
		return
	}
	for _, word := range append(says, n.String()) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
	if len(err.Error()) > 2000 {
		t.Errorf("%d bytes of error", len(err.Error()))
	}
	for _, path := range []string{target, target + ".sig"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s appeared", path)
		}
	}
}

// TestManifests: a manifest that is not that of a packed file, or contradicts itself, is refused before any blob is
// asked for.
func TestManifests(t *testing.T) {
	r, n, _ := pushed(t, "a signature")
	var usual manifest
	if err := json.Unmarshal(r.Manifest("models/tiny", "v1"), &usual); err != nil {
		t.Fatal(err)
	}
	titled := func(l *ocispec.Descriptor, title string) {
		l.Annotations = map[string]string{pathKey: title, titleKey: title}
	}
	many := func(m *manifest, n int) { m.Layers = make(layers, n) }
	for what, c := range map[string]struct {
		edit  func(m *manifest)
		class error
		says  string
	}{
		"an index":      {func(m *manifest) { m.MediaType = indexType }, pack.ErrUnsupported, "image.index"},
		"no media type": {func(m *manifest) { m.MediaType = "" }, pack.ErrUnsupported, `type ""`},
		"schema":        {func(m *manifest) { m.SchemaVersion = 1 }, pack.ErrUnsupported, "schema version 1"},
		"a container image": {func(m *manifest) { m.ArtifactType = "" },
			pack.ErrUnsupported, "the artifact is of type"},
		"another artifact": {func(m *manifest) { m.ArtifactType = "application/vnd.example.chart" },
			pack.ErrUnsupported,
			"application/vnd.example.chart"},
		"a long type": {func(m *manifest) { m.ArtifactType = strings.Repeat("x", 1<<20) }, pack.ErrUnsupported, "xxx"},
		"another configuration": {func(m *manifest) { m.Config.MediaType = ocispec.MediaTypeImageConfig },
			pack.ErrUnsupported, "the configuration is of type"},
		"a model of others": {func(m *manifest) { m.Annotations = nil }, pack.ErrUnsupported, sumKey},
		"not a sum":         {func(m *manifest) { m.Annotations[sumKey] = "../x" }, pack.ErrUnsupported, sumKey},
		"no weights": {func(m *manifest) { m.Layers = m.Layers[len(m.Layers)-1:] },
			pack.ErrCorrupt, "no layers"},
		"no layers":       {func(m *manifest) { m.Layers = layers{} }, pack.ErrCorrupt, "no layers"},
		"too many layers": {func(m *manifest) { many(m, maxLayers+1) }, pack.ErrLimit, "more than 8192 layers"},
		"a tar": {func(m *manifest) { m.Layers[0].MediaType = strings.Replace(weightType, "raw", "tar+gzip", 1) },
			pack.ErrUnsupported, "weight.v1.tar+gzip"},
		"a document": {func(m *manifest) { titled(&m.Layers[len(m.Layers)-1], "README.md") }, pack.ErrUnsupported,
			"README.md"},
		"two signatures": {func(m *manifest) {
			m.Layers = append(m.Layers, m.Layers[len(m.Layers)-1])
		}, pack.ErrUnsupported, "second signature"},
		"a long signature": {func(m *manifest) { m.Layers[len(m.Layers)-1].Size = MaxSignature + 1 }, pack.ErrLimit,
			"the signature has 16777217 bytes"},
		"another algorithm": {func(m *manifest) { m.Layers[1].Digest = "md5:00" }, pack.ErrCorrupt, "layer 1"},
		"a digest that is a path": {func(m *manifest) { m.Layers[1].Digest = "sha256:../../../etc" }, pack.ErrCorrupt,
			"layer 1"},
		"no size":  {func(m *manifest) { m.Layers[2].Size = 0 }, pack.ErrCorrupt, "0 bytes"},
		"negative": {func(m *manifest) { m.Layers[2].Size = -5 }, pack.ErrCorrupt, "-5 bytes"},
		"sizes overflow": {func(m *manifest) { m.Layers[2].Size = 1<<63 - 1 - MaxSignature }, pack.ErrCorrupt,
			"not a size"},
		"sizes overflow behind the signature": {func(m *manifest) {
			last := len(m.Layers) - 1
			m.Layers = layers{m.Layers[last], m.Layers[0]}
			m.Layers[1].Size = 1<<63 - 2
		}, pack.ErrCorrupt, "not a size"},
		"elsewhere": {func(m *manifest) { m.Layers[0].URLs = []string{"https://registry.example.com/x"} },
			pack.ErrUnsupported, "elsewhere"},
		"title up": {func(m *manifest) { titled(&m.Layers[0], "../model.safetensors") },
			pack.ErrCorrupt, "../model"},
		"title absolute":   {func(m *manifest) { titled(&m.Layers[0], "/etc/passwd") }, pack.ErrCorrupt, "/etc/passwd"},
		"title backslash":  {func(m *manifest) { titled(&m.Layers[0], `..\x`) }, pack.ErrCorrupt, `..\\x`},
		"title of a drive": {func(m *manifest) { titled(&m.Layers[0], "C:x") }, pack.ErrCorrupt, "C:x"},
		"title hidden":     {func(m *manifest) { titled(&m.Layers[0], ".bashrc") }, pack.ErrCorrupt, ".bashrc"},
		"title control":    {func(m *manifest) { titled(&m.Layers[0], "a\x1b[2J") }, pack.ErrCorrupt, `\x1b`},
		"title long": {func(m *manifest) { titled(&m.Layers[0], strings.Repeat("y", 256)) },
			pack.ErrCorrupt, "yyy"},
		"no title": {func(m *manifest) { m.Layers[0].Annotations = nil }, pack.ErrCorrupt, pathKey},
		"two titles": {func(m *manifest) { m.Layers[0].Annotations[titleKey] = "other" },
			pack.ErrCorrupt, "other"},
	} {
		t.Run(what, func(t *testing.T) {
			text, err := json.Marshal(usual)
			if err != nil {
				t.Fatal(err)
			}
			var m manifest
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			c.edit(&m)
			if text, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
			r.Put("models/tiny", "bad", text)
			r.Requests()
			n.Tag = "bad"
			refused(t, n, c.class, c.says)
			if asked := r.Requests(); len(asked) != 1 {
				t.Errorf("asked for %q", asked)
			}
		})
	}
}

// TestMixedUp: layers that are all as listed, but are not the file that was pushed, give no file.
func TestMixedUp(t *testing.T) {
	r, n, _ := pushed(t, "")
	var m manifest
	if err := json.Unmarshal(r.Manifest("models/tiny", "v1"), &m); err != nil {
		t.Fatal(err)
	}
	m.Layers[0], m.Layers[1] = m.Layers[1], m.Layers[0]
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r.Put("models/tiny", "mixed", text)
	n.Tag = "mixed"
	refused(t, n, pack.ErrCorrupt, "the layers together have the SHA-256")
}

// TestLies: answers that contradict the manifest, compressed or endless ones end a pull; nothing gets its name.
func TestLies(t *testing.T) {
	answer := func(part string, f func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter,
		*http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, part) {
				f(w, r)
				return true
			}
			return false
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}
	raw := func(head string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\nbytes", head)
				conn.Close()
			}
		}
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 1<<20))
	z.Close()
	zipped := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb.Bytes())
	}
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			ociregistry.Refuse(w, code, "DENIED", "not for \x1b[2Jyou")
		}
	}
	const manifests, blobs = "/manifests/", "/blobs/"
	for what, c := range map[string]struct {
		part   string
		answer func(http.ResponseWriter, *http.Request)
		class  error
		says   string
		most   int // requests
	}{
		"endless manifest":    {manifests, endless, pack.ErrLimit, "more than 4194304 bytes", 1},
		"endless blob":        {blobs, endless, pack.ErrCorrupt, "more than the", 2},
		"compressed manifest": {manifests, zipped, pack.ErrUnsupported, `"gzip"`, 1},
		"compressed blob":     {blobs, zipped, pack.ErrUnsupported, `"gzip"`, 2},
		"longer": {blobs, raw("200 OK\r\nContent-Length: 99999999"),
			pack.ErrCorrupt, "the descriptor requires", 2},
		"shorter": {blobs, raw("200 OK\r\nContent-Length: 5"),
			pack.ErrCorrupt, "the descriptor requires", 2},
		"breaks": {blobs, raw("200 OK\r\nX: y"), nil, fmt.Sprintf("after %d tries", transfer.Tries),
			1 + transfer.Tries},
		"never there": {blobs, status(503),
			nil, fmt.Sprintf("after %d tries", transfer.Tries), 1 + transfer.Tries},
		"no such blob":       {blobs, status(404), fs.ErrNotExist, "blob sha256:", 2},
		"forbidden":          {blobs, status(403), fs.ErrPermission, "docker login", 2},
		"no such manifest":   {manifests, status(404), fs.ErrNotExist, "check repository", 1},
		"forbidden manifest": {manifests, status(403), fs.ErrPermission, `denied: not for \u001b[2Jyou`, 1},
		"not JSON": {manifests, raw("200 OK\r\nContent-Length: 5"),
			pack.ErrCorrupt, "the manifest is not one", 1},
		"empty": {manifests, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
			nil, "204", 1},
		"headers without end": {manifests, raw("200 OK\r\nX: " + strings.Repeat("x", 1<<20)),
			nil, "header", transfer.Tries},
		"another digest": {manifests, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
			w.Write([]byte("{}"))
		}, pack.ErrCorrupt, "the digest of the manifest is", 1},
		"redirects without end": {manifests, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"/x", http.StatusFound)
		}, pack.ErrLimit, "redirects", transfer.MaxRedirects},
	} {
		t.Run(what, func(t *testing.T) {
			r, n, _ := pushed(t, "")
			r.Requests()
			r.Front = answer(c.part, c.answer)
			refused(t, n, c.class, c.says)
			if asked := r.Requests(); len(asked) > c.most {
				t.Errorf("%d requests: %q", len(asked), asked)
			}
		})
	}
}

// TestDigests: bytes that are not those of the digest by which they were asked for give no file, wherever they stand.
func TestDigests(t *testing.T) {
	r, n, _ := pushed(t, "a signature")
	a, err := newClient().Resolve(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	wrong := ""
	r.Front = func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasSuffix(req.URL.Path, wrong) || wrong == "" {
			return false
		}
		size := 0
		for _, l := range append(a.parts, *a.signature) {
			if string(l.Digest) == wrong {
				size = int(l.Size)
			}
		}
		w.Write(bytes.Repeat([]byte("w"), size))
		return true
	}
	for _, l := range append(a.parts, *a.signature) {
		wrong = string(l.Digest)
		refused(t, n,
			pack.ErrCorrupt, "blob "+wrong, l.Annotations[pathKey], "the digest of what the registry sends is")
	}
	wrong = a.Name.Digest
	refusedManifest := func(w http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.URL.Path, "/manifests/") {
			w.Write([]byte("{}"))
			return true
		}
		return false
	}
	r.Front = refusedManifest
	refused(t, a.Name, pack.ErrCorrupt, "the digest of the manifest is", a.Name.Digest)
}

// FuzzManifest: no manifest makes the reader panic, and what it accepts has parts of known sizes with plain names.
func FuzzManifest(f *testing.F) {
	digest := "sha256:" + strings.Repeat("0", 64)
	layer := fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":3,"annotations":{%q:"a",%q:"a"}}`, weightType, digest,
		pathKey, titleKey)
	f.Add([]byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"artifactType":%q,"config":{"mediaType":%q},`+
		`"layers":[%s],"annotations":{%q:%q}}`, imageType, artifactType, configType, layer, sumKey,
		strings.Repeat("0", 64))))
	f.Add([]byte(`{"layers":[{},{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := readManifest(text)
		if err != nil {
			if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) &&
				!errors.Is(err, pack.ErrLimit) {
				t.Error(err)
			}
			return
		}
		sum := int64(0)
		for _, p := range c.parts {
			sum += p.Size
			if p.Size <= 0 || !isPlainName(p.Annotations[pathKey]) || !digestPattern.MatchString(string(p.Digest)) {
				t.Errorf("%+v", p)
			}
		}
		if sum != c.size || sum <= 0 {
			t.Errorf("%d bytes of %d", sum, c.size)
		}
	})
}
