package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
)

// checkDigests is level digest: SHA-256 of every tensor (F17), and of the file if there is a statement about it. If
// level codes comes next, packed tensors are decoded in the same pass.
func (s *session) checkDigests() error {
	m := s.file.Manifest()
	var codes, scales, plain []item
	s.decoded = make([]decoded, len(m.Packed))
	for i := range m.Packed {
		e := &m.Packed[i]
		it := s.stored("packed tensors", e.Name+packed.PackedSuffix, e.SHA256)
		if s.reaches(Codes) {
			it = s.decoding(it, e, &s.decoded[i])
		}
		codes = append(codes, it)
		for _, b := range e.Beside() {
			scales = append(scales, s.stored(besideGroups[b.Suffix], e.Name+b.Suffix, *b.SHA256))
		}
	}
	for _, p := range m.Plain {
		plain = append(plain, s.stored("passthrough tensors and files", p.Name, p.SHA256))
	}
	if m.Golden != "" {
		plain = append(plain, s.stored("golden outputs", packed.GoldenName, m.Golden))
	}
	return s.each(Digest, "tensors", slices.Concat(codes, scales, plain, s.statement()))
}

// besideGroups names the checks of the data stored next to codes.
var besideGroups = map[string]string{packed.ScaleSuffix: "scales", packed.ZeroSuffix: "zero points",
	packed.MinSuffix: "minima", packed.OrderSuffix: "orders of columns"}

// stored checks the digest of a tensor of the file.
func (s *session) stored(group, name, want string) item {
	r, err := s.file.Section(name)
	if err != nil {
		return item{group: group, name: name, rule: "F17", check: func() error { return err }}
	}
	return item{group: group, name: name, rule: "F17", size: r.Size(), bytes: newDigest(r, want, otherBytes)}
}

func otherBytes(got, want string) error {
	return broken("F17", "SHA-256 is %s, the manifest says %s: the bytes are not those that were written", got, want)
}

// decoding makes a check of stored bytes decode them too. Their codes are hashed in the same pass.
func (s *session) decoding(stored item, e *packed.Entry, out *decoded) item {
	bytes := stored.bytes
	if bytes == nil {
		err := stored.check()
		*out = decoded{codes: err, scales: err}
		return stored
	}
	stored.bytes, stored.size = nil, 2*stored.size
	stored.check = func() error {
		*out = s.decode(e, bytes)
		return bytes.rest(s.ctx)
	}
	return stored
}

// digest is the SHA-256 of bytes while they are read.
type digest struct {
	hash.Hash
	from   *io.SectionReader
	off    int64 // of what is not hashed yet
	piece  []byte
	want   string
	differ func(got, want string) error // says so
}

func newDigest(r *io.SectionReader, want string, differ func(got, want string) error) *digest {
	return &digest{Hash: sha256.New(), from: r, want: want, differ: differ}
}

// left is the number of bytes that are not hashed yet.
func (d *digest) left() int64 { return d.from.Size() - d.off }

// read returns the next bytes to hash.
func (d *digest) read(ctx context.Context) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	n := min(pieceBytes, d.left())
	if n == 0 { // which readers report as an end
		return nil, nil
	}
	if int64(cap(d.piece)) < n {
		d.piece = make([]byte, n)
	}
	p := d.piece[:n]
	if _, err := d.from.ReadAt(p, d.off); err != nil {
		return nil, err
	}
	d.off += n
	return p, nil
}

// rest hashes what is left and compares.
func (d *digest) rest(ctx context.Context) error {
	for d.left() > 0 {
		p, err := d.read(ctx)
		if err != nil {
			return err
		}
		d.Write(p)
	}
	return d.verdict()
}

// verdict compares the digest of all bytes.
func (d *digest) verdict() error {
	if got := hex.EncodeToString(d.Sum(nil)); got != d.want {
		return d.differ(got, d.want)
	}
	return nil
}
