package packed

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/hostile"
	"github.com/lowpack/lowpack/pack"
)

// FuzzManifest: a manifest is rejected with an error of a known kind, or it is canonical, and the header of its frame
// reads back as the same tensors.
func FuzzManifest(f *testing.F) {
	for _, c := range hostile.In(hostile.Packed) {
		path, err := c.Build(f.TempDir())
		if err != nil {
			f.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		var header struct {
			Metadata map[string]string `json:"__metadata__"`
		}
		if n := binary.LittleEndian.Uint64(b); n > uint64(len(b)-8) || json.Unmarshal(b[8:8+n], &header) != nil {
			continue
		}
		f.Add([]byte(header.Metadata[ManifestKey]), uint64(0))
		f.Add([]byte(header.Metadata[ManifestKey]), uint64(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		m, err := ParseManifest(hostile.Mutate(seed, text, `"shape":`, `"lowpack/config.json"`, `"group"`, `"row"`,
			`"params":{"bm":64}`))
		if err == nil {
			err = m.check()
		}
		var frame *frame
		if err == nil {
			frame, err = newFrame(m, 64)
		}
		if err != nil {
			if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) &&
				!errors.Is(err, pack.ErrLimit) {
				t.Errorf("an error of no class: %v", err)
			}
			return
		}
		head, err := frame.header(m)
		if err != nil {
			return // rejected by the frame
		}
		h, err := safetensors.Parse(bytes.NewReader(head), int64(len(head))+frame.dataSize())
		if err != nil && !errors.Is(err, pack.ErrLimit) {
			t.Fatalf("the header cannot be read: %v", err)
		}
		if err == nil && checkFrame(h.Tensors, frame.tensors) != nil {
			t.Fatal("the header reads as other tensors")
		}
	})
}
