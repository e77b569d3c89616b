package convert

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
)

// TestTextPart: of a model with images the text part is packed as the model of text alone is, a note says so, and
// tensors of the vision tower are left out; tensors of neither are refused.
func TestTextPart(t *testing.T) {
	path := mini(t, "llama-3.2-1b", nil)
	alone := newPlan(t, path, plain(packed.Recipe{}))
	addImages(t, path)
	p := newPlan(t, path, plain(packed.Recipe{}))
	if !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.HasPrefix(n, "the text part alone") }) ||
		!slices.ContainsFunc(p.Details, func(d string) bool { return strings.Contains(d, `"model.vision_model.a"`) }) {
		t.Errorf("notes %q, details %q", p.Notes, p.Details)
	}
	names := func(p *Plan) (list []string) {
		for _, r := range p.Tensors {
			list = append(list, strings.Replace(r.Tensor, "model.text_model.", "model.", 1))
		}
		return list
	}
	if got, want := names(p), names(alone); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	renameTensors(t, filepath.Join(path, "model.safetensors"), func(name string) string {
		return strings.Replace(name, "vision_model", "audio_model", 1)
	})
	if _, err := NewPlan(t.Context(), path, plain(packed.Recipe{})); err == nil ||
		!strings.Contains(err.Error(), `"model.audio_model.a" has no place`) {
		t.Errorf("a tensor of neither part: %v", err)
	}
}

// addImages makes a Llama the text part of a SmolVLM with one more tensor, of its vision tower.
func addImages(t *testing.T, path string) {
	t.Helper()
	file := filepath.Join(path, "config.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]any{}
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	text, err = json.Marshal(map[string]any{"architectures": []string{"SmolVLMForConditionalGeneration"},
		"model_type": "smolvlm", "tie_word_embeddings": keys["tie_word_embeddings"], "text_config": keys,
		"vision_config": map[string]any{}})
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	renameTensors(t, filepath.Join(path, "model.safetensors"), func(name string) string {
		return strings.Replace(name, "model.", "model.text_model.", 1)
	})
}

// renameTensors renames the tensors of a safetensors file, and adds model.vision_model.a if there is no such tensor.
func renameTensors(t *testing.T, file string, name func(string) string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := 8 + binary.LittleEndian.Uint64(data)
	old, renamed := map[string]any{}, map[string]any{}
	if err := json.Unmarshal(data[8:n], &old); err != nil {
		t.Fatal(err)
	}
	for from, tensor := range old {
		renamed[name(from)] = tensor
	}
	const tower = "model.vision_model.a"
	if data = data[n:]; old[tower] == nil {
		size := len(data)
		renamed[tower] = map[string]any{"dtype": "F32", "shape": []int{1}, "data_offsets": []int{size, size + 4}}
		data = append(data, 0, 0, 0, 0)
	}
	header, err := json.Marshal(renamed)
	if err != nil {
		t.Fatal(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	if err := os.WriteFile(file, slices.Concat(out, header, data), 0o644); err != nil {
		t.Fatal(err)
	}
}
