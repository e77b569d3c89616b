package signing

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/pack"
)

// fixedKey is a private key of a curve that is the same in every run.
func fixedKey(t testing.TB, curve elliptic.Curve, id byte) *ecdsa.PrivateKey {
	t.Helper()
	scalar := make([]byte, (curve.Params().BitSize+7)/8)
	scalar[len(scalar)-1], scalar[len(scalar)/2] = id, 77
	key, err := ecdsa.ParseRawPrivateKey(curve, scalar)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func privatePEM(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func publicPEM(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// signerAnd returns a signer with a key alone, and the trust in it.
func signerAnd(t testing.TB, key *ecdsa.PrivateKey) (*Signer, *Trust) {
	t.Helper()
	s, err := NewSigner(privatePEM(t, key))
	if err != nil {
		t.Fatal(err)
	}
	trust, err := TrustKey(publicPEM(t, key.Public()))
	if err != nil {
		t.Fatal(err)
	}
	return s, trust
}

// models makes a model that is a file, and one that is a directory.
func models(t testing.TB) (file, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "model")
	for name, text := range map[string]string{"a.b": "1", "a/c": "22", "a/b/c": "333", "z": "",
		"model.bin": "weights"} {
		put(t, filepath.Join(dir, name), text)
	}
	file = filepath.Join(t.TempDir(), "model.safetensors")
	put(t, file, "some bytes")
	return file, dir
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func list(t testing.TB, path string) *Manifest {
	t.Helper()
	m, err := List(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sign(t testing.TB, s *Signer, m *Manifest) []byte {
	t.Helper()
	text, err := s.Sign(m)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSign: what is signed with a key of any curve, alone or certified, opens and is found unchanged, and the same
// bytes are signed in the same way again.
func TestSign(t *testing.T) {
	file, dir := models(t)
	for i, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		key := fixedKey(t, curve, byte(i+1))
		byKey, trust := signerAnd(t, key)
		byChain, _ := signerAnd(t, key)
		ca := newAuthority(t, curve)
		if err := byChain.Certify(ca.chain(t, key.Public(), nil)); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			signer *Signer
			trust  *Trust
			who    string
		}{{byKey, trust, "key "}, {byChain, ca.trust(t), "CN=signer (certificate "}} {
			for _, path := range []string{file, dir} {
				m := list(t, path)
				m.Provenance = []byte(`{"a":[1]}`)
				text := sign(t, c.signer, m)
				if again := sign(t, c.signer, m); !bytes.Equal(text, again) {
					t.Errorf("%s: two signatures of the same bytes differ", curve.Params().Name)
				}
				got, err := c.trust.Open(text)
				if err != nil {
					t.Fatalf("%s: %v", curve.Params().Name, err)
				}
				if got.Name != filepath.Base(path) || string(got.Provenance) != `{"a":[1]}` ||
					!strings.HasPrefix(got.Who, c.who) || got.Who != c.signer.Who() {
					t.Errorf("%+v", got)
				}
				if err := got.Check(t.Context(), path, nil); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestOrder: files are listed by the parts of their names, as model-signing sorts them.
func TestOrder(t *testing.T) {
	_, dir := models(t)
	var names []string
	for _, f := range list(t, dir).Files {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "a/b/c a/c a.b model.bin z" {
		t.Error(got)
	}
}

// TestEveryByte: a bundle with any other byte is refused.
func TestEveryByte(t *testing.T) {
	file, _ := models(t)
	key := fixedKey(t, elliptic.P256(), 1)
	byKey, trust := signerAnd(t, key)
	byChain, _ := signerAnd(t, key)
	ca := newAuthority(t, elliptic.P256())
	if err := byChain.Certify(ca.chain(t, key.Public(), nil)); err != nil {
		t.Fatal(err)
	}
	flips := []byte{1}
	if long.All {
		flips = []byte{1, 2, 4, 8, 16, 32, 64, 128}
	}
	for _, c := range []struct {
		signer *Signer
		trust  *Trust
	}{{byKey, trust}, {byChain, ca.trust(t)}} {
		text := sign(t, c.signer, list(t, file))
		for i := range text {
			for _, flip := range flips {
				text[i] ^= flip
				if got, err := c.trust.Open(text); err == nil {
					t.Errorf("byte %d of %d, %s: accepted as %+v", i, len(text), text[max(0, i-20):i+1], got)
				}
				text[i] ^= flip
			}
		}
		for n := range text {
			if _, err := c.trust.Open(text[:n]); err == nil {
				t.Errorf("the first %d of %d bytes are accepted", n, len(text))
			}
		}
		if _, err := c.trust.Open(text); err != nil {
			t.Error(err)
		}
	}
}

// edit changes a JSON text by replacing the value, or setting it, at a path of keys.
func edit(t testing.TB, text []byte, value any, path ...string) []byte {
	t.Helper()
	var top map[string]any
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	at := top
	for _, key := range path[:len(path)-1] {
		next := at[key]
		if items, ok := next.([]any); ok {
			next = items[0]
		}
		at = next.(map[string]any)
	}
	if at[path[len(path)-1]] = value; value == nil {
		delete(at, path[len(path)-1])
	}
	out, err := json.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// resigned is the bundle of a signer for any payload.
func resigned(t testing.TB, s *Signer, payload []byte) []byte {
	t.Helper()
	kind, digest := digestFor(&s.key.PublicKey, payload)
	signature, err := s.key.Sign(nil, digest, kind)
	if err != nil {
		t.Fatal(err)
	}
	b := bundle{hint: s.hint, payload: payload, signature: signature}
	text, err := b.marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestStatements: a statement that says something else than version 1.0 of the format is refused although its signature
// is valid, with the class of the fault and the place.
func TestStatements(t *testing.T) {
	_, dir := models(t)
	s, trust := signerAnd(t, fixedKey(t, elliptic.P256(), 1))
	m := list(t, dir)
	good, err := m.statement()
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.Repeat("ab", 32)
	file := func(name, algorithm, digest string) map[string]any {
		return map[string]any{"name": name, "algorithm": algorithm, "digest": digest}
	}
	of := func(files ...any) []byte { return edit(t, good, files, "predicate", "resources") }
	serialized := func(key string, value any) []byte { return edit(t, good, value, "predicate", "serialization", key) }
	for _, c := range []struct {
		name    string
		payload []byte
		class   error
		says    string
	}{
		{"another predicate type", edit(t, good, "https://slsa.dev/provenance/v1", "predicateType"),
			pack.ErrUnsupported, "predicateType"},
		{"version 0.2", edit(t, good, "https://model_signing/Digests/v0.1", "predicateType"), pack.ErrUnsupported,
			"Digests/v0.1"},
		{"another statement type", edit(t, good, "https://in-toto.io/Statement/v0.1", "_type"),
			pack.ErrUnsupported, "_type"},
		{"no subject", edit(t, good, []any{}, "subject"), pack.ErrCorrupt, "subject"},
		{"two subjects", edit(t, good, []any{map[string]any{}, map[string]any{}}, "subject"), pack.ErrLimit, "subject"},
		{"another root digest", edit(t, good, digest, "subject", "digest", "sha256"), pack.ErrCorrupt,
			"the digest is not that of the list"},
		{"no root digest", edit(t, good, nil, "subject", "digest", "sha256"), pack.ErrCorrupt,
			"subject[0].digest.sha256"},
		{"no files", of(), pack.ErrCorrupt, "resources"},
		{"a file more", of(file("x", "sha256", digest)), pack.ErrCorrupt, "the digest is not that of the list"},
		{"a file twice", of(file("x", "sha256", digest), file("x", "sha256", digest)), pack.ErrCorrupt, "twice"},
		{"BLAKE2", of(file("x", "blake2", digest+digest)), pack.ErrUnsupported, `"blake2"`},
		{"a short digest", of(file("x", "sha256", digest[2:])), pack.ErrCorrupt, "SHA-256"},
		{"a long digest", of(file("x", "sha256", digest+"00")), pack.ErrCorrupt, "SHA-256"},
		{"a field of a file", of(map[string]any{"name": "x", "algorithm": "sha256", "digest": digest, "size": 1}),
			pack.ErrUnsupported, `"size"`},
		{"a name above", of(file("../x", "sha256", digest)), pack.ErrUnsupported, `"../x"`},
		{"an absolute name", of(file("/x", "sha256", digest)), pack.ErrUnsupported, `"/x"`},
		{"a backslash", of(file(`a\b`, "sha256", digest)), pack.ErrUnsupported, "invalid name"},
		{"a file and a directory", of(file(".", "sha256", digest), file("x", "sha256", digest)), pack.ErrCorrupt,
			"one file and a directory"},
		{"shards", serialized("method", "shards"), pack.ErrUnsupported, `"shards"`},
		{"another hash", serialized("hash_type", "blake3"), pack.ErrUnsupported, `"blake3"`},
		{"links are a text", serialized("allow_symlinks", "false"), pack.ErrCorrupt, "allow_symlinks"},
		{"a new parameter", serialized("shard_size", 9), pack.ErrUnsupported, `"shard_size"`},
		{"all is ignored", serialized("ignore_paths", []string{"."}), pack.ErrUnsupported, "invalid name"},
		{"a path above is ignored", serialized("ignore_paths", []string{"../x"}), pack.ErrUnsupported, "invalid name"},
		{"too many are ignored", serialized("ignore_paths", make([]string, maxIgnored+1)), pack.ErrLimit,
			"ignore_paths"},
		{"not an object", []byte(`[]`), pack.ErrCorrupt, "statement"},
		{"a key twice", []byte(`{"a":1,"a":1}`), pack.ErrCorrupt, "twice"},
	} {
		_, err := trust.Open(resigned(t, s, c.payload))
		if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v and %s", c.name, err, c.class, c.says)
		}
	}
	many := make([]any, maxFiles+1)
	if _, err := trust.Open(resigned(t, s, of(many...))); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("%d files: %v", len(many), err)
	}
	for name, payload := range map[string][]byte{
		"as it is":           good,
		"more in predicate":  edit(t, good, 1, "predicate", "comment"),
		"upper-case digests": edit(t, good, fmt.Sprintf("%X", m.root()), "subject", "digest", "sha256"),
		"links are followed": serialized("allow_symlinks", true),
		"ignored paths":      serialized("ignore_paths", []string{".git", "a/b"}),
	} {
		if _, err := trust.Open(resigned(t, s, payload)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBundles: a bundle of another form is refused by name.
func TestBundles(t *testing.T) {
	file, _ := models(t)
	s, trust := signerAnd(t, fixedKey(t, elliptic.P256(), 1))
	good := sign(t, s, list(t, file))
	b, err := parseBundle(good)
	if err != nil {
		t.Fatal(err)
	}
	sig := base64.StdEncoding.EncodeToString(b.signature)
	certificate := map[string]any{"rawBytes": "AAAA"}
	many := make([]any, maxChain+1)
	for i := range many {
		many[i] = certificate
	}
	set := func(value any, path ...string) []byte { return edit(t, good, value, path...) }
	material := func(value any) []byte { return set(value, "verificationMaterial") }
	for _, c := range []struct {
		name  string
		text  []byte
		class error
		says  string
	}{
		{"another media type", set("application/vnd.dev.sigstore.bundle.v0.2+json", "mediaType"),
			pack.ErrUnsupported, "v0.2"},
		{"a signature of a digest", set(map[string]any{}, "messageSignature"), pack.ErrUnsupported, "messageSignature"},
		{"another payload type", set("text/plain", "dsseEnvelope", "payloadType"), pack.ErrUnsupported, "text/plain"},
		{"no signature", set([]any{}, "dsseEnvelope", "signatures"), pack.ErrCorrupt, "signatures"},
		{"two signatures", set([]any{map[string]any{"sig": sig}, map[string]any{"sig": sig}}, "dsseEnvelope",
			"signatures"), pack.ErrLimit, "signatures"},
		{"a line break in base64", set(sig[:4]+"\n"+sig[4:], "dsseEnvelope", "signatures", "sig"),
			pack.ErrCorrupt, "base64"},
		{"a key in a field of its own", set("x", "dsseEnvelope", "signatures", "cert"), pack.ErrUnsupported, `"cert"`},
		{"keyless", material(map[string]any{"certificate": certificate}), pack.ErrUnsupported, "keyless"},
		{"an entry of a log", set([]any{map[string]any{}}, "verificationMaterial", "tlogEntries"), pack.ErrUnsupported,
			"transparency log"},
		{"a time stamp", set(map[string]any{}, "verificationMaterial", "timestampVerificationData"),
			pack.ErrUnsupported, "timestampVerificationData"},
		{"nobody", material(map[string]any{}), pack.ErrCorrupt, "either"},
		{"a key and certificates", set(map[string]any{"certificates": []any{certificate}}, "verificationMaterial",
			"x509CertificateChain"), pack.ErrCorrupt, "either"},
		{"certificates, not the key", material(map[string]any{"x509CertificateChain": map[string]any{
			"certificates": []any{certificate}}}), pack.ErrUnsupported, "--certificate"},
		{"no certificates", material(map[string]any{"x509CertificateChain": map[string]any{"certificates": []any{}}}),
			pack.ErrCorrupt, "certificates"},
		{"many certificates", material(map[string]any{"x509CertificateChain": map[string]any{"certificates": many}}),
			pack.ErrLimit, "certificates"},
		{"the hint of another key", set(strings.Repeat("0", 64), "verificationMaterial", "publicKey", "hint"),
			pack.ErrCorrupt, "another key"},
		{"not JSON", []byte("model"), pack.ErrCorrupt, "signature"},
		{"too long", make([]byte, MaxSize+1), pack.ErrLimit, "signature"},
	} {
		_, err := trust.Open(c.text)
		if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v and %s", c.name, err, c.class, c.says)
		}
	}
	for name, text := range map[string][]byte{
		"as it is": good,
		"before 1.1.0": material(map[string]any{"publicKey": map[string]any{"rawBytes": "AAAA",
			"keyDetails": "PKIX_ECDSA_P256_SHA_256"}}),
		"no key id": set(nil, "dsseEnvelope", "signatures", "keyid"),
	} {
		if _, err := trust.Open(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzOpen: no bundle ends in a panic, or in an error without a class, and none but the seed is accepted.
func FuzzOpen(f *testing.F) {
	file, dir := models(f)
	s, trust := signerAnd(f, fixedKey(f, elliptic.P256(), 1))
	signed := map[string]bool{}
	for _, path := range []string{file, dir} {
		text := sign(f, s, list(f, path))
		b, err := parseBundle(text)
		if err != nil {
			f.Fatal(err)
		}
		signed[string(b.payload)] = true
		f.Add(text)
		f.Add(b.payload)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		classed := func(err error) {
			if err != nil && !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) &&
				!errors.Is(err, pack.ErrLimit) {
				t.Errorf("an error of no class: %v", err)
			}
		}
		_, err := parseStatement(text)
		classed(err)
		_, err = trust.Open(text)
		classed(err)
		if err == nil {
			if b, _ := parseBundle(text); !signed[string(b.payload)] {
				t.Errorf("a forged statement: %s", b.payload)
			}
		}
	})
}
