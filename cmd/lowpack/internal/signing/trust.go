package signing

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/lowpack/lowpack/pack"
)

// Trust is whose signatures are accepted: those of one key, or those of keys that one of some certificates vouches for.
type Trust struct {
	key   *ecdsa.PublicKey // nil: roots
	hint  string
	roots *x509.CertPool
}

// Signed is a manifest whose signature is valid.
type Signed struct {
	*Manifest
	Who string // signed it
}

// TrustKey trusts the owner of a public key in PEM.
func TrustKey(key []byte) (*Trust, error) {
	public, err := publicKey(key)
	if err != nil {
		return nil, err
	}
	hint, err := hintOf(public)
	return &Trust{key: public, hint: hint}, err
}

// TrustCertificates trusts certificates in PEM, and those that they vouch for.
func TrustCertificates(list []byte) (*Trust, error) {
	all, err := certificates(list)
	if err != nil {
		return nil, err
	}
	t := &Trust{roots: x509.NewCertPool()}
	for _, c := range all {
		t.roots.AddCert(c)
	}
	return t, nil
}

// Open returns what a bundle says, if it has been signed by whom the trust is in. It reads nothing of the statement
// before that.
func (t *Trust) Open(data []byte) (*Signed, error) {
	b, err := parseBundle(data)
	if err != nil {
		return nil, err
	}
	key, who, err := t.signer(b)
	if err != nil {
		return nil, err
	}
	if _, digest := digestFor(key, b.payload); !ecdsa.VerifyASN1(key, digest, b.signature) {
		return nil, fmt.Errorf("%w: the signature is not one of %s for this statement", pack.ErrCorrupt, who)
	}
	m, err := parseStatement(b.payload)
	if err != nil {
		return nil, err
	}
	return &Signed{m, who}, nil
}

// signer returns the key that must have signed.
func (t *Trust) signer(b *bundle) (key *ecdsa.PublicKey, who string, err error) {
	switch {
	case t.key != nil && b.chain != nil:
		return nil, "", fmt.Errorf("%w: signed with a certificate; trust the one that vouches for it, by "+
			"--certificate", pack.ErrUnsupported)
	case t.key == nil && b.chain == nil:
		return nil, "", fmt.Errorf("%w: signed with a key alone; name its public key, by --key", pack.ErrUnsupported)
	case t.key != nil && b.hint != "" && b.hint != t.hint:
		return nil, "", fmt.Errorf("%w: signed with another key, %s, than the trusted one, %s", pack.ErrCorrupt,
			keyed(b.hint), keyed(t.hint))
	case t.key != nil:
		return t.key, keyed(t.hint), nil
	}
	c, err := signerOf(b.chain, t.roots)
	if err != nil {
		return nil, "", err
	}
	key, err = supported(c.PublicKey)
	return key, certified(c), err
}

// keyed names the owner of a key.
func keyed(hint string) string { return fmt.Sprintf("key %.16s", hint) }

// certified names the owner of a certificate.
func certified(c *x509.Certificate) string {
	digest := sha256.Sum256(c.Raw)
	return fmt.Sprintf("%s (certificate %s, valid until %s)", c.Subject, hex.EncodeToString(digest[:8]),
		c.NotAfter.UTC().Format(time.DateOnly))
}
