package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// packedOf converts a checkpoint.
func packedOf(t *testing.T, checkpoint string, r packed.Recipe) string {
	t.Helper()
	r.Golden = "none"
	return tinymodel.Converted(t, checkpoint, r)
}

// exported writes a GGUF and verifies it.
func exported(t *testing.T, source string) (string, *Summary) {
	t.Helper()
	target := filepath.Join(t.TempDir(), "m.gguf")
	s, err := GGUF(t.Context(), source, target, GGUFOptions{Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyGGUF(t.Context(), target, source); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(target); err != nil || info.Size() != s.Bytes {
		t.Errorf("%v: the summary says %d bytes", info, s.Bytes)
	}
	return target, s
}

func headerOf(t *testing.T, path string) *gguf.Header {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := gguf.Parse(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// same demands equal codes and scales of every entry.
func same(t *testing.T, a, b string) {
	t.Helper()
	sameRounded(t, a, b, func(scale float32) float32 { return scale })
}

// sameValues reports whether codes that were found in floats are the same in an alphabet of more of them, as blocks of
// GGUF have.
func sameValues(t *testing.T, x, y packed.View, e, o *packed.Entry) bool {
	t.Helper()
	if !strings.HasSuffix(e.Quantizer, "-values") || len(e.Shape) != 2 || e.Layout.Alphabet == o.Layout.Alphabet {
		return false
	}
	a, err1 := packed.Codes(x, e, 0)
	b, err2 := packed.Codes(y, o, 0)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return slices.Equal(a.Codes, b.Codes)
}

// sameRounded is same, with the scales of b being the rounded scales of a.
func sameRounded(t *testing.T, a, b string, round func(scale float32) float32) {
	t.Helper()
	x, err := packed.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := packed.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if n := len(x.Manifest().Packed); n == 0 || n != len(y.Manifest().Packed) {
		t.Fatalf("%d and %d entries", n, len(y.Manifest().Packed))
	}
	for i := range x.Manifest().Packed {
		e := &x.Manifest().Packed[i]
		o, ok := y.Manifest().Entry(e.Name)
		if !ok || o.CodesSHA != e.CodesSHA && !sameValues(t, x, y, e, o) {
			t.Fatalf("%s: other codes", e.Name)
		}
		s, err1 := packed.Scales(x, e)
		u, err2 := packed.Scales(y, o)
		for i := range s {
			s[i] = round(s[i])
		}
		if err := errors.Join(err1, err2); err != nil || !slices.Equal(s, u) {
			t.Fatalf("%s: scales %v and %v, %v", e.Name, s[:1], u[:1], err)
		}
		m, err1 := packed.Minima(x, e)
		n, err2 := packed.Minima(y, o)
		if err := errors.Join(err1, err2); err != nil || !slices.Equal(m, n) {
			t.Fatalf("%s: %d and %d minima, not the same, %v", e.Name, len(m), len(n), err)
		}
	}
}

// TestRoundTrip: an export to GGUF and the conversion of it give the same codes and scales, with scales in separate
// tensors; matrices whose rows no block type divides are stored as ±1 in F16.
func TestRoundTrip(t *testing.T) {
	source := packedOf(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{})
	path, s := exported(t, source)
	same(t, source, packedOf(t, path, packed.Recipe{}))
	types := map[string]string{}
	for _, x := range headerOf(t, path).Tensors {
		types[x.Name] = x.Type.String()
	}
	for name, want := range map[string]string{
		"blk.0.attn_q.weight":   "TQ2_0",
		"blk.0.attn_q.scale":    "F32",
		"blk.5.ffn_down.weight": "F16",
		"blk.5.ffn_down.scale":  "F32",
		"token_embd.weight":     "BF16", "blk.3.attn_sub_norm.weight": "F32", "output_norm.weight": "F32",
	} {
		if types[name] != want {
			t.Errorf("%s: %q, want %s", name, types[name], want)
		}
	}
	if len(types) != s.Tensors || len(s.Notes) != 1 {
		t.Errorf("%d tensors, %d in the summary, notes %q", len(types), s.Tensors, s.Notes)
	}
	again, _ := exported(t, source)
	one, err1 := os.ReadFile(path)
	two, err2 := os.ReadFile(again)
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(one, two) {
		t.Errorf("the same file gave other bytes: %v", err)
	}
}

// TestForms: other codes and scales are also stored exactly.
func TestForms(t *testing.T) {
	dir := exports.Small(t)
	for name, c := range map[string]struct {
		recipe packed.Recipe
		want   string // type of an attention matrix
	}{
		"int8 per row":          {packed.Recipe{Quant: "int8", Layout: "vnni4", AllowLossy: true}, "F32"},
		"int4 in groups":        {packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true}, "Q4_0"},
		"int8 in groups":        {packed.Recipe{Quant: "int8", Scale: "group:64", AllowLossy: true}, "Q8_0"},
		"MXFP4":                 {packed.Recipe{Quant: "mxfp4", AllowLossy: true}, "MXFP4"},
		"signs":                 {packed.Recipe{Quant: "sign", Scale: "tensor", AllowLossy: true}, "Q1_0"},
		"ternary in TL, padded": {packed.Recipe{Layout: "tl2"}, "TQ2_0"},
	} {
		path, s := exported(t, packedOf(t, dir, c.recipe))
		larger := slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, "holds floats where") })
		if larger != (c.want == "F32") {
			t.Errorf("%s: notes %q", name, s.Notes)
		}
		for _, x := range headerOf(t, path).Tensors {
			if x.Name == "blk.1.attn_output.weight" && x.Type.String() != c.want {
				t.Errorf("%s: %s, want %s", name, x.Type, c.want)
			}
		}
	}
}

// TestRefused: models that llama.cpp would compute differently, or cannot represent, are refused.
func TestRefused(t *testing.T) {
	dir := shared.Testdata(t, "tiny-bitnet")
	target := filepath.Join(t.TempDir(), "m.gguf")
	if _, err := GGUF(t.Context(), packedOf(t, dir, packed.Recipe{}), target,
		GGUFOptions{}); !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "squared ReLU") {
		t.Errorf("%v", err)
	}
	if _, err := GGUF(t.Context(), packedOf(t, dir, packed.Recipe{Head: "int8"}), target,
		GGUFOptions{Force: true}); !errors.Is(err, pack.ErrUnsupported) ||
		!strings.Contains(err.Error(), "output head") {
		t.Errorf("%v", err)
	}
	planned := false
	if _, err := GGUF(t.Context(), packedOf(t, dir, packed.Recipe{}), target, GGUFOptions{Force: true,
		Planned: func(told Told) {
			_, err := os.Stat(target)
			planned = len(told.Notes) == 1 && err != nil
		}}); err != nil || !planned {
		t.Errorf("%v; told before the file was there: %v", err, planned)
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := GGUF(ctx, packedOf(t, dir, packed.Recipe{}), target, GGUFOptions{Force: true}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("a file was left")
	}
}

// TestDamage: a flipped bit in any tensor of a GGUF is detected: one in each tensor of the first layer and outside of
// the layers, with LOWPACK_LONG in all tensors.
func TestDamage(t *testing.T) {
	source := packedOf(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{})
	path, _ := exported(t, source)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := headerOf(t, path)
	for i := range h.Tensors {
		x := &h.Tensors[i]
		if !long.All && strings.HasPrefix(x.Name, "blk.") && !strings.HasPrefix(x.Name, "blk.0.") {
			continue
		}
		bad := bytes.Clone(good)
		bad[h.DataStart+x.Begin+x.Size/2] ^= 0x10
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := VerifyGGUF(t.Context(), path, source); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v", x.Name, err)
		}
	}
}

// TestPlainTypes: a passthrough tensor that no GGUF holds is an error, whatever its bytes are.
func TestPlainTypes(t *testing.T) {
	path, _ := exported(t, packedOf(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{}))
	for name, x := range map[string]string{
		"a type of one byte": `{"model.norm.weight":{"dtype":"U8","shape":[256],"data_offsets":[0,256]}}`,
		"no dimension":       `{"model.norm.weight":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`,
	} {
		size := 4
		if strings.Contains(x, "256") {
			size = 256
		}
		file := filepath.Join(t.TempDir(), "x.safetensors")
		data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(x))), x...)
		if err := os.WriteFile(file, append(data, make([]byte, size)...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := VerifyGGUF(t.Context(), path, packedOf(t, file, packed.Recipe{})); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
