package signing

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// certificates reads all certificates of a PEM text.
func certificates(text []byte) (list []*x509.Certificate, err error) {
	for {
		block, rest := pem.Decode(text)
		switch text = rest; {
		case block == nil && (len(list) == 0 || len(bytes.TrimSpace(rest)) > 0):
			return nil, fmt.Errorf("%w: want certificates in PEM, and nothing after them", pack.ErrUnsupported)
		case block == nil:
			return list, nil
		case block.Type != certificateBlock:
			return nil, fmt.Errorf("%w: a PEM block %.40q; want certificates", pack.ErrUnsupported, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %v", pack.ErrCorrupt, err)
		}
		list = append(list, c)
	}
}

// checkChain refuses, before anything is signed, certificates that are not those of the key, and the issuers of each
// other in this order.
func checkChain(chain []*x509.Certificate, key *ecdsa.PublicKey) error {
	if len(chain) > maxChain {
		return fmt.Errorf("%w: %d certificates, more than %d", pack.ErrLimit, len(chain), maxChain)
	}
	if !key.Equal(chain[0].PublicKey) {
		return fmt.Errorf("%w: the first certificate, of %s, is not that of the key", pack.ErrCorrupt, chain[0].Subject)
	}
	for i, c := range chain[1:] {
		if err := chain[i].CheckSignatureFrom(c); err != nil {
			return fmt.Errorf("%w: %s did not issue the certificate before it, of %s: %v", pack.ErrCorrupt, c.Subject,
				chain[i].Subject, err)
		}
	}
	return checkUsage(chain[0])
}

// checkUsage refuses certificates that are not for signing: Go's verification takes one that is silent about its use.
func checkUsage(c *x509.Certificate) error {
	signs := c.KeyUsage&x509.KeyUsageDigitalSignature != 0
	code := slices.ContainsFunc(c.ExtKeyUsage, func(u x509.ExtKeyUsage) bool {
		return u == x509.ExtKeyUsageCodeSigning || u == x509.ExtKeyUsageAny
	})
	other := len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) > 0 && !code
	if !signs && !code || c.KeyUsage != 0 && !signs || other {
		return fmt.Errorf("%w: the certificate of %s is not for signing code (key usage digitalSignature, extended "+
			"key usage codeSigning)", pack.ErrUnsupported, c.Subject)
	}
	return nil
}

// signerOf returns the certificate of the signer, if a trusted one vouches for it at the beginning of its validity: a
// bundle without a transparency log holds no time that can be trusted, and whoever may sign could claim any.
func signerOf(chain [][]byte, roots *x509.CertPool) (*x509.Certificate, error) {
	var list []*x509.Certificate
	between := x509.NewCertPool()
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%w: certificate in the signature: %v", pack.ErrCorrupt, err)
		}
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
			return nil, fmt.Errorf("%w: an RSA key of %d bits in the signature, more than %d", pack.ErrLimit,
				key.N.BitLen(), maxRSA)
		}
		if list = append(list, c); len(list) > 1 {
			between.AddCert(c)
		}
	}
	if err := checkUsage(list[0]); err != nil {
		return nil, err
	}
	_, err := list[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: list[0].NotBefore,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}})
	if err != nil {
		return nil, fmt.Errorf("%w: the certificate of %s is not trusted: %v", pack.ErrCorrupt, list[0].Subject, err)
	}
	return list[0], nil
}
