package verify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/race"
)

var anyRule = regexp.MustCompile(`^F\d+`)

// place of a stored tensor in the file.
type place struct {
	name   string
	digest string
	begin  int // from the beginning of the file
	end    int
}

// places lists the stored tensors of a file.
func places(t testing.TB, f *packed.File, b []byte) (list []place) {
	t.Helper()
	start := 8 + int(binary.LittleEndian.Uint64(b))
	digests := map[string]string{packed.GoldenName: f.Manifest().Golden}
	for _, e := range f.Manifest().Packed {
		digests[e.Name+packed.PackedSuffix] = e.SHA256
		for _, b := range e.Beside() {
			digests[e.Name+b.Suffix] = *b.SHA256
		}
	}
	for _, p := range f.Manifest().Plain {
		digests[p.Name] = p.SHA256
	}
	for _, info := range f.Tensors() {
		r, err := f.Section(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, place{info.Name, digests[info.Name], start, start + int(r.Size())})
		start += int(r.Size())
	}
	if start != len(b) {
		t.Fatalf("the tensors end at byte %d of %d", start, len(b))
	}
	return list
}

// TestEveryBit flips every bit of a small file. A flip in the header is found when the file is opened, with a rule of
// the format; a flip in the data breaks the digest of the tensor that holds it, and of no other.
func TestEveryBit(t *testing.T) { everyBit(t, file(t, small(t)), race.Every(7), race.Every(31)) }

// everyBit flips every bit of a file, or every header-th bit of its header and every data-th bit of its data.
func everyBit(t *testing.T, path string, header, data int) {
	t.Helper()
	b := read(t, path)
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tensors := places(t, f, b)
	flipped, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer flipped.Close()
	flip := func(bit int, check func()) {
		if _, err := flipped.WriteAt([]byte{b[bit/8] ^ 1<<(bit%8)}, int64(bit/8)); err != nil {
			t.Fatal(err)
		}
		check()
		if _, err := flipped.WriteAt(b[bit/8:bit/8+1], int64(bit/8)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d flips in the header, %d in the data", 8*tensors[0].begin/header, 8*(len(b)-tensors[0].begin)/data)
	for bit := 0; bit < 8*tensors[0].begin; bit += header {
		flip(bit, func() {
			bad := failed(run(t, path, Options{Level: File}))
			if len(bad) != 1 || !anyRule.MatchString(bad[0].Rule) || bad[0].Reason == "" {
				t.Errorf("header: bit %d of byte %d: %v", bit%8, bit/8, bad)
			}
		})
	}
	for _, p := range tensors {
		r, err := f.Section(p.name)
		if err != nil {
			t.Fatal(err)
		}
		for bit := 8 * p.begin; bit < 8*p.end; bit += data {
			flip(bit, func() {
				if err := newDigest(r, p.digest, otherBytes).rest(t.Context()); err == nil {
					t.Errorf("%s: bit %d of byte %d was flipped unseen", p.name, bit%8, bit/8-p.begin)
				}
				if bit%509 == 0 {
					bad := failed(run(t, path, Options{Level: Digest}))
					named := len(bad) == 1 && bad[0].Name == p.name &&
						(bad[0].Rule == "F17" || p.name == packed.GoldenName && bad[0].Rule == "F8")
					if !named {
						t.Errorf("%s: bit %d of byte %d: %v", p.name, bit%8, bit/8-p.begin, bad)
					}
				}
			})
		}
		if err := newDigest(r, p.digest, otherBytes).rest(t.Context()); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
	}
}

// TestEveryTruncation cuts a small file at every byte, and adds some.
func TestEveryTruncation(t *testing.T) { everyTruncation(t, file(t, small(t)), 1) }

// everyTruncation cuts a file at every byte, or at every step-th byte.
func everyTruncation(t *testing.T, path string, step int) {
	t.Helper()
	b := read(t, path)
	for n := len(b) - 1; n >= 0; n -= step {
		if err := os.Truncate(path, int64(n)); err != nil {
			t.Fatal(err)
		}
		bad := failed(run(t, path, Options{Level: File}))
		if len(bad) != 1 || !anyRule.MatchString(bad[0].Rule) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), bad)
		}
	}
	t.Logf("%d truncations", len(b)/step)
	for _, more := range [][]byte{{0}, {' '}, make([]byte, 64), b} {
		write(t, path, append(bytes.Clone(b), more...))
		if bad := failed(run(t, path, Options{Level: File})); len(bad) != 1 || !anyRule.MatchString(bad[0].Rule) {
			t.Errorf("%d bytes more: %v", len(more), bad)
		}
	}
}

// TestShrinkingFile: a file that is cut short after it was opened is a finding, not a signal.
func TestShrinkingFile(t *testing.T) {
	path := file(t, small(t))
	for _, c := range []struct {
		level Level
		check func(*session) error
	}{{Digest, (*session).checkDigests}, {Codes, func(s *session) error {
		err := s.checkDigests()
		s.report.Checks = nil
		return errors.Join(err, s.checkCodes())
	}}} {
		s := begin(t.Context(), path, Options{}, c.level)
		if err := s.checkFile(); err != nil || s.report.Failed() > 0 {
			t.Fatal(err, s.report)
		}
		b := read(t, path)
		if err := os.Truncate(path, int64(8+binary.LittleEndian.Uint64(b)+64)); err != nil {
			t.Fatal(err)
		}
		if err := c.check(s); err != nil {
			t.Errorf("level %s: %v", c.level, err)
		}
		if bad := failed(s.report); len(bad) == 0 || bad[0].Rule != "F5" ||
			!strings.Contains(bad[0].Reason, "shorter") {
			t.Errorf("level %s: %v", c.level, bad)
		}
		s.close()
		write(t, path, b)
	}
}

// TestBlocks moves whole blocks of bytes about.
func TestBlocks(t *testing.T) {
	path := file(t, small(t))
	good := read(t, path)
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
	}{
		{"block zeroed", func(b []byte) []byte { clear(b[len(b)/2 : len(b)/2+512]); return b }},
		{"blocks swapped", func(b []byte) []byte {
			x, y := b[len(b)-4096:len(b)-3584], b[len(b)-2048:len(b)-1536]
			for i := range x {
				x[i], y[i] = y[i], x[i]
			}
			return b
		}},
		{"block twice", func(b []byte) []byte { copy(b[len(b)-1024:], b[len(b)-2048:len(b)-1024]); return b }},
		{"header of another file", func(b []byte) []byte {
			m := small(t)
			m.Quantized[0].Scales[0] *= 2
			other := read(t, file(t, m))
			return append(other[:8+binary.LittleEndian.Uint64(other)], b[8+binary.LittleEndian.Uint64(b):]...)
		}},
		{"no file at all", func([]byte) []byte { return nil }},
		{"another kind of file", func([]byte) []byte { return []byte("GGUF\x03\x00\x00\x00 and more") }},
	} {
		write(t, path, c.change(bytes.Clone(good)))
		if bad := failed(run(t, path, Options{Level: Digest})); len(bad) == 0 {
			t.Errorf("%s: nothing was found", c.name)
		}
	}
}
