package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goreleaser/nfpm/v2"
)

func TestVersions(t *testing.T) {
	const commit = "8a462b117b5441487cf82b2bd90cfe1d5581f27b"
	for _, c := range []struct{ version, revision, want, python string }{
		{"0.2.0", commit, "0.2.0", "0.2.0"},
		{"0.2.0", commit + "+dirty", "0.2.0", "0.2.0"},
		{"0.2.1-dev", "", "0.2.1-dev", "0.2.1.dev0"},
		{"0.2.1-dev", "ci", "0.2.1-dev+ci", "0.2.1.dev0+ci"},
		{"0.2.1-dev", commit, "0.2.1-dev+8a462b117b54", "0.2.1.dev0+8a462b117b54"},
		{"0.2.1-dev", commit + "+dirty", "0.2.1-dev+8a462b117b54.dirty", "0.2.1.dev0+8a462b117b54.dirty"},
	} {
		got := packageVersion(c.version, c.revision)
		if python := pythonVersion(got); got != c.want || python != c.python {
			t.Errorf("%s of %q: %s and %s; %s and %s expected", c.version, c.revision, got, python, c.want, c.python)
		}
	}
}

// TestNeeds: a package of the twin needs that of the program with the same version, also between two releases.
func TestNeeds(t *testing.T) {
	for version, want := range map[string]string{
		"0.2.0":                  "lowpack (= 0.2.0-1)",
		"0.3.0-dev+8a462b117b54": "lowpack (= 0.3.0~dev+8a462b117b54-1)",
	} {
		info := nfpm.WithDefaults(&nfpm.Info{Version: version, Release: "1"})
		if got := needs(twin.builds("linux")[0], info, "deb"); len(got) == 0 || got[0] != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}

// TestOrder: neither the order of the files nor anything but their names, modes and bytes is in an archive.
func TestOrder(t *testing.T) {
	files := []file{{"b/", 0o755, nil}, {"a", 0o644, []byte("a")}, {"b/c", 0o755, []byte("c")}}
	other := slices.Clone(files)
	slices.Reverse(other)
	date := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	packers := map[string]func([]file) ([]byte, error){
		"tar": func(f []file) ([]byte, error) { return tarOf(f, date, 0) },
		"zip": func(f []file) ([]byte, error) { return zipOf(f, date) },
	}
	for name, pack := range packers {
		a, err := pack(files)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := pack(other); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: files in another order give other bytes (%v)", name, err)
		}
	}
}

// TestRecord: digests as PEP 376 writes them, and none of the list itself.
func TestRecord(t *testing.T) {
	got := string(record([]file{{"b", 0o644, nil}, {"a", 0o644, []byte("abc")}}, "RECORD").data)
	want := "a,sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3\n" +
		"b,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nRECORD,,\n"
	if got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
}

// TestRoots: the image trusts who signs the hub's certificates, and holds nothing but certificates.
func TestRoots(t *testing.T) {
	if n := strings.Count(string(roots()), "BEGIN CERTIFICATE"); n < 50 {
		t.Errorf("%d roots", n)
	}
}
