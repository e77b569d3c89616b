package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lowpack/lowpack/pack"
)

// skip reads one value and demands that nothing follows.
func skip(text string) error {
	s := New(strings.NewReader(text))
	if err := s.Skip(100); err != nil {
		return err
	}
	return s.End(" \n")
}

func TestSkip(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `""`, `0`, `-0`, `1.5e+3`, `-12.25E-7`, `10`, `true`, `false`, `null`, " {\t\"a\" :\r\n[ 1 , {\"b\":null} ] } \n",
		`"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`, strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
	} {
		if err := skip(text); err != nil || !json.Valid([]byte(text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, says := range map[string]string{
		``: "ends", `{`: "ends", `[1`: "ends", `"a`: "ends", `"\u12`: "ends", `nul`: "value", `nulls`: "value", `NaN`: "value", `-Infinity`: "digits", `+1`: "value",
		`01`: "after the end", `1.`: "digits", `1e`: "digits", `.5`: "value", `-`: "digits", `[1,]`: "value", `{"a":1,}`: "'}'", `{a:1}`: `'a'`, `{"a" 1}`: "':'", `[1 2]`: "','",
		`{"a":1,"a":2}`: "twice", `{"a":1,"\u0061":2}`: "twice", `"\x"`: "escape", "\"\n\"": "control", "\"\xff\"": "UTF-8", `"\u0000"`: "NUL", `"\ud800"`: "lone", `"\ud800x"`: "lone",
		`"\udc00\ud800"`: "lone", `"\ud800\n"`: "lone", `{} {}`: "after the end", `"\u12g4"`: "escape", `}`: "value",
	} {
		err := skip(text)
		if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error that says %s", text, err, says)
		}
	}
	for _, text := range []string{
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), `"` + strings.Repeat("x", 101) + `"`, strings.Repeat("1", 65),
	} {
		if err := skip(text); !errors.Is(err, pack.ErrLimit) {
			t.Errorf("%.10q…: %v", text, err)
		}
	}
}

func TestUint(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7,": 7, " 9223372036854775807]": 1<<63 - 1} {
		if got, err := New(strings.NewReader(text)).Uint(); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "00", "01", "1.0", "1e3", "0e0", "9223372036854775808", "18446744073709551616", "x", `"1"`, "null"} {
		if got, err := New(strings.NewReader(text)).Uint(); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

// TestReadErrors passes on what the reader says, and reads the same in pieces of one byte.
func TestReadErrors(t *testing.T) {
	text := `{"a":[1,2.5,"\ud83d\ude00",null],"b":{"c":true}}`
	if err := New(iotest.OneByteReader(strings.NewReader(text))).Skip(10); err != nil {
		t.Error(err)
	}
	broken := errors.New("broken")
	for n := range text {
		r := io.MultiReader(strings.NewReader(text[:n]), iotest.ErrReader(broken))
		if err := New(r).Skip(10); !errors.Is(err, broken) || errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// FuzzSkip: what is accepted is JSON to the standard library too, and what it refuses is refused.
func FuzzSkip(f *testing.F) {
	for _, text := range []string{`{"a":[1,-2.5e3,"\ud83d\ude00\n",null],"b":{"c":true}}`, `[[],{},"",0]`, `"\u0000"`, `{"a":1,"a":2}`, `NaN`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := New(bytes.NewReader(text))
		err := s.Skip(1 << 20)
		if err == nil {
			err = s.End(" \t\r\n")
		}
		if err == nil && !json.Valid(text) {
			t.Errorf("%q is not JSON", text)
		}
		if err != nil && !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrLimit) {
			t.Errorf("an error of no kind: %v", err)
		}
	})
}
