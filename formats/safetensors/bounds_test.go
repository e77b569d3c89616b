package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// parseText parses a header with the given amount of data.
func parseText(text string, data int) error {
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	b = append(b, make([]byte, data)...)
	_, err := Parse(bytes.NewReader(b), int64(len(b)))
	return err
}

// TestEveryKey: dtype, shape and data_offsets are required, even where a missing one would be harmless.
func TestEveryKey(t *testing.T) {
	for _, tensor := range []string{`"dtype":"U8","data_offsets":[0,1]`, `"shape":[0],"data_offsets":[0,0]`,
		`"dtype":"U8","shape":[1]`} {
		data := 1 - strings.Count(tensor, "[0,0]")
		if err := parseText(`{"a":{`+tensor+`}}`, data); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v", tensor, err)
		}
	}
	if err := parseText(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1); err != nil {
		t.Error(err)
	}
}

// TestMetadataBound: keys and values of the metadata share one limit.
func TestMetadataBound(t *testing.T) {
	half := strings.Repeat("x", MaxMetadata/2)
	for text, ok := range map[string]bool{
		fmt.Sprintf(`{"__metadata__":{"a":"%s","b":"%s"}}`, half[:len(half)-1], half[:len(half)-1]): true,
		fmt.Sprintf(`{"__metadata__":{"a":"%s","b":"%s"}}`, half, half):                             false,
		fmt.Sprintf(`{"__metadata__":{"a%s":"","b%s":""}}`, half, half):                             false,
	} {
		if err := parseText(text, 0); (err == nil) != ok || err != nil && !errors.Is(err, pack.ErrLimit) {
			t.Errorf("%.30q: %v", text, err)
		}
	}
}

// TestStrings: forbidden characters and length limits of strings.
func TestStrings(t *testing.T) {
	const tensor = `{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`
	name := strings.Repeat("n", MaxName)
	for text, want := range map[string]error{
		`{"` + name + `":` + tensor + `}`:    nil,
		`{"` + name + `n":` + tensor + `}`:   pack.ErrLimit,
		`{"a\u0000":` + tensor + `}`:         pack.ErrCorrupt,
		`{"__metadata__":{"a":"\u0000"}}`:    pack.ErrCorrupt,
		`{"__metadata__":{"\u0000":"a"}}`:    pack.ErrCorrupt,
		`{"__metadata__":{"a":"1"}}  `:       nil,
		"{\"__metadata__\":{\"a\":\"1\"}}\n": pack.ErrCorrupt,
		` {"__metadata__":{"a":"1"}}`:        pack.ErrCorrupt,
	} {
		if err := parseText(text, 0); !errors.Is(err, want) {
			t.Errorf("%.40s: %v, want %v", text, err, want)
		}
	}
}

// broken fails to read the header.
type broken struct{ io.ReaderAt }

func (b broken) ReadAt(p []byte, at int64) (int, error) {
	if at >= prefixLen {
		return 0, io.ErrClosedPipe
	}
	return b.ReaderAt.ReadAt(p[:min(len(p), prefixLen)], at)
}

// TestReadError: a read error is not a verdict on the file.
func TestReadError(t *testing.T) {
	file := append(binary.LittleEndian.AppendUint64(nil, 40), make([]byte, 40)...)
	if _, err := Parse(broken{bytes.NewReader(file)}, 48); !errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, pack.ErrCorrupt) {
		t.Error(err)
	}
}

// TestShorter: a file that is cut to a part of its header between the look at its size and the read is corrupt, which
// gives the caller's message the name of the file.
func TestShorter(t *testing.T) {
	file := append(binary.LittleEndian.AppendUint64(nil, 40), make([]byte, 20)...)
	_, err := Parse(bytes.NewReader(file), 48)
	if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), "became shorter while it was read") {
		t.Error(err)
	}
}
