package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// orasVersion is the ORAS command line that TestInteropRegistry compiles.
const orasVersion = "v1.3.6"

// foreign runs a program of others and returns its standard output.
func foreign(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", program, args, err, out.String(), errs.String())
	}
	return out.String()
}

// dockerRegistry starts the registry of Debian's package docker-registry, until the test ends, and returns its host.
func dockerRegistry(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	listener.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\n"+
		"http: {addr: %q}\n", filepath.Join(dir, "data"), host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command("docker-registry", "serve", config)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("docker-registry of Debian is not installed: %v", err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	wait.For(t, "the registry to listen", func() bool {
		if closed(ended) {
			t.Fatalf("the registry ended: %s", &log)
		}
		conn, err := net.Dial("tcp", host)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return host
}

// TestInteropRegistry: the registry of the CNCF takes what lowpack pushes and gives it back; skopeo and ORAS read its
// manifest and copy it, and lowpack pulls the copies, byte for byte; what ORAS writes to disk, one layer after another,
// is the packed file, beside its tokenizer and configuration.
func TestInteropRegistry(t *testing.T) {
	if os.Getenv("LOWPACK_INTEROP") == "" {
		t.Skip("asks another program: make interop")
	}
	bin := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install", "oras.land/oras/cmd/oras@"+orasVersion)
	install.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	oras := filepath.Join(bin, "oras")
	emptyHome(t)
	private, public := keyPair(t, 1)
	path := signedModel(t, private)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	host := dockerRegistry(t)
	comesBack := func(repository string) {
		t.Helper()
		target := filepath.Join(t.TempDir(), "model.safetensors")
		if code, _, text := mainOf("pull", "oci://"+host+"/"+repository, "-o", target); code != 0 {
			t.Fatal(text)
		}
		if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes are not the %d pushed ones, %v", repository, len(got), len(want), err)
		}
		if code, out, text := mainOf("verify", target, "--level", "digest", "--key", public); code != 0 {
			t.Error(out, text)
		}
	}
	code, digest, text := mainOf("push", path, "oci://"+host+"/models/tiny:1.0")
	if code != 0 {
		t.Fatal(text)
	}
	comesBack("models/tiny:1.0")
	digest = strings.TrimSpace(strings.TrimPrefix(digest, "oci://"+host+"/models/tiny@"))
	comesBack("models/tiny@" + digest)

	source := "docker://" + host + "/models/tiny:1.0"
	raw := foreign(t, "skopeo", "inspect", "--tls-verify=false", "--raw", source)
	var manifest struct {
		Layers []struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal([]byte(raw), &manifest); err != nil || len(manifest.Layers) < 5 {
		t.Fatal(err, raw)
	}
	layout := "oci:" + filepath.Join(t.TempDir(), "layout") + ":v1"
	foreign(t, "skopeo", "copy", "--src-tls-verify=false", source, layout)
	foreign(t, "skopeo", "copy", "--dest-tls-verify=false", layout, "docker://"+host+"/copies/skopeo:1.0")
	comesBack("copies/skopeo:1.0")
	comesBack("copies/skopeo@" + digest)

	foreign(t, oras, "copy", "--from-plain-http", "--to-plain-http", host+"/models/tiny:1.0", host+"/copies/oras:1.0")
	comesBack("copies/oras:1.0")
	if said := foreign(t, oras, "manifest", "fetch", "--plain-http", host+"/models/tiny:1.0"); said != raw {
		t.Errorf("ORAS reads %s, skopeo %s", said, raw)
	}
	dir := t.TempDir()
	foreign(t, oras, "pull", "--plain-http", "-o", dir, host+"/models/tiny:1.0")
	var whole []byte
	for _, l := range manifest.Layers {
		title := l.Annotations["org.opencontainers.image.title"]
		data, err := os.ReadFile(filepath.Join(dir, title))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(title, ".sig") {
			whole = append(whole, data...)
		}
	}
	if !bytes.Equal(whole, want) {
		t.Errorf("the layers that ORAS wrote have %d bytes, which are not the %d pushed ones", len(whole), len(want))
	}
	f, _ := tinymodel.Open(t, path)
	embedded, _ := f.Embedded("tokenizer.json")
	if data, err := os.ReadFile(filepath.Join(dir, "tokenizer.json")); err != nil || !bytes.Equal(data, embedded) {
		t.Errorf("tokenizer.json: %v", err)
	}
}
