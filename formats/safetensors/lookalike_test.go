package safetensors

import (
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestLookalikes: what is often met in the place of safetensors is called by its name.
func TestLookalikes(t *testing.T) {
	for text, want := range map[string]string{
		"<!DOCTYPE html><html><body>Not Found":     "a web page",
		"<html>\n<head><title>502 Bad Gateway":     "a web page",
		"GGUF\x03\x00\x00\x00\x01\x00\x00\x00\x00": "GGUF",
		"version https://git-lfs.github.com/sp":    "a Git LFS pointer",
		"PK\x03\x04\x14\x00\x08\x08\x08\x00":       "an archive of Python pickles",
		"\x80\x02}q\x00X\x05\x00\x00\x00weigh":     "a Python pickle",
	} {
		_, err := Parse(strings.NewReader(text), int64(len(text)))
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "but "+want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
