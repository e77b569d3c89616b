package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// parseText parses a header with so many bytes of data.
func parseText(text string, data int) error {
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	b = append(b, make([]byte, data)...)
	_, err := Parse(bytes.NewReader(b), int64(len(b)))
	return err
}

// TestEveryKey: dtype, shape and data_offsets are all there, also where a missing one would do no harm.
func TestEveryKey(t *testing.T) {
	for _, tensor := range []string{`"dtype":"U8","data_offsets":[0,1]`, `"shape":[0],"data_offsets":[0,0]`, `"dtype":"U8","shape":[1]`} {
		data := 1 - strings.Count(tensor, "[0,0]")
		if err := parseText(`{"a":{`+tensor+`}}`, data); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v", tensor, err)
		}
	}
	if err := parseText(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1); err != nil {
		t.Error(err)
	}
}

// TestMetadataBound: keys and values of the metadata count together.
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
