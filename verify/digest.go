package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/lowpack/lowpack/formats/packed"
)

// stored is a tensor of the file and the digest that the manifest gives it.
type stored struct{ name, digest string }

// checkDigests is level digest: SHA-256 of every tensor (F17).
func (s *session) checkDigests() error {
	m := s.file.Manifest()
	var codes, scales, plain, gold []stored
	for i := range m.Packed {
		e := &m.Packed[i]
		codes = append(codes, stored{e.Name + packed.PackedSuffix, e.SHA256})
		scales = append(scales, stored{e.Name + packed.ScaleSuffix, e.ScaleSHA})
	}
	for _, p := range m.Plain {
		plain = append(plain, stored{p.Name, p.SHA256})
	}
	if m.Golden != "" {
		gold = append(gold, stored{packed.GoldenName, m.Golden})
	}
	for _, g := range []struct {
		group string
		list  []stored
	}{{"packed tensors", codes}, {"scales", scales}, {"kept tensors and files", plain}, {"golden outputs", gold}} {
		if err := s.checkStored(g.group, g.list); err != nil {
			return err
		}
	}
	return s.checkProvenance()
}

func (s *session) checkStored(group string, list []stored) error {
	items := make([]item, len(list))
	for i, t := range list {
		r, err := s.file.Section(t.name)
		if err != nil {
			return err
		}
		items[i] = item{t.name, r.Size()}
	}
	return s.each(Digest, group, "F17", items, func(i int) error {
		r, err := s.file.Section(list[i].name)
		if err != nil {
			return err
		}
		return s.sameDigest(r, list[i].digest)
	})
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
