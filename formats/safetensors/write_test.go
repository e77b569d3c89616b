package safetensors

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestCanonicalHeader compares a header byte for byte.
func TestCanonicalHeader(t *testing.T) {
	ts := []TensorInfo{{Name: `w"\` + "\n\x01é", DType: U8, Shape: []int64{64}},
		{Name: "s", DType: F32, Shape: []int64{2, 1}}, {Name: "z", DType: F16, Shape: []int64{}}}
	if err := Place(ts); err != nil {
		t.Fatal(err)
	}
	got, err := AppendHeader([]byte("kept"), []KV{{"format", "lowpack"}, {"a", `{"x":1}`}}, ts, 64)
	if err != nil {
		t.Fatal(err)
	}
	json := `{"__metadata__":{"format":"lowpack","a":"{\"x\":1}"},"w\"\\\n\u0001é":{"dtype":"U8","shape":[64],` +
		`"data_offsets":[0,64]},` +
		`"s":{"dtype":"F32","shape":[2,1],"data_offsets":[64,72]},"z":{"dtype":"F16","shape":[],"data_offsets":[72,74]}}`
	n := (8+len(json)+63)/64*64 - 8
	want := "kept" + string([]byte{byte(n), byte(n >> 8), 0, 0, 0, 0, 0, 0}) + json + strings.Repeat(" ", n-len(json))
	if string(got) != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestHeaderRoundTrip parses a written header and writes it again.
func TestHeaderRoundTrip(t *testing.T) {
	meta := []KV{{"format", "lowpack"}, {"lowpack.manifest", strings.Repeat("m", 3<<20)}, {"\u2028 <&>", "\x7f"}}
	ts := []TensorInfo{{Name: "b", DType: BF16, Shape: []int64{3, 5}}, {Name: "a", DType: I8, Shape: []int64{0}},
		{Name: "c", DType: I8, Shape: []int64{7}}}
	if err := Place(ts); err != nil {
		t.Fatal(err)
	}
	first, err := AppendHeader(nil, meta, ts, 64)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Parse(bytes.NewReader(first), int64(len(first))+37)
	if err != nil {
		t.Fatal(err)
	}
	second, err := AppendHeader(nil, h.Metadata, h.Tensors, 64)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("%v; %d and %d bytes", err, len(first), len(second))
	}
	if m, ok := h.Meta("lowpack.manifest"); !ok || len(m) != 3<<20 {
		t.Errorf("metadata of %d bytes, %v", len(m), ok)
	}
	if _, ok := h.Meta("none"); ok {
		t.Error("a key that is not there was found")
	}
}

// TestWriterRefuses: headers that readers would reject are errors.
func TestWriterRefuses(t *testing.T) {
	ok := TensorInfo{Name: "a", DType: U8, Shape: []int64{4}, Begin: 0, End: 4}
	next := TensorInfo{Name: "b", DType: U8, Shape: []int64{4}, Begin: 4, End: 8}
	with := func(edit func(t *TensorInfo)) []TensorInfo {
		t := ok
		edit(&t)
		return []TensorInfo{t}
	}
	for name, ts := range map[string][]TensorInfo{
		"repeated name": {ok, {Name: "a", DType: U8, Shape: []int64{4}, Begin: 4, End: 8}},
		"hole":          {ok, {Name: "b", DType: U8, Shape: []int64{4}, Begin: 5, End: 9}},
		"wrong order":   {next, ok},
		"wrong size":    with(func(t *TensorInfo) { t.End = 5 }),
		"bad UTF-8":     with(func(t *TensorInfo) { t.Name = "\xff" }),
		"NUL":           with(func(t *TensorInfo) { t.Name = "a\x00" }),
		"empty name":    with(func(t *TensorInfo) { t.Name = "" }),
		"long name":     with(func(t *TensorInfo) { t.Name = strings.Repeat("n", MaxName+1) }),
		"unknown dtype": with(func(t *TensorInfo) { t.DType = "F2" }),
		"metadata name": with(func(t *TensorInfo) { t.Name = "__metadata__" }),
	} {
		if _, err := AppendHeader(nil, nil, ts, 8); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := AppendHeader(nil, []KV{{"k", "1"}, {"k", "2"}}, nil, 8); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("repeated metadata key: %v", err)
	}
	err := Place([]TensorInfo{{Name: "a", DType: F32, Shape: []int64{1 << 40, 1 << 40}}})
	if !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("overflow: %v", err)
	}
}

// TestWriter writes a file in pieces; an incomplete tensor, excess bytes and the wrong order are errors.
func TestWriter(t *testing.T) {
	ts := []TensorInfo{{Name: "x", DType: I8, Shape: []int64{3}}, {Name: "e", DType: F32, Shape: []int64{0}},
		{Name: "y", DType: F32, Shape: []int64{1}}}
	Order(ts)
	if err := Place(ts); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, nil, ts, 8)
	if err != nil {
		t.Fatal(err)
	}
	if w.Write("x", []byte{1}) == nil {
		t.Error("x was written before y was complete")
	}
	for _, step := range []struct{ name, data string }{{"y", "ab"}, {"y", "cd"}, {"x", "1"}} {
		if err := w.Write(step.name, []byte(step.data)); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() == nil {
		t.Error("an unfinished tensor was accepted")
	}
	if w.Write("x", []byte("234")) == nil {
		t.Error("more bytes than the tensor has were accepted")
	}
	if err := w.Write("x", []byte("23")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := Parse(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if got := table(h); len(got) != 3 || got[0] != "e F32 [0] [0, 0)" || got[1] != "y F32 [1] [0, 4)" ||
		got[2] != "x I8 [3] [4, 7)" {
		t.Errorf("%v", got)
	}
	if data := b.Bytes()[h.DataStart:]; string(data) != "abcd123" || h.DataStart%8 != 0 {
		t.Errorf("data %q at %d", data, h.DataStart)
	}
}
