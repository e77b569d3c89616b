package verify

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// TestCodesDigest: a wrong digest of codes is reported (F12), although every other digest matches.
func TestCodesDigest(t *testing.T) {
	path := file(t, small(t))
	s := newSealer(t, path)
	e := &s.parsed.Packed[1]
	other := strings.Repeat("5", len(e.CodesSHA))
	text := bytes.ReplaceAll(s.text, []byte(e.CodesSHA), []byte(other))
	write(t, path, s.sealManifest(bytes.Clone(s.good), 8+int(binary.LittleEndian.Uint64(s.good)), text))
	bad := failed(run(t, path, Options{Level: Codes}))
	if len(bad) != 1 || bad[0].Rule != "F12" || bad[0].Name != e.Name+".packed" {
		t.Errorf("%v", bad)
	}
}

// TestMisses: a weight may lie 0.501 scales from its code (F21), on either side, and no further.
func TestMisses(t *testing.T) {
	for _, c := range []struct {
		w    float32
		code int8
		want int
	}{{10.5, 5, 1}, {2 * 5.5, 5, 1}, {2 * 4.5, 5, 1}, {2 * 5.502, 5, 0}, {2 * 4.498, 5, 0}, {-2 * 5.502, -5, 0},
		{-11, -5, 1}} {
		if got := misses([]float32{c.w}, []int8{c.code}, 2); got != c.want {
			t.Errorf("weight %v, code %d, scale 2: %d", c.w, c.code, got)
		}
	}
	for w, want := range map[float32]int{0: 1, 1e-36: 1, 2e-36: 0, -2e-36: 0} {
		if got := misses([]float32{w}, []int8{0}, 0); got != want {
			t.Errorf("weight %v without a scale: %d", w, got)
		}
	}
	if misses([]float32{0}, []int8{1}, 0) != 0 {
		t.Error("a code without a scale")
	}
}
