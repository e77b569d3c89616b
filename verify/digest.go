package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
)

// checkDigests is level digest: SHA-256 of every tensor (F17).
func (s *session) checkDigests() error {
	m := s.file.Manifest()
	var codes, scales, plain []item
	for i := range m.Packed {
		e := &m.Packed[i]
		codes = append(codes, s.stored("packed tensors", e.Name+packed.PackedSuffix, e.SHA256))
		scales = append(scales, s.stored("scales", e.Name+packed.ScaleSuffix, e.ScaleSHA))
	}
	for _, p := range m.Plain {
		plain = append(plain, s.stored("kept tensors and files", p.Name, p.SHA256))
	}
	if m.Golden != "" {
		plain = append(plain, s.stored("golden outputs", packed.GoldenName, m.Golden))
	}
	if err := s.each(Digest, "tensors", slices.Concat(codes, scales, plain)); err != nil {
		return err
	}
	return s.checkProvenance()
}

// stored checks the digest of a tensor of the file.
func (s *session) stored(group, name, digest string) item {
	r, err := s.file.Section(name)
	if err != nil {
		return item{group, name, "F17", 0, func() error { return err }}
	}
	return item{group, name, "F17", r.Size(), func() error { return s.sameDigest(r, digest) }}
}

// sameDigest reads r to its end and compares its SHA-256.
func (s *session) sameDigest(r *io.SectionReader, want string) error {
	got, err := s.sha256(r)
	if err == nil && got != want {
		err = broken("F17", "SHA-256 is %s, the manifest says %s: the bytes are not those that were written", got, want)
	}
	return err
}

// sha256 reads r to its end.
func (s *session) sha256(r *io.SectionReader) (string, error) {
	h := sha256.New()
	b := make([]byte, min(1<<18, max(1, r.Size())))
	for off := int64(0); off < r.Size(); off += int64(len(b)) {
		if err := context.Cause(s.ctx); err != nil {
			return "", err
		}
		b = b[:min(int64(len(b)), r.Size()-off)]
		if _, err := r.ReadAt(b, off); err != nil {
			return "", err
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
