package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/pack"
)

// Times of the certificates of tests. Nothing depends on the time of the day.
var (
	began = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	ended = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// authority is a root and an authority below it, which certifies signers.
type authority struct {
	rootKey, key *ecdsa.PrivateKey
	root, middle *x509.Certificate
}

func newAuthority(t testing.TB, curve elliptic.Curve) *authority {
	t.Helper()
	a := &authority{rootKey: fixedKey(t, curve, 101), key: fixedKey(t, curve, 102)}
	template := x509.Certificate{Subject: pkix.Name{CommonName: "root"}, SerialNumber: big.NewInt(1), NotBefore: began,
		NotAfter: ended, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.root = issue(t, &template, nil, a.rootKey.Public(), a.rootKey)
	template.Subject.CommonName, template.SerialNumber = "middle", big.NewInt(2)
	a.middle = issue(t, &template, a.root, a.key.Public(), a.rootKey)
	return a
}

// issue makes a certificate; parent nil: of the key by itself.
func issue(t testing.TB, template, parent *x509.Certificate, key crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	t.Helper()
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, by)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// leaf is the certificate of a signer; change, if not nil, changes it before.
func (a *authority) leaf(t testing.TB, key crypto.PublicKey, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := x509.Certificate{Subject: pkix.Name{CommonName: "signer"}, SerialNumber: big.NewInt(3),
		NotBefore: began, NotAfter: ended, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}
	if change != nil {
		change(&template)
	}
	return issue(t, &template, a.middle, key, a.key)
}

func (a *authority) chain(t testing.TB, key crypto.PublicKey, change func(*x509.Certificate)) []byte {
	t.Helper()
	return inPEM(a.leaf(t, key, change), a.middle)
}

func (a *authority) trust(t testing.TB) *Trust { return trustIn(t, a.root) }

func trustIn(t testing.TB, list ...*x509.Certificate) *Trust {
	t.Helper()
	trust, err := TrustCertificates(inPEM(list...))
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

func inPEM(list ...*x509.Certificate) (text []byte) {
	for _, c := range list {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}

// TestChains: the key of a certificate is trusted if a trusted certificate vouches for it, for signing code, at the
// beginning of its validity.
func TestChains(t *testing.T) {
	file, _ := models(t)
	key := fixedKey(t, elliptic.P256(), 1)
	s, byKey := signerAnd(t, key)
	a, b := newAuthority(t, elliptic.P256()), newAuthority(t, elliptic.P384())
	usual := a.leaf(t, key.Public(), nil)
	with := func(change func(c *x509.Certificate)) []*x509.Certificate {
		return []*x509.Certificate{a.leaf(t, key.Public(), change), a.middle}
	}
	other := fixedKey(t, elliptic.P256(), 2)
	notCA := a.leaf(t, other.Public(), nil)
	below := issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "below"}, SerialNumber: big.NewInt(4),
		NotBefore: began, NotAfter: ended, KeyUsage: x509.KeyUsageDigitalSignature}, notCA, key.Public(), other)
	forServers := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	huge := a.leaf(t, &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), maxRSA), E: 65537}, nil)
	for _, c := range []struct {
		name  string
		chain []*x509.Certificate
		trust *Trust
		says  string // "" = accepted
	}{
		{"as it should be", []*x509.Certificate{usual, a.middle}, a.trust(t), ""},
		{"with the root", []*x509.Certificate{usual, a.middle, a.root}, a.trust(t), ""},
		{"trust in the authority", []*x509.Certificate{usual}, trustIn(t, a.middle), ""},
		{"trust in the certificate", []*x509.Certificate{usual}, trustIn(t, usual), ""},
		{"one of several roots", []*x509.Certificate{usual, a.middle}, trustIn(t, b.root, a.root), ""},
		{"no word on use of the key", with(func(c *x509.Certificate) { c.KeyUsage = 0 }), a.trust(t), ""},
		{"no word on its purpose", with(func(c *x509.Certificate) { c.ExtKeyUsage = nil }), a.trust(t), ""},
		{"no word at all", with(func(c *x509.Certificate) { c.KeyUsage, c.ExtKeyUsage = 0, nil }), a.trust(t),
			"not for signing code"},
		{"for another use", with(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement }), a.trust(t),
			"not for signing code"},
		{"for servers", with(forServers), a.trust(t), "not for signing code"},
		{"another root", []*x509.Certificate{usual, a.middle}, b.trust(t), "not trusted"},
		{"a part is missing", []*x509.Certificate{usual}, a.trust(t), "not trusted"},
		{"not an authority", []*x509.Certificate{below, notCA, a.middle}, a.trust(t), "not trusted"},
		{"before the authority", with(func(c *x509.Certificate) { c.NotBefore = began.Add(-time.Hour) }), a.trust(t),
			"not trusted"},
		{"a huge key", []*x509.Certificate{usual, a.middle, huge}, a.trust(t), "RSA key of 8193 bits"},
		{"trust in the key alone", []*x509.Certificate{usual, a.middle}, byKey, "--certificate"},
		{"of another key", []*x509.Certificate{notCA, a.middle}, a.trust(t), "not one of CN=signer"},
	} {
		s.chain = c.chain
		_, err := c.trust.Open(sign(t, s, list(t, file)))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v; want %q", c.name, err, c.says)
		}
	}
	s.chain = nil
	if _, err := a.trust(t).Open(sign(t, s, list(t, file))); !errors.Is(err, pack.ErrUnsupported) ||
		!strings.Contains(err.Error(), "--key") {
		t.Errorf("signed without a certificate: %v", err)
	}
}

// TestForged: a signature by another key is refused whatever the bundle says about who signed.
func TestForged(t *testing.T) {
	file, _ := models(t)
	s, trust := signerAnd(t, fixedKey(t, elliptic.P256(), 1))
	for i, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384()} {
		forger, _ := signerAnd(t, fixedKey(t, curve, byte(7+i)))
		for _, hint := range []string{forger.hint, s.hint, ""} {
			forger.hint = hint
			if _, err := trust.Open(sign(t, forger, list(t, file))); !errors.Is(err, pack.ErrCorrupt) {
				t.Errorf("%s, hint %q: %v", curve.Params().Name, hint, err)
			}
		}
	}
}

// TestCertify: certificates that will not be accepted are refused before anything is signed.
func TestCertify(t *testing.T) {
	key := fixedKey(t, elliptic.P256(), 1)
	s, _ := signerAnd(t, key)
	a := newAuthority(t, elliptic.P256())
	leaf := a.leaf(t, key.Public(), nil)
	silent := func(c *x509.Certificate) { c.KeyUsage, c.ExtKeyUsage = 0, nil }
	for says, text := range map[string][]byte{
		"not that of the key":       a.chain(t, a.key.Public(), nil),
		"did not issue":             inPEM(leaf, a.root),
		"CN=middle did not issue":   inPEM(leaf, a.middle, a.middle),
		"not for signing code":      a.chain(t, key.Public(), silent),
		"want certificates in PEM":  []byte("x"),
		"nothing after them":        append(inPEM(leaf), 'x'),
		`a PEM block "PRIVATE KEY"`: append(inPEM(leaf), privatePEM(t, key)...),
		"malformed certificate":     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
		"17 certificates":           inPEM(slices.Repeat([]*x509.Certificate{leaf}, 17)...),
	} {
		if err := s.Certify(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if s.chain != nil {
		t.Error("certificates were added in spite of the error")
	}
}

// TestKeys: keys in all forms that openssl writes; others are refused with what to do.
func TestKeys(t *testing.T) {
	key := fixedKey(t, elliptic.P256(), 1)
	sec1, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, data []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}) }
	old, parameters := block("EC PRIVATE KEY", sec1), block("EC PARAMETERS", []byte{6, 0})
	for _, text := range [][]byte{privatePEM(t, key), old, slices.Concat(parameters, old),
		slices.Concat([]byte("text\n"), old, []byte("\n \n"))} {
		if _, err := NewSigner(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	strange, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edwards := ed25519.NewKeyFromSeed(make([]byte, 32))
	small := fixedKey(t, elliptic.P224(), 1)
	public := publicPEM(t, key.Public())
	for _, c := range []struct {
		text []byte
		says string
	}{
		{nil, "want a key in PEM"},
		{parameters, "want a key in PEM"},
		{slices.Concat(old, old), "several blocks"},
		{slices.Concat(old, []byte("x")), "nothing after it"},
		{block("ENCRYPTED PRIVATE KEY", sec1), "openssl pkey"},
		{pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1,
			Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}}), "openssl pkey"},
		{public, `"PUBLIC KEY"; want a private key`},
		{block("EC PRIVATE KEY", sec1[:20]), "corrupt"},
		{privatePEM(t, strange), "kind rsa.PrivateKey"},
		{privatePEM(t, edwards), "kind ed25519.PrivateKey"},
		{privatePEM(t, small), "kind P-224"},
	} {
		if _, err := NewSigner(c.text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", c.text, err, c.says)
		}
	}
	for _, c := range []struct {
		text []byte
		says string
	}{
		{old, "-pubout"},
		{inPEM(newAuthority(t, elliptic.P256()).root), "--certificate"},
		{block("RSA PUBLIC KEY", sec1), `"RSA PUBLIC KEY"`},
		{block("PUBLIC KEY", sec1), "corrupt"},
		{publicPEM(t, strange.Public()), "kind rsa.PublicKey"},
		{publicPEM(t, edwards.Public()), "kind ed25519.PublicKey"},
		{publicPEM(t, small.Public()), "kind P-224"},
	} {
		if _, err := TrustKey(c.text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", c.text, err, c.says)
		}
	}
	if _, err := TrustKey(public); err != nil {
		t.Error(err)
	}
}
