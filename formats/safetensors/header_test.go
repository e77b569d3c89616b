package safetensors

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// stricter lists the test vectors that the reference reader accepts and this one rejects, with the error class.
var stricter = map[string]error{
	"leading_whitespace": pack.ErrCorrupt,     // the format demands '{' first
	"duplicate_key":      pack.ErrCorrupt,     // the format forbids it
	"f4_even":            pack.ErrUnsupported, // types of less than a byte
}

func TestVectors(t *testing.T) {
	var file struct {
		Cases []struct {
			Name    string `json:"name"`
			FileHex string `json:"file_hex"`
			Valid   bool   `json:"valid"`
		}
	}
	text, err := os.ReadFile(shared.Testdata(t, "vectors/safetensors_validation.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 28 {
		t.Fatalf("%d cases, want 28", len(file.Cases))
	}
	for _, c := range file.Cases {
		b, err := hex.DecodeString(c.FileHex)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(bytes.NewReader(b), int64(len(b)))
		if want, ok := stricter[c.Name]; ok {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", c.Name, err, want)
			}
			continue
		}
		if (err == nil) != c.Valid {
			t.Errorf("%s: %v, want valid = %v", c.Name, err, c.Valid)
		}
	}
}

// TestForeign: the errors for common other formats name the format and the remedy.
func TestForeign(t *testing.T) {
	for start, word := range map[string]string{
		"GGUF\x03\x00\x00\x00":                       "GGUF",
		"version https://git-lfs.github.com/spec/v1": "git lfs pull",
		"<!DOCTYPE html>":                            "an HTML page",
		"{\"weight_map\":":                           "JSON text",
		"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46":           "pickles",
	} {
		b := append([]byte(start), make([]byte, 64)...)
		if _, err := Parse(bytes.NewReader(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v", start, err)
		}
	}
}
