package packed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// Kinds of scales (FORMAT F9).
const (
	ScaleTensor = "tensor"
	ScaleRow    = "row"
	ScaleGroup  = "group"
)

// Canonical is the one JSON form of a manifest (FORMAT F11).
func (m *Manifest) Canonical() ([]byte, error) { return canonical(m) }

func canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ParseManifest reads the canonical form and nothing else: an unknown field, another order of fields or a single space
// too much is an error, so that equal manifests are equal bytes.
func ParseManifest(text []byte) (*Manifest, error) {
	var version struct{ Format int }
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, fmt.Errorf("%w: manifest: %v (F11)", pack.ErrCorrupt, err)
	}
	if version.Format != FormatVersion {
		return nil, fmt.Errorf("%w: the file has format version %d, this program reads version %d (F11)", pack.ErrUnsupported, version.Format, FormatVersion)
	}
	var m Manifest
	if err := decodeStrictly(text, &m); err != nil {
		return nil, err
	}
	again, err := m.Canonical()
	if err != nil {
		return nil, fmt.Errorf("%w: manifest: %v (F11)", pack.ErrCorrupt, err)
	}
	if !bytes.Equal(again, text) {
		return nil, fmt.Errorf("%w: the manifest is not in canonical form (F11)", pack.ErrCorrupt)
	}
	return &m, nil
}

// CodesDigest is the digest of a matrix that does not depend on its layout (FORMAT F12), in hex.
func CodesDigest(m *pack.Matrix) string {
	h := NewCodesHash(m.Alphabet.Name, m.Shape)
	h.Write(CodeBytes(m.Codes))
	return hex.EncodeToString(h.Sum(nil))
}

// NewCodesHash returns the hash of FORMAT F12 with its prefix written; the codes follow, row-major, in pieces of any size.
func NewCodesHash(alphabet string, s pack.Shape) hash.Hash {
	h := sha256.New()
	fmt.Fprintf(h, "lowpack codes v1\n%s %d %d\n", alphabet, s.M, s.K)
	return h
}

// BytesAsCodes is the inverse of CodeBytes.
func BytesAsCodes(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// CodeBytes is the two's complement view of codes; the memory is shared.
func CodeBytes(codes []int8) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(codes))), len(codes))
}
