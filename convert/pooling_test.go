package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/internal/testkit/sentence"
)

// manifestsOf converts a checkpoint, repacks the file, and unpacks and converts it again, and returns the three
// manifests.
func manifestsOf(t *testing.T, dir string) map[string]*packed.Manifest {
	t.Helper()
	path := converted(t, dir, packed.Recipe{Quant: "none", Golden: "none"})
	repacked, unpacked := filepath.Join(t.TempDir(), "repacked.safetensors"), filepath.Join(t.TempDir(), "unpacked")
	if _, err := Repack(t.Context(), path, repacked, RepackOptions{Layout: "vnni4i"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(t.Context(), path, unpacked, UnpackOptions{Form: FormBF16}); err != nil {
		t.Fatal(err)
	}
	again := converted(t, unpacked, packed.Recipe{Quant: "none", Golden: "none"})
	all := map[string]*packed.Manifest{}
	for name, file := range map[string]string{"converted": path, "repacked": repacked, "unpacked": again} {
		f, err := packed.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		all[name] = f.Manifest()
	}
	return all
}

// TestPooling: the manifest has the pooling that a checkpoint declares, repack and unpack keep it, and prompts are
// noted.
func TestPooling(t *testing.T) {
	want := pooling.Pooling{Mode: pooling.LastToken, Normalize: true, MaxTokens: 512}
	dir := mini(t, "qwen3-0.6b", nil)
	if p := convertTo(t, dir, plain(packed.Recipe{Quant: "none"})).Manifest().Pooling; p != nil {
		t.Fatalf("without modules.json: %v", p)
	}
	sentence.Pool(t, dir, want)
	if err := os.WriteFile(filepath.Join(dir, "config_sentence_transformers.json"),
		[]byte(`{"prompts": {"query": "Instruct: "}, "default_prompt_name": "query"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(t.Context(), dir, plain(packed.Recipe{Quant: "none"}))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, `names prompts (query), and "query"`) {
		t.Errorf("notes: %s", notes)
	}
	for name, m := range manifestsOf(t, dir) {
		if got := m.Pooling; got == nil || *got != want {
			t.Errorf("%s: pooling %v", name, got)
		}
		for _, s := range m.Plain {
			if strings.Contains(s.Name, "modules") || strings.Contains(s.Name, "Pooling") {
				t.Errorf("%s: %s is embedded", name, s.Name)
			}
		}
	}
}

// TestScoring: the manifest has the scores that a checkpoint declares, and repack and unpack keep them.
func TestScoring(t *testing.T) {
	want := scoring.Scoring{True: 5, False: 7, Activation: scoring.Identity, Format: scoring.Flat, Generation: true,
		Prompt: "Which?", MaxTokens: 512}
	dir := mini(t, "qwen3-0.6b", nil)
	sentence.Score(t, dir, want)
	for name, m := range manifestsOf(t, dir) {
		if got := m.Scoring; got == nil || *got != want {
			t.Errorf("%s: scoring %v", name, got)
		}
	}
}

// TestPoolingRefused: a checkpoint with another module is not converted, and the error says what to do.
func TestPoolingRefused(t *testing.T) {
	dir := mini(t, "qwen3-0.6b", nil)
	sentence.Pool(t, dir, pooling.Pooling{Mode: pooling.Mean})
	config := `{"word_embedding_dimension": 7, "pooling_mode_mean_tokens": true}`
	if err := os.WriteFile(filepath.Join(dir, "1_Pooling", "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := NewPlan(t.Context(), dir, plain(packed.Recipe{Quant: "none"}))
	if err == nil || !strings.Contains(err.Error(), "1_Pooling/config.json") ||
		!strings.Contains(err.Error(), "word_embedding_dimension") ||
		!strings.Contains(err.Error(), "remove modules.json") {
		t.Error(err)
	}
}
