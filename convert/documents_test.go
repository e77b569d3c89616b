package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// TestCalibrationDocuments: the model sees the tokens of one document after another, those of a chat as its template
// renders it on any day; the digest of the recipe is that of the texts.
func TestCalibrationDocuments(t *testing.T) {
	source := mini(t, "llama-3.2-1b", nil)
	const template = `{{ strftime_now('%d %b %Y') }}:{% for m in messages %} {{ m.content }}{% endfor %}`
	if err := os.WriteFile(filepath.Join(source, "chat_template.jinja"), []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	o := plain(packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true})
	talk := []chat.Message{{Role: "user", Content: "Tell me a story."},
		{Role: "assistant", Content: "Once upon a time."}}
	o.Calibration = []Document{{Text: calibrationText}, {Messages: talk}}
	p := newPlan(t, source, o)
	tok, err := tokenizer.Load(p.source.File)
	if err != nil {
		t.Fatal(err)
	}
	const text = "01 Jan 2025: Tell me a story. Once upon a time."
	all, err := p.tokens(tok)
	plain, failed := tok.Encode(calibrationText, false)
	chats, wrong := tok.Encode(text, false)
	if err = errors.Join(err, failed, wrong); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(all.ids, slices.Concat(plain, chats)) {
		t.Errorf("%d tokens; want %d and %d", len(all.ids), len(plain), len(chats))
	}
	sum := sha256.Sum256([]byte(calibrationText + "\x00" + text))
	if want := hex.EncodeToString(sum[:]); all.digest != want || p.Recipe.Calibration.Text != want {
		t.Errorf("digest %s, in the recipe %s; want %s", all.digest, p.Recipe.Calibration.Text, want)
	}
}

// TestCalibrationDocumentsRefused: an error names the document.
func TestCalibrationDocumentsRefused(t *testing.T) {
	source := mini(t, "llama-3.2-1b", nil)
	if err := os.Remove(filepath.Join(source, "tokenizer_config.json")); err != nil {
		t.Fatal(err)
	}
	for says, d := range map[string]Document{
		"t.txt: unsupported: it is not UTF-8": {Text: "\xff", Origin: "t.txt"},
		"t.jsonl, line 3: unsupported: the model has no chat template": {
			Messages: []chat.Message{{}}, Origin: "t.jsonl, line 3"},
	} {
		o := plain(packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true})
		o.Calibration = []Document{{Text: calibrationText}, d}
		p, err := NewPlan(t.Context(), source, o)
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
	}
}
