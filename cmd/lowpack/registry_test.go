package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/registry"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/ociregistry"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// emptyHome gives the user a home without caches and without a docker configuration.
func emptyHome(t *testing.T) (cache string) {
	t.Helper()
	cache = t.TempDir()
	for _, key := range []string{"XDG_CACHE_HOME", "HOME", "DOCKER_CONFIG", "HF_HOME"} {
		t.Setenv(key, cache)
	}
	return cache
}

// TestCachedArtifact: artifacts whose digests begin alike are different files of the cache, of one short name.
func TestCachedArtifact(t *testing.T) {
	emptyHome(t)
	seen := map[string]bool{}
	for _, last := range []string{"0", "1"} {
		n, err := registry.ParseName("oci://localhost/a/tiny@sha256:" + strings.Repeat("5", 63) + last)
		if err != nil {
			t.Fatal(err)
		}
		path, err := cachedArtifact(n)
		if err != nil || seen[path] {
			t.Error(path, err)
		}
		seen[path] = true
		l := local{name: strings.TrimSuffix(filepath.Base(path), ".safetensors")}
		if l.short() != "tiny" {
			t.Errorf("%s is called %s", path, l.short())
		}
	}
}

// TestRegistry: a packed file and its signature go to a registry and come back as they were; every command that takes a
// packed file takes its name there, and downloads it once.
func TestRegistry(t *testing.T) {
	cache := emptyHome(t)
	private, public := keyPair(t, 1)
	path := signedModel(t, private)
	r := ociregistry.New(t)
	name := "oci://" + r.Host + "/models/tiny:1.0"
	code, out, text := mainOf("push", path, name)
	digest := strings.TrimSuffix(name, ":1.0") + "@" + ociregistry.Digest(r.Manifest("models/tiny", "1.0"))
	if code != 0 || out != digest+"\n" {
		t.Fatal(code, out, text)
	}
	target := filepath.Join(t.TempDir(), "back.safetensors")
	if code, out, text := mainOf("pull", digest, "-o", target); code != 0 || out != target+"\n" {
		t.Fatal(code, out, text)
	}
	for _, suffix := range []string{"", ".sig"} {
		want, err := os.ReadFile(path + suffix)
		got, gotErr := os.ReadFile(target + suffix)
		if err != nil || gotErr != nil || !bytes.Equal(got, want) {
			t.Errorf("%s%s is another file: %v, %v", target, suffix, err, gotErr)
		}
	}

	code, want, text := mainOf("run", path, "-p", "Once", "-n", "4", "--temperature", "0")
	if code != 0 {
		t.Fatal(text)
	}
	r.Requests()
	for _, word := range []string{name, digest, "tiny"} {
		code, out, text := mainOf("run", word, "-p", "Once", "-n", "4", "--temperature", "0")
		if code != 0 || out != want {
			t.Errorf("run %s: %d %q, want %q: %s", word, code, out, want, text)
		}
	}
	made, _ := filepath.Glob(filepath.Join(cache, "lowpack", "packed", "tiny-*.safetensors"))
	if len(made) != 1 {
		t.Fatalf("in the cache: %v", made)
	}
	manifests := 0
	for _, request := range r.Requests() {
		if strings.Contains(request, "/manifests/") {
			manifests++
		}
	}
	if manifests != 1 {
		t.Errorf("the registry was asked %d times for manifests", manifests)
	}
	if code, out, text := mainOf("pull", name); code != 0 || out != made[0]+"\n" {
		t.Error(code, out, text)
	}
	for _, args := range [][]string{
		{"verify", name, "--level", "digest"}, {"verify", digest, "--level", "digest", "--key", public},
		{"inspect", name}, {"tokenize", name, "-p", "Once"},
	} {
		if code, out, text := mainOf(args...); code != 0 {
			t.Errorf("%q: %d %s%s", args, code, out, text)
		}
	}
	s := serveFile(t, "generic", name, "--require-signature", "--key", public)
	if _, text := s.send(http.MethodGet, "/v1/models", "", nil); !strings.Contains(string(text), `"id":"tiny"`) {
		t.Errorf("%s", text)
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	if code, out, text := mainOf("rm", "tiny", "--yes"); code != 0 {
		t.Error(out, text)
	}
	if left, _ := os.ReadDir(filepath.Dir(made[0])); len(left) != 0 {
		t.Errorf("rm left %v", left)
	}
}

// TestRegistryRefused: wrong names, flags and commands are refused before any request, with what to do.
func TestRegistryRefused(t *testing.T) {
	emptyHome(t)
	path := tinymodel.Path(t)
	r := ociregistry.New(t)
	name := "oci://" + r.Host + "/tiny"
	_, other := keyPair(t, 2)
	hidden := filepath.Join(filepath.Dir(path), ".hidden.safetensors")
	if err := os.Link(path, hidden); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"push", path}, 2, "oci://HOST/NAME"},
		{[]string{"push", path, "tiny"}, 2, "not the name of an artifact"},
		{[]string{"push", path, name + "@sha256:" + strings.Repeat("0", 64)}, 2, "digest"},
		{[]string{"push", path + ".none", name}, 1, path + ".none"},
		{[]string{"push", "pull.go", name}, 1, "pull.go"},
		{[]string{"push", hidden, name}, 1, "rename the file"},
		{[]string{"push", name, name}, 2, "lowpack pull it first"},
		{[]string{"pull", "oci://" + r.Host}, 2, "not the name of an artifact"},
		{[]string{"pull", "acme/tiny", "-o", path + ".new"}, 2, "--output is for oci://"},
		{[]string{"pull", "acme/tiny", "--plain-http"}, 2, "--plain-http is for oci://"},
		{[]string{"convert", name, "-o", path + ".new"}, 2, "lowpack pull it first"},
		{[]string{"repack", name, "--layout", "i2", "-o", path + ".new"}, 2, "lowpack pull it first"},
		{[]string{"sign", name, "--key", path}, 2, "lowpack pull it first"},
	} {
		code, out, text := mainOf(c.args...)
		if code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%q: %d %s%s", c.args, code, out, text)
		}
	}
	if asked := r.Requests(); len(asked) != 0 {
		t.Errorf("asked for %q", asked)
	}
	if code, _, text := mainOf("pull", name); code != 1 || !strings.Contains(text, "check repository, tag or digest") {
		t.Error(code, text)
	}
	if code, _, text := mainOf("push", path, name); code != 0 {
		t.Fatal(text)
	}
	if code, _, text := mainOf("verify", name, "--key", other); code != 1 {
		t.Error(code, text)
	}
	if code, _, text := mainOf("serve", name, "--key", other); code != 1 || !strings.Contains(text, "is not signed") {
		t.Error(code, text)
	}
}

// TestPullKilled: a pull that is killed anywhere leaves no file under its name, and the next one continues it.
func TestPullKilled(t *testing.T) {
	emptyHome(t)
	rounds := 3
	if long.All {
		rounds = 50
	}
	path := tinymodel.Path(t)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := ociregistry.New(t)
	name := "oci://" + r.Host + "/tiny"
	if code, _, text := mainOf("push", path, name); code != 0 {
		t.Fatal(text)
	}
	random := seed.Rand(t)
	for range rounds {
		target := filepath.Join(t.TempDir(), "model.safetensors")
		for kills := 0; kills < 3; kills++ {
			killAfter(t, r, 1+random.IntN(len(want)/4), "pull", name, "-o", target)
			if _, err := os.Lstat(target); err == nil {
				t.Fatal("a killed pull left a file")
			}
		}
		r.Requests()
		if o := command(t, "pull", name, "-o", target); o.code != 0 {
			t.Fatal(o.out)
		}
		got, err := os.ReadFile(target)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes that are not the %d pushed ones, %v", len(got), len(want), err)
		}
		if left, _ := os.ReadDir(filepath.Dir(target)); len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// killAfter starts a command, and kills it when a registry has sent that many bytes of blobs, or when it has ended.
func killAfter(t *testing.T, r *ociregistry.Registry, bytes int, args ...string) {
	t.Helper()
	sent, enough, gone := 0, make(chan struct{}), make(chan struct{})
	r.SetFront(func(w http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.URL.Path, "/blobs/") {
			// what is left of the budget, and then nothing until the client is gone
			r.Trickle(w, req, func() bool {
				if sent++; sent*ociregistry.Drop < bytes {
					return true
				}
				close(enough)
				<-gone
				return false
			})
			return true
		}
		return false
	})
	cmd := exec.CommandContext(untilDeadline(t), probe, args...)
	cmd.Env = append(os.Environ(), usualGC)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	select {
	case <-enough:
	case <-ended:
		t.Error("the command ended before it was killed")
	}
	cmd.Process.Kill()
	<-ended
	close(gone)
	r.SetFront(nil)
}
