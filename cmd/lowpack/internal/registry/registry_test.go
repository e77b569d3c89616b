package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/ociregistry"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// newClient cuts even a tiny model into many parts.
func newClient() *Client {
	return &Client{Patience: transfer.Patience{Stall: time.Minute, Pause: time.Nanosecond}, Agent: "test",
		sizes: sizes{large: 4 << 10, piece: 32 << 10}}
}

func none(int64, int64, string) {}

// TestDistinct: the first of equal blobs stays, and each of a file with many is looked at once.
func TestDistinct(t *testing.T) {
	const n = 10_000
	list, looked := make([]int, 2*n), 0
	for i := range list {
		list[i] = i
	}
	got := distinct(list, func(i int) int { looked++; return i % n })
	if len(got) != n || got[n-1] != n-1 || looked != 2*n {
		t.Errorf("%d blobs left after %d looks at %d", len(got), looked, 2*n)
	}
}

func nameOf(t testing.TB, text string) Name {
	t.Helper()
	n, err := ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pushed is a registry with a packed file as models/tiny:v1, and the bytes of the file.
func pushed(t testing.TB, signature string) (r *ociregistry.Registry, n Name, file []byte) {
	t.Helper()
	r = ociregistry.New(t)
	n = nameOf(t, "oci://"+r.Host+"/models/tiny:v1")
	path := tinymodel.Path(t)
	p, err := newClient().Push(t.Context(), n, path, []byte(signature), none)
	if err != nil {
		t.Fatal(err)
	}
	if p.Sent != p.Bytes || p.Name.Digest != ociregistry.Digest(r.Manifest("models/tiny", "v1")) {
		t.Errorf("%+v", p)
	}
	if file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return r, n, file
}

// fetched downloads what a name denotes.
func fetched(ctx context.Context, c *Client, n Name, target string) error {
	a, err := c.Resolve(ctx, n)
	if err != nil {
		return err
	}
	return c.Pull(ctx, a, target, none)
}

// holds compares a file.
func holds(t testing.TB, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes that are not the %d pushed ones, %v", path, len(got), len(want), err)
	}
}

// TestPush: what was pushed comes back byte for byte, by tag and by digest, with its signature; its layers are as
// docs/REGISTRY.md says; and nothing is sent twice.
func TestPush(t *testing.T) {
	const signature = "a signature"
	r, n, file := pushed(t, signature)
	c := newClient()
	a, err := c.Resolve(t.Context(), n)
	digest := ociregistry.Digest(r.Manifest("models/tiny", "v1"))
	if err != nil || a.Name.String() != "oci://"+r.Host+"/models/tiny@"+digest {
		t.Fatal(a, err)
	}
	for _, n := range []Name{n, a.Name} {
		var last, total int64
		target := filepath.Join(t.TempDir(), "model.safetensors")
		if a, err = c.Resolve(t.Context(), n); err == nil {
			err = c.Pull(t.Context(), a, target, func(done, all int64, _ string) { last, total = done, all })
		}
		if err != nil || last != total || total != int64(len(file)+len(signature)) || a.Size() != int64(len(file)) {
			t.Fatal(last, total, err)
		}
		holds(t, target, file)
		holds(t, target+".sig", []byte(signature))
		if left, _ := os.ReadDir(filepath.Dir(target)); len(left) != 2 {
			t.Errorf("beside the file: %v", left)
		}
	}

	var m manifest
	if err := json.Unmarshal(r.Manifest("models/tiny", "v1"), &m); err != nil {
		t.Fatal(err)
	}
	types := map[string]int{}
	var names []string
	for _, l := range m.Layers {
		types[l.MediaType]++
		names = append(names, l.Annotations[titleKey])
	}
	if types[weightType] < 5 || types[embeddedType] < 3 || types[documentType] != 1 ||
		names[0] != "tiny-bitnet.safetensors.part0000" || !slices.Contains(names, "tokenizer.json") ||
		!slices.Contains(names, "config.json") || names[len(names)-1] != "tiny-bitnet.safetensors.sig" {
		t.Errorf("%v %q", types, names)
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != len(names) {
		t.Errorf("two layers have one name: %q", names)
	}
}

// TestOlderSignature: a file that would be taken for the signature of an artifact without one is not left beside it.
func TestOlderSignature(t *testing.T) {
	_, n, file := pushed(t, "")
	target := filepath.Join(t.TempDir(), "model.safetensors")
	beside := target + SignatureSuffix
	if err := os.WriteFile(beside, []byte("of another file"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := fetched(t.Context(), newClient(), n, target)
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), beside) {
		t.Errorf("beside an older signature: %v", err)
	}
	holds(t, beside, []byte("of another file"))
	if err := os.Remove(beside); err != nil {
		t.Fatal(err)
	}
	if err := fetched(t.Context(), newClient(), n, target); err != nil {
		t.Fatal(err)
	}
	holds(t, target, file)
}

// TestAgain: a second push sends nothing but the manifest, and one of the same model in another layout nothing that is
// equal.
func TestAgain(t *testing.T) {
	r, n, _ := pushed(t, "")
	c := newClient()
	path := tinymodel.Path(t)
	r.Requests()
	p, err := c.Push(t.Context(), n, path, nil, none)
	if err != nil || p.Sent != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, request := range r.Requests() {
		if !strings.HasPrefix(request, "HEAD ") && request != "PUT /v2/models/tiny/manifests/v1" {
			t.Errorf("the second time: %s", request)
		}
	}
	other := tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet-packed"), packed.Recipe{Golden: "none",
		Layout: "i2"})
	n.Tag = "i2"
	p, err = c.Push(t.Context(), n, other, nil, none)
	if err != nil || p.Sent >= p.Bytes || p.Sent == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	f, err := packed.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, _ := f.Embedded("tokenizer.json")
	had := slices.Contains(r.Requests(), "HEAD /v2/models/tiny/blobs/"+ociregistry.Digest(text))
	if equal := p.Bytes - p.Sent; !had || equal < int64(len(text)) {
		t.Errorf("%d bytes were found equal, the tokenizer alone has %d", equal, len(text))
	}
	twice, err := c.Push(t.Context(), n, other, text, none) // one more layer, of bytes that are there
	if err != nil || twice.Bytes-p.Bytes >= int64(len(text)) {
		t.Errorf("%d bytes instead of %d, %v", twice.Bytes, p.Bytes, err)
	}
}

// TestHiddenName: a file whose layers no pull would accept is not pushed.
func TestHiddenName(t *testing.T) {
	r := ociregistry.New(t)
	path := tinymodel.Path(t)
	hidden := filepath.Join(filepath.Dir(path), ".tiny.safetensors")
	if err := os.Rename(path, hidden); err != nil {
		t.Fatal(err)
	}
	_, err := newClient().Push(t.Context(), nameOf(t, "oci://"+r.Host+"/tiny"), hidden, nil, none)
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), hidden) {
		t.Error(err)
	}
	if asked := r.Requests(); len(asked) != 0 {
		t.Errorf("asked for %q", asked)
	}
}

// TestCut: the parts are the file, one after another, none too large, and those of one tensor begin where it begins.
func TestCut(t *testing.T) {
	f, _ := tinymodel.Open(t, tinymodel.Path(t))
	for _, s := range []sizes{usual, {4 << 10, 32 << 10}, {1, 7}, {1 << 40, 1 << 40}} {
		parts, err := cut(f, "x", s)
		if err != nil {
			t.Fatal(err)
		}
		at := int64(0)
		starts := map[int64]bool{}
		for _, p := range parts {
			most := max(s.piece, 4*f.Size()/maxLayers)
			if p.begin != at || p.size <= 0 || p.mediaType == weightType && p.size > most {
				t.Fatalf("%+v: %+v at %d", s, p, at)
			}
			starts[at] = true
			at += p.size
		}
		if at != f.Size() || len(parts) > maxLayers {
			t.Errorf("%+v: %d parts with %d bytes of %d", s, len(parts), at, f.Size())
		}
		for _, info := range f.Tensors() {
			section, err := f.Section(info.Name)
			if err != nil {
				t.Fatal(err)
			}
			if _, begin, size := section.Outer(); size >= s.large && !starts[begin] {
				t.Errorf("%+v: no part begins with %s", s, info.Name)
			}
		}
	}
}

// TestResume: the next pull continues an interrupted one, whatever its file begins with.
func TestResume(t *testing.T) {
	r, n, file := pushed(t, "a signature")
	c := newClient()
	target := filepath.Join(t.TempDir(), "model.safetensors")
	a, err := c.Resolve(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = c.Pull(ctx, a, target, func(done, _ int64, _ string) {
		if done > int64(len(file))/2 {
			cancel()
		}
	})
	unfinished := filepath.Join(filepath.Dir(target), ".model.safetensors.resume")
	info, statErr := os.Stat(unfinished)
	if !errors.Is(err, context.Canceled) || statErr != nil || info.Size() < int64(len(file))/2 {
		t.Fatal(err, info, statErr)
	}
	half, err := os.ReadFile(unfinished)
	if err != nil {
		t.Fatal(err)
	}
	for what, begun := range map[string][]byte{
		"half":           half,
		"in a part":      half[:len(half)-3],
		"one byte":       half[:1],
		"nothing":        {},
		"other bytes":    bytes.Repeat([]byte("x"), len(half)),
		"a changed byte": append([]byte{half[0] ^ 1}, half[1:]...),
		"everything":     append(slices.Clone(file), "a signature"...),
		"more":           append(slices.Clone(file), "a signature and more"...),
		"no signature":   append(slices.Clone(file), "another"...),
	} {
		if err := os.WriteFile(unfinished, begun, 0o600); err != nil {
			t.Fatal(err)
		}
		os.Remove(target)
		os.Remove(target + ".sig")
		r.Requests()
		if err := c.Pull(t.Context(), a, target, none); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		holds(t, target, file)
		holds(t, target+".sig", []byte("a signature"))
		ranges := slices.ContainsFunc(r.Requests(), func(s string) bool { return strings.Contains(s, " bytes=") })
		if want := what == "in a part" || what == "one byte"; want && !ranges {
			t.Errorf("%s: nothing was continued", what)
		}
	}
}

// TestTwoAtOnce: of two processes that write one file, one is refused, and the other one's file is whole.
func TestTwoAtOnce(t *testing.T) {
	_, n, file := pushed(t, "")
	target := filepath.Join(t.TempDir(), "model.safetensors")
	a, err := newClient().Resolve(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	err = newClient().Pull(t.Context(), a, target, func(int64, int64, string) {
		once.Do(func() {
			err := newClient().Pull(t.Context(), a, target, none)
			if err == nil || !strings.Contains(err.Error(), "another process is writing") {
				t.Error(err)
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	holds(t, target, file)
}

func TestParseName(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for text, want := range map[string]Name{
		"oci://localhost:5000/a":                   {"localhost:5000", "a", "latest", ""},
		"oci://registry.example.com/a/b-c_d.e:1.0": {"registry.example.com", "a/b-c_d.e", "1.0", ""},
		"oci://[::1]:5000/a:x":                     {"[::1]:5000", "a", "x", ""},
		"oci://localhost/a@" + digest:              {"localhost", "a", "", digest},
	} {
		got, err := ParseName(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if again, err := ParseName(got.String()); err != nil || again != got {
			t.Errorf("%s: %+v, %v", got, again, err)
		}
	}
	for _, text := range []string{"", "a/b", "oci://", "oci:///a", "oci://localhost", "oci://localhost/", "oci://h/A",
		"oci://h/a:", "oci://h/a@", "oci://h/a:x y", "oci://h/../a", "oci://h/a/../b", "oci://h//a", "oci://h/a?b",
		"oci://user:password@h/a", "oci://user@h/a", "oci://h/a:1@" + digest, "oci://h/a@sha256:00",
		"oci://h/a@sha512:" + strings.Repeat("0a", 64), "oci://h/a@md5:" + strings.Repeat("0a", 16),
		"oci://h/a:" + strings.Repeat("x", 129), "http://h/a", "oci://h/a@" + strings.ToUpper(digest),
		"oci://h/a#b", "oci://h\n/a", "oci://h /a"} {
		if got, err := ParseName(text); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
