package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/cpu"
)

// fuzzTime bounds the processor time that a file of some kilobytes takes.
const fuzzTime = 20 * time.Second

// victims are files that reach every level of verification, as small as that allows: fuzzing gets that much further.
func victims(t testing.TB) []string {
	config := strings.NewReplacer(`"hidden_size": 24`, `"hidden_size": 12`, `"intermediate_size": 40`,
		`"intermediate_size": 10`,
		`"num_hidden_layers": 2`, `"num_hidden_layers": 1`, `"vocab_size": 31`, `"vocab_size": 9`,
		`"max_position_embeddings": 64`, `"max_position_embeddings": 5`).Replace(tinyConfig)
	return []string{file(t, small(t)), file(t, modelOf(t, config))}
}

// scratch is a file whose bytes are replaced again and again. It is written in place, which costs a tenth of a new
// file.
type scratch struct{ *os.File }

func newScratch(t testing.TB) scratch {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "scratch"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return scratch{f}
}

func (s scratch) put(t testing.TB, b []byte) {
	t.Helper()
	_, err := s.WriteAt(b, 0)
	if err := errors.Join(err, s.Truncate(int64(len(b)))); err != nil {
		t.Fatal(err)
	}
}

// verify verifies b as a file: neither a panic nor an error of the environment may come of it, and it must end.
func (s scratch) verify(t *testing.T, b []byte) {
	s.put(t, b)
	cpu.Within(t, fuzzTime, "verification", func() {
		if _, err := Run(context.Background(), s.Name(), Options{Threads: 1}); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzVerify verifies arbitrary bytes.
func FuzzVerify(f *testing.F) {
	for _, path := range victims(f) {
		f.Add(read(f, path))
	}
	f.Add([]byte{})
	fuzzed := newScratch(f)
	f.Fuzz(func(t *testing.T, b []byte) { fuzzed.verify(t, b) })
}

// FuzzForged edits good files and corrects their digests, so that the checks after the digests are reached: each edit
// is a file (one byte), an offset (three) and a new byte. Edits of the header change the manifest, and its digest
// follows.
func FuzzForged(f *testing.F) {
	var sealers []*sealer
	for _, path := range victims(f) {
		sealers = append(sealers, newSealer(f, path))
	}
	f.Add([]byte{0, 0, 16, 0, 1})
	f.Add([]byte{1, 0, 16, 0, 255, 1, 0, 1, 0, '9'})
	for i, s := range sealers {
		for _, p := range s.tensors {
			f.Add(append(binary.BigEndian.AppendUint32([]byte{}, uint32(i)<<24|uint32(p.begin+1)), 1))
		}
		for at := 8; at < s.tensors[0].begin; at += 700 {
			f.Add(append(binary.BigEndian.AppendUint32([]byte{}, uint32(i)<<24|uint32(at)), '7'))
		}
	}
	fuzzed := newScratch(f)
	f.Fuzz(func(t *testing.T, edits []byte) {
		if len(edits) < 5 {
			return
		}
		s := sealers[int(edits[0])%len(sealers)]
		b := bytes.Clone(s.good)
		text := bytes.Clone(s.text)
		for ; len(edits) >= 5; edits = edits[5:] {
			at := int(binary.BigEndian.Uint32(edits) & 0xffffff)
			if header := s.tensors[0].begin; at < header {
				text[at%len(text)] = edits[4]
			} else {
				b[header+(at-header)%(len(b)-header)] = edits[4]
			}
		}
		if !bytes.Equal(text, s.text) {
			fuzzed.verify(t, s.sealManifest(b, s.tensors[0].begin, text))
		}
		if !bytes.Equal(b, s.good) {
			fuzzed.verify(t, s.seal(b))
		}
	})
}

// TestGarbage verifies prefixes and mixtures of good files, as the fuzz targets do.
func TestGarbage(t *testing.T) {
	good := read(t, file(t, tinyModel(t)))
	garbage := newScratch(t)
	for _, b := range [][]byte{nil, make([]byte, 100), bytes.Repeat([]byte{0xff}, 4096), good[:100],
		append(bytes.Clone(good[:4000]), good...), bytes.Repeat([]byte("{"), 20000)} {
		garbage.verify(t, b)
	}
}
