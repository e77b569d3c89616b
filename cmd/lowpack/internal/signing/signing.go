// Package signing signs models, and verifies their signatures, in the OpenSSF Model Signing format, version 1.0, as the
// Python package model-signing writes and reads it: a sigstore bundle (media type v0.3) that holds a DSSE envelope
// (https://github.com/secure-systems-lab/dsse/blob/v1.0.0/protocol.md) with an in-toto statement
// (https://in-toto.io/Statement/v1) that lists the SHA-256 of every file of the model.
//
// Signatures are made with ECDSA keys on P-256, P-384 or P-521, alone or with a chain of X.509 certificates. Keyless
// signatures, other digests than SHA-256 and lists of shards are refused by name.
package signing

import (
	"crypto/sha256"
	"strconv"
)

// Types of the layers of a signature.
const (
	bundleType    = "application/vnd.dev.sigstore.bundle.v0.3+json"
	payloadType   = "application/vnd.in-toto+json"
	predicateType = "https://model_signing/signature/v1.0"
)

// Limits of a signature.
const (
	MaxSize    = 16 << 20 // bytes of a bundle
	maxFiles   = 1 << 14  // that a signature lists
	maxIgnored = 1 << 10  // paths that it leaves out
	maxChain   = 16       // certificates in a bundle
	maxRSA     = 8192     // bits of a key in them; the time of a check grows with the square
)

// Manifest is what a signature covers.
type Manifest struct {
	Name       string   // of the model, for people: a renamed model has the same signature
	Files      []File   // at least one; names differ
	Ignore     []string // paths of the directory that are not covered, with everything below them
	Provenance []byte   // an in-toto statement on how the model was made (package provenance); nil = none
}

// File is a file of a model.
type File struct {
	Name   string // with '/' between its parts, relative to the directory; whole for a model that is one file
	SHA256 [sha256.Size]byte
}

// whole is the name of the file in a model that is one file.
const whole = "."

// isFile reports whether the model is one file, not a directory.
func (m *Manifest) isFile() bool { return len(m.Files) == 1 && m.Files[0].Name == whole }

// root is the digest of the whole model: the SHA-256 of the digests of its files, in the order of the list.
func (m *Manifest) root() [sha256.Size]byte {
	h := sha256.New()
	for i := range m.Files {
		h.Write(m.Files[i].SHA256[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// authenticated is what is signed of a payload: DSSE's pre-authentication encoding (PAE).
func authenticated(payload []byte) []byte {
	prefix := "DSSEv1 " + strconv.Itoa(len(payloadType)) + " " + payloadType + " " + strconv.Itoa(len(payload)) + " "
	return append([]byte(prefix), payload...)
}
