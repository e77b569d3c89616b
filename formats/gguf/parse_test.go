package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// sample is a valid file with every kind of value and some tensor types.
func sample(t testing.TB) []byte {
	t.Helper()
	keys := []KV{
		{"general.architecture", TextValue("llama")}, {"general.alignment", U32Value(32)},
		{"u8", Value{Kind: U8, bits: 200}}, {"i8", Value{Kind: I8, bits: 0xff}}, {"u16", Value{Kind: U16, bits: 65535}},
		{"i16", Value{Kind: I16, bits: 0x8000}}, {"i32", Value{Kind: I32, bits: 0xfffffffe}}, {"f32", FloatValue(1.5)},
		{"bool", BoolValue(true)}, {"u64", Value{Kind: U64, bits: math.MaxUint64}},
		{"i64", Value{Kind: I64, bits: 1<<64 - 5}},
		{"f64", Value{Kind: F64Value, bits: math.Float64bits(0.1)}},
		{"texts", TextsValue([]string{"a", "", "ü"})}, {"ints", I32sValue([]int32{1, -2})},
		{"floats", FloatsValue([]float32{-0.5, 3})},
		{"bools", Value{Kind: Array, Elem: Bool, raw: []byte{0, 1}}}, {"empty", TextsValue(nil)},
	}
	ts := []TensorInfo{
		{Name: "token_embd.weight", Shape: []int64{3, 32}, Type: Q4_0}, {Name: "norm", Shape: []int64{5}, Type: F32},
		{Name: "codes", Shape: []int64{2, 256}, Type: TQ2_0}, {Name: "last", Shape: []int64{2, 1, 128}, Type: I2_S},
	}
	if err := Place(ts); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, keys, ts)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range ts {
		if err := w.Write(x.Name, bytes.Repeat([]byte{7}, int(x.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parse(file []byte) (*Header, error) { return Parse(bytes.NewReader(file), int64(len(file))) }

// TestSample writes a file, parses it and reads all its values.
func TestSample(t *testing.T) {
	file := sample(t)
	h, err := parse(file)
	if err != nil {
		t.Fatal(err)
	}
	ints := map[string]int64{"u8": 200, "i8": -1, "u16": 65535, "i16": -32768, "i32": -2, "i64": -5}
	for key, want := range ints {
		v, ok := h.Get(key)
		if n, isInt := v.Int(); !ok || !isInt || n != want {
			t.Errorf("%s: %d, %v; want %d", key, n, isInt, want)
		}
	}
	if v, _ := h.Get("u64"); func() bool { _, ok := v.Int(); return ok }() {
		t.Error("2⁶⁴−1 was taken for an int64")
	}
	for key, want := range map[string]float64{"f32": 1.5, "f64": 0.1, "u8": 200} {
		v, _ := h.Get(key)
		if f, ok := v.Float(); !ok || f != want {
			t.Errorf("%s: %v, %v", key, f, ok)
		}
	}
	get := func(key string) Value { v, _ := h.Get(key); return v }
	texts, _ := get("texts").Texts()
	numbers, _ := get("ints").Ints()
	floats, _ := get("floats").Floats()
	bools, _ := get("bools").Bools()
	flag, _ := get("bool").Bool()
	name, _ := get("general.architecture").Text()
	got := fmt.Sprint(texts, numbers, floats, bools, flag, " ", name, " ", get("texts").Len(), get("empty").Len(),
		get("bools").Len())
	if got != "[a  ü] [1 -2] [-0.5 3] [false true] true llama 3 0 2" {
		t.Error(got)
	}
	for _, bad := range []bool{is(get("texts").Ints()), is(get("ints").Texts()), is(get("u8").Bools()),
		is(get("bools").Ints()), is(get("f32").Int()), is(get("u8").Text())} {
		if bad {
			t.Error("a value of another kind was returned")
		}
	}
	var list []string
	for _, x := range h.Tensors {
		list = append(list, fmt.Sprint(x.Name, x.Shape, x.Type, x.Begin, x.Size, x.Weights()))
	}
	want := "token_embd.weight[3 32] Q4_0 0 54 96, norm[5] F32 64 20 5, codes[2 256] TQ2_0 96 132 512, last[2 1 128] " +
		"I2_S 256 96 256"
	if got := strings.Join(list, ", "); got != want || h.DataStart%32 != 0 {
		t.Errorf("%s, data at %d", got, h.DataStart)
	}
}

func is[T any](_ T, ok bool) bool { return ok }

// TestRealFile reads a file of llama.cpp.
func TestRealFile(t *testing.T) {
	file, err := os.ReadFile(shared.Path(t, "data/gguf/ggml-vocab-llama-spm.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := parse(file)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := h.Get("tokenizer.ggml.tokens")
	tokens, _ := v.Texts()
	if len(tokens) != 32000 || tokens[1] != "<s>" || tokens[31999] != "给" || len(h.Tensors) != 0 || h.Version != 3 {
		t.Errorf("%d tokens, %d tensors, version %d", len(tokens), len(h.Tensors), h.Version)
	}
}

// TestTruncated: a truncated file, or one with trailing bytes, is rejected; only the padding of the last tensor may be
// missing.
func TestTruncated(t *testing.T) {
	file := sample(t)
	for n := range file {
		if _, err := parse(file[:n]); !errors.Is(err, pack.ErrCorrupt) {
			t.Fatalf("%d of %d bytes: %v", n, len(file), err)
		}
	}
	if _, err := parse(append(file, 0)); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), "1 bytes follow") {
		t.Error(err)
	}
}

// edit overwrites bytes after a string in a file.
func edit(t *testing.T, file []byte, after string, skip int, with ...byte) []byte {
	t.Helper()
	at := bytes.Index(file, []byte(after))
	if at < 0 {
		t.Fatalf("no %q", after)
	}
	file = bytes.Clone(file)
	copy(file[at+len(after)+skip:], with)
	return file
}

// TestRefused: errors name what is wrong.
func TestRefused(t *testing.T) {
	file := sample(t)
	huge := []byte{255, 255, 255, 255, 255, 255, 255, 127}
	u32 := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	for name, c := range map[string]struct {
		file []byte
		want error
		says string
	}{
		"magic":               {edit(t, file, "GGUF", -4, 'G', 'G', 'M', 'L'), pack.ErrCorrupt, "begins with"},
		"version 1":           {edit(t, file, "GGUF", 0, 1), pack.ErrUnsupported, "version 1"},
		"version 4":           {edit(t, file, "GGUF", 0, 4), pack.ErrUnsupported, "version 4"},
		"big-endian":          {edit(t, file, "GGUF", 0, 0, 0, 0, 3), pack.ErrUnsupported, "big-endian"},
		"tensors":             {edit(t, file, "GGUF", 4, huge...), pack.ErrLimit, "tensors"},
		"keys":                {edit(t, file, "GGUF", 12, huge...), pack.ErrLimit, "keys"},
		"key length":          {edit(t, file, "u8", -10, huge...), pack.ErrLimit, "a key: "},
		"key twice":           {edit(t, file, "i8", -2, 'u', '8'), pack.ErrCorrupt, `key "u8" occurs twice`},
		"key not UTF-8":       {edit(t, file, "u8", -2, 0xff), pack.ErrCorrupt, "not UTF-8"},
		"kind":                {edit(t, file, "u8", 0, 13), pack.ErrCorrupt, "value type 13"},
		"bool":                {edit(t, file, "bool", 4, 2), pack.ErrCorrupt, "a bool is 2"},
		"bools":               {edit(t, file, "bools", 17, 9), pack.ErrCorrupt, "a bool is 9"},
		"array of arrays":     {edit(t, file, "texts", 4, 9), pack.ErrUnsupported, "array of arrays"},
		"array length":        {edit(t, file, "texts", 8, huge...), pack.ErrLimit, "elements"},
		"array past the end":  {edit(t, file, "texts", 8, 0, 0, 1), pack.ErrCorrupt, "ends before"},
		"string past the end": {edit(t, file, "general.architecture", 4, 0, 0, 1), pack.ErrCorrupt, "ends before"},
		"alignment":           {edit(t, file, "general.alignment", 4, 24), pack.ErrCorrupt, "power of two"},
		"alignment kind":      {edit(t, file, "general.alignment", 0, 5), pack.ErrCorrupt, "must be a u32"},
		"another alignment":   {edit(t, file, "general.alignment", 4, 64), pack.ErrCorrupt, `tensor "codes"`},
		"dimensions":          {edit(t, file, "norm", 0, 5), pack.ErrCorrupt, "5 dimensions"},
		"no dimension":        {edit(t, file, "norm", 0, 0), pack.ErrCorrupt, "0 dimensions"},
		"dimension 0":         {edit(t, file, "norm", 4, 0), pack.ErrCorrupt, "dimension 0"},
		"dimension":           {edit(t, file, "norm", 4, huge...), pack.ErrCorrupt, "dimension 9223"},
		"overflow": {edit(t, file, "last", 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1), pack.ErrCorrupt,
			"overflows"},
		"type": {edit(t, file, "norm", 12, u32(77)...), pack.ErrUnsupported, "tensor type 77"},
		"internal type": {edit(t, file, "norm", 12, u32(uint32(Q2_0G128))...), pack.ErrUnsupported,
			"tensor type 1042"},
		"removed type": {edit(t, file, "norm", 12, u32(31)...), pack.ErrUnsupported, "llama.cpp removed"},
		"TL1":          {edit(t, file, "norm", 12, u32(38)...), pack.ErrUnsupported, "TL1 of bitnet.cpp"},
		"TL2":          {edit(t, file, "codes", 20, u32(39)...), pack.ErrUnsupported, "TL2 of bitnet.cpp"},
		"blocks":       {edit(t, file, "codes", 4, 255, 0), pack.ErrCorrupt, "blocks of 256"},
		"offset":       {edit(t, file, "norm", 16, 65), pack.ErrCorrupt, "begins at byte 65"},
		"negative offset": {edit(t, file, "norm", 16, 255, 255, 255, 255, 255, 255, 255, 255),
			pack.ErrCorrupt, "offset"},
		"name twice": {edit(t, edit(t, file, "last", -4, 'n', 'o', 'r', 'm'), "codes", 0), pack.ErrCorrupt,
			"occurs twice"},
		"grown": {edit(t, file, "last", 16, 3), pack.ErrCorrupt, ""},
	} {
		_, err := parse(c.file)
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v, want %v that says %q", name, err, c.want, c.says)
		}
	}
}

// TestQ2: the two forms of type 42 are distinguished, in the middle of a file and at its end.
func TestQ2(t *testing.T) {
	for _, form := range []Type{Q2_0, Q2_0G128} {
		ts := []TensorInfo{{Name: "a", Shape: []int64{16, 512}, Type: form},
			{Name: "b", Shape: []int64{16, 512}, Type: form}}
		if err := Place(ts); err != nil {
			t.Fatal(err)
		}
		header, err := AppendHeader(nil, nil, ts)
		if err != nil {
			t.Fatal(err)
		}
		h, err := parse(append(header, make([]byte, ts[1].Begin+ts[1].Size)...))
		if err != nil || h.Tensors[0].Type != form || h.Tensors[1].Type != form {
			t.Errorf("%s: %v %v", form, h, err)
		}
	}
	odd := []TensorInfo{{Name: "a", Shape: []int64{1, 128}, Type: Q2_0G128}} // padded, both forms have the same size
	if err := Place(odd); err != nil {
		t.Fatal(err)
	}
	if _, err := AppendHeader(nil, nil, odd); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("what would be read as the other form was written: %v", err)
	}
}

// TestVersion2: version 2 parses like version 3.
func TestVersion2(t *testing.T) {
	file := sample(t)
	three, err := parse(file)
	if err != nil {
		t.Fatal(err)
	}
	two, err := parse(edit(t, file, "GGUF", 0, 2))
	if err != nil || two.Version != 2 || !reflect.DeepEqual(two.Tensors, three.Tensors) ||
		!reflect.DeepEqual(two.Keys, three.Keys) {
		t.Error(two, err)
	}
}

// TestMemory: sizes claimed by a header allocate nothing before the bytes arrive.
func TestMemory(t *testing.T) {
	file := []byte("GGUF\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
		"k\x09\x00\x00\x00\x08\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := parse(file)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, pack.ErrCorrupt) || used > 1<<20 {
		t.Errorf("%v, %d bytes", err, used)
	}
}

// TestWriter: pieces out of order, excess bytes and missing bytes are errors.
func TestWriter(t *testing.T) {
	ts := []TensorInfo{{Name: "a", Shape: []int64{2}, Type: F32}, {Name: "b", Shape: []int64{1}, Type: F32}}
	if err := Place(ts); err != nil {
		t.Fatal(err)
	}
	fresh := func() *Writer {
		w, err := NewWriter(&bytes.Buffer{}, nil, ts)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := fresh()
	if w.Write("b", nil) == nil || fresh().Write("a", make([]byte, 9)) == nil || w.Close() == nil {
		t.Error("accepted")
	}
	for _, name := range []string{"a", "a", "b"} {
		if err := w.Write(name, make([]byte, 4)); err != nil {
			t.Error(err)
		}
	}
	if err := w.Close(); err != nil || w.Write("b", nil) == nil {
		t.Error(err)
	}
	for _, bad := range [][]TensorInfo{{{Name: "a", Type: F32}}, {{Name: "a", Shape: []int64{31}, Type: Q4_0}},
		{{Name: "a", Shape: []int64{1}, Type: 99}}} {
		if Place(bad) == nil {
			t.Errorf("%v was placed", bad)
		}
	}
	if _, err := AppendHeader(nil, []KV{{"k", U32Value(1)}, {"k", U32Value(2)}}, nil); err == nil {
		t.Error("a key was written twice")
	}
}

// TestSplit: names of parts, and consistency of their headers.
func TestSplit(t *testing.T) {
	names, err := SplitNames("m-00001-of-00003.gguf")
	if err != nil || strings.Join(names, " ") != "m-00001-of-00003.gguf m-00002-of-00003.gguf m-00003-of-00003.gguf" {
		t.Error(names, err)
	}
	if names, err := SplitNames("m-1-of-3.gguf"); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
	for name, want := range map[string]error{"m-00002-of-00003.gguf": pack.ErrUnsupported,
		"m-00001-of-99999.gguf": pack.ErrLimit, "m-00001-of-00000.gguf": pack.ErrLimit} {
		if _, err := SplitNames(name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	part := func(no, count, tensors uint32) *Header {
		return &Header{Keys: []KV{{"split.no", U32Value(no)}, {"split.count", U32Value(count)},
			{"split.tensors.count", U32Value(tensors)}}, Tensors: make([]TensorInfo, 1)}
	}
	for _, c := range []struct {
		parts []*Header
		good  bool
	}{
		{[]*Header{{}}, true}, {[]*Header{part(0, 2, 2), part(1, 2, 2)}, true}, {[]*Header{part(0, 1, 1)}, true},
		{[]*Header{part(0, 2, 2)}, false}, {[]*Header{part(1, 2, 2), part(0, 2, 2)}, false},
		{[]*Header{part(0, 2, 3), part(1, 2, 3)}, false}, {[]*Header{{}, {}}, false},
	} {
		if err := CheckSplit(c.parts); (err == nil) != c.good || !c.good && !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%v: %v", c.parts, err)
		}
	}
}

// corpus returns the inputs of another project's fuzzer.
func corpus(t testing.TB) (files [][]byte) {
	names, err := filepath.Glob(filepath.Join(shared.Path(t, "data/hostile/gguf"), "*"))
	if err != nil || len(names) < 100 {
		t.Fatal(len(names), err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	return files
}

// TestCorpus: no input hangs or panics, and every error has a class.
func TestCorpus(t *testing.T) {
	refused := 0
	for _, file := range corpus(t) {
		if check(t, file) != nil {
			refused++
		}
	}
	if refused < 50 {
		t.Errorf("%d refused", refused)
	}
}

// check parses a file and, if it is accepted, writes it again with the same keys, tensors and data.
func check(t *testing.T, file []byte) error {
	h, err := parse(file)
	if err != nil {
		if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrLimit) && !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("an error of no kind: %v", err)
		}
		return err
	}
	for i, x := range h.Tensors {
		if end := h.DataStart + x.Begin + x.Size; x.Size < 1 || x.Begin < 0 || end > int64(len(file)) ||
			i > 0 && x.Begin < h.Tensors[i-1].Begin+h.Tensors[i-1].Size {
			t.Fatalf("tensor %q: bytes %d to %d of %d", x.Name, x.Begin, end, len(file))
		}
	}
	if h.Alignment != defaultAlign {
		return nil // the writer supports the default alignment only
	}
	header, err := AppendHeader(nil, h.Keys, h.Tensors)
	if err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	if n := int64(len(header)); len(h.Tensors) > 0 && n != h.DataStart ||
		!bytes.Equal(header[8:min(n, h.DataStart)], file[8:min(n, h.DataStart)]) && allZero(file, h) {
		t.Fatal("written again, the header differs")
	}
	return nil
}

// allZero reports whether the padding before the data, which readers skip, is zero.
func allZero(file []byte, h *Header) bool {
	header, _ := AppendHeader(nil, h.Keys, h.Tensors)
	end := len(bytes.TrimRight(header, "\x00"))
	return end <= len(file) && len(bytes.Trim(file[min(end, int(h.DataStart)):h.DataStart], "\x00")) == 0
}

func FuzzParse(f *testing.F) {
	f.Add(sample(f))
	f.Fuzz(func(t *testing.T, file []byte) { check(t, file) })
}
