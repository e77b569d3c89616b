package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/provenance"
)

// TestProvenance: a statement is checked at level digest, and says what differs from the file.
func TestProvenance(t *testing.T) {
	path := file(t, small(t))
	text := statement(t, path)
	if r := run(t, path, Options{Level: Digest, Provenance: text}); !r.OK ||
		r.Checks[len(r.Checks)-1].Group != "provenance statement" {
		t.Errorf("its own statement: %+v", r)
	}
	if r := run(t, path, Options{Level: Digest}); r.Checks[len(r.Checks)-1].Group == "provenance statement" {
		t.Error("a statement is checked that nobody gave")
	}
	for word, bad := range map[string][]byte{
		"statement: subject[0].digest.sha256": bytes.Replace(text,
			[]byte(`"subject":[{"name":"small.safetensors","digest":{"sha256":"`),
			[]byte(`"subject":[{"name":"x","digest":{"sha256":"0`), 1),
		"a value is expected": {},
		"builder.version.lowpack": bytes.Replace(text, []byte(`"version":{"lowpack":"`),
			[]byte(`"version":{"lowpack":"9`), 1),
	} {
		r := run(t, path, Options{Level: Digest, Provenance: bad})
		last := r.Checks[len(r.Checks)-1]
		if r.OK || last.Verdict != Fail || !strings.Contains(last.Reason, word) {
			t.Errorf("%s: %+v", word, last)
		}
	}
	if _, err := Run(t.Context(), path, Options{Level: File, Provenance: text}); err == nil {
		t.Error("a statement that nobody would look at is accepted")
	}
}

func statement(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	digest := sha256.Sum256(data)
	text, err := provenance.Statement("small.safetensors", hex.EncodeToString(digest[:]), f.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	return text
}
