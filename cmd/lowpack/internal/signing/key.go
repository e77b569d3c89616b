package signing

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	_ "crypto/sha512" // SHA-384 and SHA-512
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// hashes has the hash that the format pairs with each curve.
var hashes = map[elliptic.Curve]crypto.Hash{
	elliptic.P256(): crypto.SHA256,
	elliptic.P384(): crypto.SHA384,
	elliptic.P521(): crypto.SHA512,
}

// blockTypes are the PEM blocks of keys.
const (
	publicBlock      = "PUBLIC KEY"
	certificateBlock = "CERTIFICATE"
	parametersBlock  = "EC PARAMETERS" // which openssl ecparam writes before a key, and the key repeats
)

// onlyBlock returns the only PEM block of a text besides parameters of curves.
func onlyBlock(text []byte) (*pem.Block, error) {
	var only *pem.Block
	for {
		block, rest := pem.Decode(text)
		switch text = rest; {
		case block == nil && only == nil:
			return nil, fmt.Errorf("%w: want a key in PEM", pack.ErrUnsupported)
		case block == nil && len(bytes.TrimSpace(rest)) > 0:
			return nil, fmt.Errorf("%w: want one key in PEM and nothing after it", pack.ErrUnsupported)
		case block == nil:
			return only, nil
		case block.Type == parametersBlock:
		case only != nil:
			return nil, fmt.Errorf("%w: want one key in PEM, but there are several blocks", pack.ErrUnsupported)
		default:
			only = block
		}
	}
}

// privateKey reads the key that signs.
func privateKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, err := onlyBlock(text)
	if err != nil {
		return nil, err
	}
	var key any
	switch {
	case strings.HasPrefix(block.Type, "ENCRYPTED") || block.Headers["Proc-Type"] != "":
		return nil, fmt.Errorf("%w: the key is encrypted; decrypt it into a file that only you can read: "+
			"openssl pkey -in KEY -out PLAIN", pack.ErrUnsupported)
	case block.Type == "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case block.Type == "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("%w: a PEM block %.40q; want a private key", pack.ErrUnsupported, block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", pack.ErrCorrupt, err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, unsupportedKey(key)
	}
	_, err = supported(private.Public())
	return private, err
}

// publicKey reads the key that verifies.
func publicKey(text []byte) (*ecdsa.PublicKey, error) {
	block, err := onlyBlock(text)
	switch {
	case err != nil:
		return nil, err
	case strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return nil, fmt.Errorf("%w: a private key, which verifies nothing; want its public key: "+
			"openssl pkey -in KEY -pubout", pack.ErrUnsupported)
	case block.Type == certificateBlock:
		return nil, fmt.Errorf("%w: a certificate; give it by --certificate", pack.ErrUnsupported)
	case block.Type != publicBlock:
		return nil, fmt.Errorf("%w: a PEM block %.40q; want a public key", pack.ErrUnsupported, block.Type)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", pack.ErrCorrupt, err)
	}
	return supported(key)
}

// supported refuses keys that the format does not have.
func supported(key any) (*ecdsa.PublicKey, error) {
	if public, ok := key.(*ecdsa.PublicKey); ok && hashes[public.Curve] != 0 {
		return public, nil
	}
	return nil, unsupportedKey(key)
}

func unsupportedKey(key any) error {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", key), "*")
	if public, ok := key.(*ecdsa.PublicKey); ok {
		kind = public.Params().Name
	}
	return fmt.Errorf("%w: a key of kind %s; the format has ECDSA on P-256, P-384 and P-521: "+
		"openssl ecparam -name prime256v1 -genkey -noout", pack.ErrUnsupported, kind)
}

// digestFor hashes what is signed as the curve of a key asks for.
func digestFor(key *ecdsa.PublicKey, payload []byte) (crypto.Hash, []byte) {
	kind := hashes[key.Curve]
	h := kind.New()
	h.Write(authenticated(payload))
	return kind, h.Sum(nil)
}

// hintOf names a key in a bundle: the SHA-256 of its PEM.
func hintOf(key *ecdsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: der}))
	return hex.EncodeToString(digest[:]), nil
}
