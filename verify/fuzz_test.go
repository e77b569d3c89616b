package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fuzzTime bounds the verification of a file of some kilobytes, with room for a busy machine.
const fuzzTime = 20 * time.Second

// verifyBytes verifies b as a file: neither a panic nor an error of the environment may come of it, and it must end.
func verifyBytes(t *testing.T, path string, b []byte) {
	write(t, path, b)
	ctx, cancel := context.WithTimeout(context.Background(), fuzzTime)
	defer cancel()
	if _, err := Run(ctx, path, Options{Threads: 1}); err != nil {
		t.Fatal(err)
	}
}

// FuzzVerify verifies arbitrary bytes.
func FuzzVerify(f *testing.F) {
	f.Add(read(f, file(f, small(f))))
	f.Add(read(f, file(f, tinyModel(f))))
	f.Add([]byte{})
	path := filepath.Join(f.TempDir(), "fuzzed")
	f.Fuzz(func(t *testing.T, b []byte) { verifyBytes(t, path, b) })
}

// FuzzForged edits good files and sets their digests right, so that what lies behind the digests is reached: each edit is
// a file (one byte), an offset (three) and a new byte. Edits of the header change the manifest, and its digest follows.
func FuzzForged(f *testing.F) {
	sealers := []*sealer{newSealer(f, file(f, small(f))), newSealer(f, file(f, tinyModel(f)))}
	f.Add([]byte{0, 0, 16, 0, 1})
	f.Add([]byte{1, 0, 16, 0, 255, 1, 0, 1, 0, '9'})
	for i, s := range sealers {
		for _, p := range s.tensors {
			f.Add(binary.BigEndian.AppendUint32([]byte{}, uint32(i)<<24|uint32(p.begin+1)))
		}
		for at := 8; at < s.tensors[0].begin; at += 700 {
			f.Add(append(binary.BigEndian.AppendUint32([]byte{}, uint32(i)<<24|uint32(at)), '7'))
		}
	}
	path := filepath.Join(f.TempDir(), "fuzzed")
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
			verifyBytes(t, path, s.sealManifest(b, s.tensors[0].begin, text))
		}
		verifyBytes(t, path, s.seal(b))
	})
}

// TestGarbage verifies prefixes and mixtures of good files, as the fuzz targets do.
func TestGarbage(t *testing.T) {
	good := read(t, file(t, tinyModel(t)))
	path := filepath.Join(t.TempDir(), "garbage")
	for _, b := range [][]byte{nil, make([]byte, 100), bytes.Repeat([]byte{0xff}, 4096), good[:100], append(bytes.Clone(good[:4000]), good...), bytes.Repeat([]byte("{"), 20000)} {
		verifyBytes(t, path, b)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
