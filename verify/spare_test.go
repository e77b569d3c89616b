package verify

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestSpareTensors: the layers of multi-token prediction are left out, with a word, and are not missed; those behind
// them are.
func TestSpareTensors(t *testing.T) {
	const layer, behind = "model.layers.2.eh_proj.weight", "model.layers.3.eh_proj.weight" // of two
	dir := filepath.Join(t.TempDir(), "glm")
	o, err := synth.Find("glm-4.5")
	if err != nil {
		t.Fatal(err)
	}
	o.Mini = true
	ck, err := synth.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := ck.Write(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(dir, "model.safetensors")
	addTensor(t, weights, layer)
	plan, err := convert.NewPlan(t.Context(), dir, convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	if details := strings.Join(plan.Details, "\n"); !strings.Contains(details, `1 tensors "model.layers.2.*"`) {
		t.Errorf("details: %s", details)
	}
	if r := run(t, tinymodel.Converted(t, dir, packed.Recipe{Golden: "none"}), Options{Source: dir}); !r.OK {
		t.Error("the spare tensor is missed")
	}
	addTensor(t, weights, behind)
	if _, err := convert.NewPlan(t.Context(), dir, convert.Options{}); err == nil ||
		!strings.Contains(err.Error(), behind) {
		t.Errorf("a tensor of no layer: %v", err)
	}
}

// addTensor appends a tensor of one float to a weight file.
func addTensor(t *testing.T, path, name string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := 8 + binary.LittleEndian.Uint64(data)
	var header map[string]any
	if err := json.Unmarshal(data[8:end], &header); err != nil {
		t.Fatal(err)
	}
	n := len(data) - int(end)
	header[name] = map[string]any{"dtype": "F32", "shape": []int{1}, "data_offsets": []int{n, n + 4}}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	out = append(append(append(out, text...), data[end:]...), 0, 0, 0, 0)
	if err := os.WriteFile(path, out, 0o644); err != nil {
		t.Fatal(err)
	}
}
