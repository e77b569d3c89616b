package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/lowpack/lowpack/formats/safetensors"
)

// evil is a name that clears the screen, rings the bell, and begins a forged line.
const evil = "w\x1b[2J\x07\u009b31m\nPASS"

// hostileFile is a bare safetensors file with control characters in its name and its tensor's name.
func hostileFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m\x1b[1m\n.safetensors")
	err := writeOnly(path, safetensors.TensorInfo{Name: evil, DType: safetensors.F32, Shape: []int64{4, 4}},
		make([]byte, 64))
	if errors.Is(err, os.ErrInvalid) {
		t.Skip("no such names here")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestControlCharacters: no command sends a control character of a name to a terminal, or lets it begin a line.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	in := hostileFile(t)
	packed := filepath.Join(filepath.Dir(in), "p\x1b.safetensors")
	for _, args := range [][]string{
		{"inspect", in, "--tensors"},
		{"inspect", in, "--json"},
		{"convert", in, "--dry-run", "--quant", "int8", "--allow-lossy"},
		{"convert", in, "--quant", "int8", "--allow-lossy", "-o", packed},
		{"convert", in, "--quant", "int8", "-o", packed},
		{"convert", in, "--json", "--quant", "int8", "--allow-lossy", "-o", packed},
		{"inspect", packed, "--tensors"},
		{"inspect", packed, "--json"},
		{"verify", packed},
		{"verify", packed, "--json"},
		{"verify", in},
		{"run", packed, "-p", "x"},
		{"eval", packed, "--text", in},
		{"tokenize", packed, "-p", "x"},
		{"bench", packed},
		{"unpack", packed, "-o", packed + ".dir"},
		{"repack", packed, "--layout", "i2s", "-o", packed + "2"},
		{"\x1b[2J"},
		{"run", "--\x1b[2J"},
		{"convert", in, "--layout", "\x1b[2J"},
	} {
		o := command(t, args...)
		if at := strings.IndexFunc(o.out, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); at >= 0 {
			t.Errorf("%q: control character at %d of\n%q", args, at, o.out)
		}
		for _, line := range strings.Split(o.out, "\n") {
			verdict, path, _ := strings.Cut(line, "  ")
			if strings.HasPrefix(verdict, "PASS") && !strings.HasPrefix(path, filepath.Dir(in)) {
				t.Errorf("%q: a name begins a line of\n%s", args, o.out)
			}
		}
	}
}

// TestControlCharactersJSON: JSON output preserves the names.
func TestControlCharactersJSON(t *testing.T) {
	var out, notes bytes.Buffer
	if code := Main([]string{"lowpack", "inspect", "--json", hostileFile(t)}, nil, &out, &notes); code != 0 {
		t.Fatal(notes.String())
	}
	var v inspection
	if err := json.Unmarshal(out.Bytes(), &v); err != nil || len(v.Tensors) != 1 || v.Tensors[0].Name != evil {
		t.Errorf("%v: %+v", err, v)
	}
}

// TestScreenPieces: a character may arrive in pieces.
func TestScreenPieces(t *testing.T) {
	const text = "größer\u009b模型👩\x1b"
	for size := 1; size < len(text); size++ {
		var b bytes.Buffer
		s := newScreen(&b, "output")
		for from := 0; from < len(text); from += size {
			io.WriteString(s, text[from:min(from+size, len(text))])
		}
		if err := s.finish(); err != nil || b.String() != `größer\u009b模型👩\u001b` {
			t.Errorf("pieces of %d: %q, %v", size, b.String(), err)
		}
	}
}

// TestModelText: the model's text reaches a pipe byte for byte, and a terminal without control characters.
func TestModelText(t *testing.T) {
	const text = "a\x1b[31mb\tc\nd\u009be"
	model := "../../testdata/tiny-bitnet"
	var ids, out, notes bytes.Buffer
	if code := Main([]string{"lowpack", "tokenize", model, "-p", text}, nil, &ids, &notes); code != 0 {
		t.Fatal(notes.String())
	}
	decode := []string{"lowpack", "tokenize", model, "--decode", "-p", ids.String()}
	if code := Main(decode, nil, &out, &notes); code != 0 || out.String() != text {
		t.Errorf("exit code %d, %q %s", code, out.String(), notes.String())
	}
	terminal, shown := openTerminal(t)
	code := Main(decode, nil, terminal, &notes)
	terminal.Close()
	if got := strings.ReplaceAll(shown(), "\r\n", "\n"); code != 0 || got != `a\u001b[31mb`+"\tc\n"+`d\u009be` {
		t.Errorf("exit code %d, %q %s", code, got, notes.String())
	}
}
