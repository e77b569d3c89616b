package export

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/packed"
)

// oldLatent rewrites a GGUF of a DeepSeek to the form of old ones: keys and values of all heads in one tensor, and no
// sizes of the latent vector among the lengths of heads.
func oldLatent(t *testing.T, path string) string {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h, data := headerOf(t, path), map[string][]byte{}
	var infos []gguf.TensorInfo
	for _, x := range h.Tensors {
		stored := file[h.DataStart+x.Begin:][:x.Size]
		block, isKeys := strings.CutSuffix(x.Name, hf.LatentKeys+".weight")
		switch {
		case strings.HasSuffix(x.Name, hf.LatentValues+".weight"):
			continue
		case isKeys:
			both, _ := c.Lookup("model.layers." + strings.TrimPrefix(block, "blk.") + "self_attn.kv_b_proj.weight")
			stored = make([]byte, both.Size)
			if err := c.ReadAt(both, stored, 0); err != nil {
				t.Fatal(err)
			}
			x = gguf.TensorInfo{Name: block + hf.LatentKV + ".weight", Type: x.Type,
				Shape: []int64{int64(both.Shape[0]), int64(both.Shape[1])}}
		}
		infos, data[x.Name] = append(infos, x), stored
	}
	keys := slices.DeleteFunc(slices.Clone(h.Keys), func(kv gguf.KV) bool { return strings.HasSuffix(kv.Key, "_mla") })
	for key, from := range map[string]string{"key_length": "key_length_mla", "value_length": "value_length_mla",
		"head_count_kv": "head_count"} {
		at := slices.IndexFunc(keys, func(kv gguf.KV) bool { return kv.Key == "deepseek2.attention."+key })
		keys[at].Value, _ = h.Get("deepseek2.attention." + from)
	}
	if err := gguf.Place(infos); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, keys, infos)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range infos {
		if err := w.Write(x.Name, data[x.Name]); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "old.gguf")
	if err := os.WriteFile(out, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOldLatent: the old form of latent attention is the same model.
func TestOldLatent(t *testing.T) {
	for _, like := range []string{"deepseek-v2-lite", "deepseek-v3"} {
		source := packedOf(t, denseModel(t, like), packed.Recipe{Quant: "none"})
		path, _ := exported(t, source)
		old := packedOf(t, oldLatent(t, path), packed.Recipe{})
		ids := []int{1, 30, 40, 50, 60, 70}
		if largest, _, _ := distance(logitsOf(t, source, ids), logitsOf(t, old, ids)); largest != 0 {
			t.Errorf("%s: logits differ by %v", like, largest)
		}
	}
}

// TestInteropOldLatent: llama.cpp computes the old form of latent attention as lowpack does.
func TestInteropOldLatent(t *testing.T) {
	source := packedOf(t, denseModel(t, "deepseek-v3"), packed.Recipe{Quant: "none"})
	path, _ := exported(t, source)
	old := filepath.Join(requantized(t, oldLatent(t, path), "0"), "0.gguf")
	ids := []int{1, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130}
	logits, _ := llama(t, old, ids, samples)
	largest, mean, agree := distance(logits, logitsOf(t, source, ids))
	t.Logf("largest difference %.3g, mean %.3g, %d of %d argmax tokens agree", largest, mean, agree, len(ids))
	if largest > 1e-4 || agree != len(ids) {
		t.Error("they differ")
	}
}
