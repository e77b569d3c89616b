package openvino

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// filesOf returns the files of a directory; changed replaces some of them.
func filesOf(dir string, changed map[string]string) tokenizer.Files {
	return func(name string) ([]byte, bool) {
		if text, ok := changed[name]; ok {
			return []byte(text), true
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		return text, err == nil
	}
}

// TestRefusedTokenizers: features without operators in openvino_tokenizers are refused by name.
func TestRefusedTokenizers(t *testing.T) {
	dir := shared.Testdata(t, "tiny-bitnet")
	text, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ key, value, want string }{
		"lower case": {"normalizer", `{"type":"Lowercase"}`, "Lowercase"},
		"two forms":  {"normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"NFKC"}]}`, "NFKC"},
		"a prefix": {"pre_tokenizer",
			`{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}`, "ByteLevel"},
		"white space": {"pre_tokenizer",
			`{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"ByteLevel","add_prefix_space":false}]}`,
			"WhitespaceSplit"},
		"one form": {"normalizer", `{"type":"NFC"}`, ""},
		"GPT-2": {"pre_tokenizer",
			`{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`, ""},
		"digits, one by one": {"pre_tokenizer",
			`{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false}]}`, ""},
	} {
		var file map[string]json.RawMessage
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		file[c.key] = json.RawMessage(c.value)
		changed, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = readVocabulary(filesOf(dir, map[string]string{"tokenizer.json": string(changed)}))
		if c.want == "" && err != nil ||
			c.want != "" && (!errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readVocabulary(func(string) ([]byte, bool) { return nil, false }); !errors.Is(err,
		pack.ErrUnsupported) {
		t.Errorf("no tokenizer: %v", err)
	}
}

// TestSpecials: the longer of two added tokens comes first in the pattern, and special characters are escaped.
func TestSpecials(t *testing.T) {
	v := &vocabulary{tokenizerJSON: tokenizerJSON{Added: []addedToken{{Content: "<|a"}, {Content: "<|a|>", Right: true},
		{Content: "é_1", Left: true}}}}
	if got, want := v.specials(), `(?:\s*)(é_1)|(\<\|a\|\>)(?:\s*)|(\<\|a)`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}
