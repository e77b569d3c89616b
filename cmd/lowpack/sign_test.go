package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// keyPair writes a private key, the same in each run, and its public key, in PEM.
func keyPair(t testing.TB, id byte) (private, public string) {
	t.Helper()
	scalar := bytes.Repeat([]byte{id}, 32)
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte, err error) string {
		path := filepath.Join(dir, name)
		if err == nil {
			err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	private = write("key.pem", "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(key.Public())
	return private, write("public.pem", "PUBLIC KEY", der, err)
}

// signedModel is a packed file in a directory of its own, with its signature next to it.
func signedModel(t testing.TB, private string) string {
	t.Helper()
	data, err := os.ReadFile(tinymodel.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := inPlace("sign", path, "--key", private); code != 0 ||
		!strings.Contains(said, "signed "+path+" by key ") || !strings.HasSuffix(said, ": "+path+".sig\n") {
		t.Fatal(code, said)
	}
	return path
}

// flip changes a bit of the last byte of a file.
func flip(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSigned: verify accepts the signature of the trusted key and refuses the file, the signature and the key if one of
// them is another one; a file whose signature is not accepted is not looked at any further.
func TestSigned(t *testing.T) {
	private, public := keyPair(t, 1)
	_, other := keyPair(t, 2)
	path := signedModel(t, private)
	verify := func(args ...string) (int, string) {
		return inPlace(append([]string{"verify", path, "--level", "digest"}, args...)...)
	}
	if code, said := verify("--key", public, "--require-signature", "--verbose"); code != 0 ||
		!strings.Contains(said, "digest  signature") || !strings.Contains(said, "note: signed by key ") {
		t.Error(code, said)
	}
	refused := func(what, says string, args ...string) {
		t.Helper()
		code, said := verify(args...)
		if code != 1 || !strings.Contains(said, says) ||
			!strings.Contains(said, "FAIL  "+path+": 0 passed, 1 failed\n") {
			t.Errorf("%s: exit code %d\n%s", what, code, said)
		}
	}
	refused("another key", "signed with another key", "--key", other)
	report := filepath.Join(t.TempDir(), "report.xml")
	refused("no signature", "is not signed", "--key", public, "--signature", path+".none", "--report", "junit:"+report)
	if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), "is not signed") {
		t.Errorf("%s, %v", text, err)
	}
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(path+".sig", moved); err != nil {
		t.Fatal(err)
	}
	if code, said := verify("--key", public, "--signature", moved); code != 0 {
		t.Error(code, said)
	}
	refused("the signature is not there", "is not signed", "--key", public)
	flip(t, path)
	refused("another byte", "the signature is for", "--key", public, "--signature", moved)
	flip(t, path)
	flip(t, moved)
	refused("another signature", "corrupt", "--key", public, "--signature", moved)
	if code, said := verify("--signature", moved); code != 2 || !strings.Contains(said, "--signature needs --key") {
		t.Error(code, said)
	}
	if code, said := verify("--require-signature"); code != 2 ||
		!strings.Contains(said, "needs --key or --certificate") {
		t.Error(code, said)
	}
	if code, said := verify("--key", public, "--certificate", other); code != 2 {
		t.Error(code, said)
	}
	if code, said := inPlace("verify", path, "--level", "file", "--key", public); code != 2 ||
		!strings.Contains(said, "--key cannot be combined with --level file") {
		t.Error(code, said)
	}
	dump := filepath.Join(t.TempDir(), "golden.arrow")
	if code, said := inPlace("verify", path, "--key", other, "--dump-golden", dump); code != 1 {
		t.Error(code, said)
	}
	if _, err := os.Stat(dump); err == nil {
		t.Error("golden outputs of a file whose signature is refused were written")
	}
	if code, said := inPlace("sign", path); code != 2 || !strings.Contains(said, "needs --key") {
		t.Error(code, said)
	}
}

// TestSignedStatement: a provenance statement is signed with the file, if it is true of it, and verified with it.
func TestSignedStatement(t *testing.T) {
	private, public := keyPair(t, 1)
	model, _ := small(t)
	dir := t.TempDir()
	path, statement := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "provenance.json")
	if code, said := inPlace("convert", model, "-o", path, "--golden", "none", "--provenance", statement); code != 0 {
		t.Fatal(said)
	}
	sign := func(statement string) (int, string) {
		return inPlace("sign", path, "--key", private, "--provenance", statement)
	}
	if code, said := sign(statement); code != 0 {
		t.Fatal(said)
	}
	verify := []string{"verify", path, "--level", "digest", "--key", public}
	if code, said := inPlace(verify...); code != 0 || !strings.Contains(said, "provenance") {
		t.Error(code, said)
	}
	if code, said := inPlace(append(verify, "--provenance", statement)...); code != 2 ||
		!strings.Contains(said, "cannot be combined with a signature that holds a statement") {
		t.Error(code, said)
	}
	text, err := os.ReadFile(statement)
	if err != nil {
		t.Fatal(err)
	}
	lie := filepath.Join(dir, "lie.json")
	text = bytes.Replace(text, []byte("config.json"), []byte("config.JSON"), 1)
	if err := os.WriteFile(lie, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := sign(lie); code != 1 || !strings.Contains(said, lie+": ") {
		t.Error(code, said)
	}
	if code, said := inPlace("sign", model, "--key", private, "--provenance", statement); code != 1 {
		t.Error(code, said)
	}
}

// TestSignedExport: the signature of an exported file, and of a directory, is checked before what it holds. A signature
// that lies in the directory is not part of it.
func TestSignedExport(t *testing.T) {
	private, public := keyPair(t, 1)
	packed := tinymodel.Path(t)
	for format, flags := range map[string][]string{"gguf": {"--dialect", "ik"}, "onnx": nil} {
		path := filepath.Join(t.TempDir(), "model."+format)
		export := append([]string{"export", packed, "--to", format, "-o", path}, flags...)
		if code, said := inPlace(export...); code != 0 {
			t.Fatal(said)
		}
		if code, said := inPlace("sign", path, "--key", private); code != 0 {
			t.Fatal(said)
		}
		verify := func(args ...string) (int, string) {
			return inPlace(append([]string{"verify", path, "--source", packed, "--key", public}, args...)...)
		}
		if code, said := verify(); code != 0 || !strings.Contains(said, "PASS") {
			t.Error(code, said)
		}
		if format == "onnx" {
			inside := filepath.Join(path, "model.sig")
			if err := os.Rename(path+".sig", inside); err != nil {
				t.Fatal(err)
			}
			if code, said := verify("--signature", inside); code != 0 {
				t.Error(code, said)
			}
			if err := os.WriteFile(filepath.Join(path, "more"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if code, said := verify("--signature", inside); code != 1 ||
				!strings.Contains(said, "more is not in the signature") {
				t.Error(code, said)
			}
			continue
		}
		flip(t, path)
		if code, said := verify(); code != 1 || !strings.Contains(said, "the signature is for") {
			t.Error(code, said)
		}
	}
}

// TestServeSigned: with --require-signature a server opens a signed packed file and nothing else.
func TestServeSigned(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	private, public := keyPair(t, 1)
	_, other := keyPair(t, 2)
	path := signedModel(t, private)
	checkpoint, _ := small(t)
	serveFile(t, "", path, "--require-signature", "--key", public)

	flags := []string{"--require-signature", "--key", public, "--port", "0"}
	unsigned, folder := tinymodel.Path(t), t.TempDir()
	for _, file := range []string{path, signatureOf(path), unsigned} {
		replace(t, filepath.Join(folder, filepath.Base(file)), file)
	}
	s := serveFile(t, "", folder, "--require-signature", "--key", public)
	if name := strings.TrimSuffix(filepath.Base(path), packedExt); !slices.Equal(servedNames(t, s), []string{name}) {
		t.Errorf("%q", servedNames(t, s))
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{unsigned}, unsigned + " is not signed"},
		{[]string{path, "--key", other}, "signed with another key"},
		{[]string{path, unsigned}, unsigned + " is not signed"},
		{[]string{checkpoint}, checkpoint},
		{[]string{"acme/tiny"}, "no model has this name"},
	} {
		if code, said := inPlace(append(append([]string{"serve"}, flags...), c.args...)...); code != 1 ||
			!strings.Contains(said, c.says) || strings.Contains(said, "packed,") {
			t.Errorf("%q: exit code %d\n%s", c.args, code, said)
		}
	}
	flip(t, path)
	if code, said := inPlace("serve", path, "--key", public, "--port", "0"); code != 1 ||
		!strings.Contains(said, "the signature is for") {
		t.Error(code, said)
	}
	if code, said := inPlace("serve", path, "--require-signature"); code != 2 {
		t.Error(code, said)
	}
}
