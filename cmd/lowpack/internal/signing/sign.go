package signing

import (
	"crypto/ecdsa"
	"crypto/x509"
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// Signer signs manifests with a private key.
type Signer struct {
	key   *ecdsa.PrivateKey
	hint  string
	chain []*x509.Certificate // nil: the key alone
}

// NewSigner reads a private key in PEM, ECDSA on P-256, P-384 or P-521, in PKCS #8 or SEC 1, not encrypted.
func NewSigner(key []byte) (*Signer, error) {
	private, err := privateKey(key)
	if err != nil {
		return nil, err
	}
	hint, err := hintOf(&private.PublicKey)
	return &Signer{key: private, hint: hint}, err
}

// Certify adds certificates in PEM to all signatures: that of the key first, then that of its issuer and so on; the
// trusted one at the end can be left out.
func (s *Signer) Certify(chain []byte) (err error) {
	list, err := certificates(chain)
	if err == nil {
		err = checkChain(list, &s.key.PublicKey)
	}
	if err == nil {
		s.chain = list
	}
	return err
}

// Who names the signer.
func (s *Signer) Who() string {
	if s.chain != nil {
		return certified(s.chain[0])
	}
	return keyed(s.hint)
}

// Sign returns the bundle of a manifest. The same manifest and key give the same bytes (RFC 6979).
func (s *Signer) Sign(m *Manifest) ([]byte, error) {
	b := bundle{hint: s.hint}
	for _, c := range s.chain {
		b.chain = append(b.chain, c.Raw)
	}
	var err error
	if b.payload, err = m.statement(); err != nil {
		return nil, err
	}
	kind, digest := digestFor(&s.key.PublicKey, b.payload)
	if b.signature, err = s.key.Sign(nil, digest, kind); err != nil {
		return nil, err
	}
	text, err := b.marshal()
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%w: a signature of %d bytes, more than %d", pack.ErrLimit, len(text), MaxSize)
	}
	return text, err
}
