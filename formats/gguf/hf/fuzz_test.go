package hf_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// vocabularies returns the keys of both kinds of tokenizer.
func vocabularies() [][]gguf.KV {
	pieces := []string{"<unk>", "<s>", "</s>", "▁a", "b", "<0x0A>"}
	bytePair := []string{"a", "b", "ab", "<|end|>", "<|user|>", "c"}
	types := []int32{2, 3, 3, 1, 1, 6}
	common := func(kind string, tokens []string, types []int32) []gguf.KV {
		return []gguf.KV{{Key: "tokenizer.ggml.model", Value: gguf.TextValue(kind)},
			{Key: "tokenizer.ggml.tokens", Value: gguf.TextsValue(tokens)},
			{Key: "tokenizer.ggml.token_type", Value: gguf.I32sValue(types)},
			{Key: "tokenizer.chat_template", Value: gguf.TextValue("{{ messages }}")}}
	}
	return [][]gguf.KV{
		append(common("llama", pieces, types),
			gguf.KV{Key: "tokenizer.ggml.scores", Value: gguf.FloatsValue([]float32{0, 0, 0, -1, -2, 0})}),
		append(common("gpt2", bytePair, []int32{1, 1, 1, 3, 4, 1}),
			gguf.KV{Key: "tokenizer.ggml.pre", Value: gguf.TextValue("llama-bpe")},
			gguf.KV{Key: "tokenizer.ggml.merges", Value: gguf.TextsValue([]string{"a b"})}),
	}
}

// fuzzed are the models to which the fuzzer makes changes.
func fuzzed() (list []*gguf.Header) {
	words := vocabularies()
	scales := func(arch string) (list []gguf.KV) {
		for _, key := range []string{".attention.scale", ".embedding_scale", ".residual_scale", ".logit_scale"} {
			list = append(list, gguf.KV{Key: arch + key, Value: gguf.FloatValue(0.5)})
		}
		return list
	}
	for i, arch := range []string{"llama", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "gemma3", "bitnet",
		"bitnet-b1.58",
		"granite", "minicpm"} {
		list = append(list, keysOf(arch, slices.Concat(words[i%2], scales(arch))...))
	}
	for i, arch := range []string{"gpt2", "apertus"} {
		list = append(list, keysOf(arch, slices.Concat(words[i%2], xielu([]float32{1, 2, 3, 4, 5, 6}))...))
	}
	for _, arch := range []string{"glm4moe", "dots1", "ernie4_5-moe", "minimax-m2", "deepseek2"} {
		list = append(list, routed(arch, sigmoid(latentSizes)))
	}
	for i, arch := range []string{"llama", "qwen2moe", "qwen3moe", "olmoe", "granitemoe", "gpt-oss"} {
		list = append(list, mixtureKeys(arch, slices.Concat(words[i%2], scales(arch))...))
	}
	return append(list, lfm2([]int32{0, 2, 0, 2, 0, 2}), lfm2moe())
}

// valueOf parses a value as stored, kind first.
func valueOf(key string, stored []byte) (gguf.Value, bool) {
	b := binary.LittleEndian.AppendUint32([]byte("GGUF"), 3)
	for _, n := range []uint64{0, 1, uint64(len(key))} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = append(append(b, key...), stored...)
	h, err := gguf.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return gguf.Value{}, false
	}
	return h.Get(key)
}

// FuzzTexts changes one key and adds one tensor. The result is deterministic: files that their readers accept or
// reject, or an error of a known class; rows of tensors are a permutation.
func FuzzTexts(f *testing.F) {
	stored := func(kind gguf.Kind, bytes ...byte) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(kind)), bytes...)
	}
	text := func(s string) []byte {
		return append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, uint32(gguf.String)),
			uint64(len(s))), s...)
	}
	list := fuzzed()
	for i, h := range list {
		arch, _ := h.Keys[0].Value.Text()
		f.Add(uint8(i), "", []byte(nil), "blk.0.attn_q.weight", uint16(63), uint16(64))
		f.Add(uint8(i), arch+".attention.head_count", stored(gguf.U64, 255, 255, 255, 255, 255, 255, 255, 127),
			"blk.0.attn_q.weight", uint16(63), uint16(64))
		f.Add(uint8(i), arch+".rope.scaling.type", text("yarn"), "rope_freqs.weight", uint16(8), uint16(0))
		f.Add(uint8(i), arch+".expert_count", stored(gguf.U32, 8, 0, 0, 0), "blk.5.ffn_gate_exps.weight",
			uint16(9), uint16(3))
	}
	f.Add(uint8(1), "tokenizer.ggml.pre", text("qwen2"), "output_norm.weight", uint16(64), uint16(0))
	f.Add(uint8(0), "tokenizer.ggml.scores", stored(gguf.Array, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "output.bias",
		uint16(1), uint16(1))
	f.Add(uint8(0), "tokenizer.ggml.eos_token_id", stored(gguf.I32, 255, 255, 255, 255), "blk.0.attn_output.scale",
		uint16(1), uint16(0))
	f.Fuzz(func(t *testing.T, base uint8, key string, value []byte, tensor string, rows, columns uint16) {
		h := list[int(base)%len(list)]
		keys := slices.Clone(h.Keys)
		if v, ok := valueOf(key, value); ok {
			keys = append(slices.DeleteFunc(keys, func(kv gguf.KV) bool { return kv.Key == key }),
				gguf.KV{Key: key, Value: v})
		}
		file := fileOf(&gguf.Header{Keys: keys}, map[string][]float32{tensor: {float32(rows), float32(columns), -1}},
			"output.weight")
		shape := []int64{int64(rows) + 1}
		if columns > 0 {
			shape = append(shape, int64(columns))
		}
		file.Tensors[tensor] = gguf.TensorInfo{Name: tensor, Shape: shape}
		texts := checkTexts(t, file, len(key)+len(value))
		if strings.HasPrefix(key, "tokenizer.") { // must return; package tokenizer has its own fuzz targets
			_, _ = tokenizer.Load(func(name string) ([]byte, bool) { b, ok := texts[name]; return b, ok })
		}
		checkRows(t, file)
	})
}

func checkTexts(t *testing.T, file *hf.File, changed int) map[string][]byte {
	texts, err := file.Texts()
	if err != nil {
		known(t, err)
		return nil
	}
	again, err := file.Texts()
	if err != nil || !maps.EqualFunc(texts, again, bytes.Equal) {
		t.Fatalf("another answer to the same question: %v", err)
	}
	whole, _ := file.Keys.Get("tokenizer.huggingface.json")
	for name, text := range texts {
		if own, _ := whole.Text(); strings.HasSuffix(name, ".json") && own != string(text) && !json.Valid(text) {
			t.Errorf("%s is not JSON: %s", name, text)
		}
		if len(text) > 16<<10+64*changed {
			t.Errorf("%s has %d bytes of %d that were changed", name, len(text), changed)
		}
	}
	if _, err := model.Parse(texts["config.json"], texts["generation_config.json"], nil); err != nil {
		known(t, err)
	}
	return texts
}

func checkRows(t *testing.T, file *hf.File) {
	tensors, err := file.List()
	if err != nil {
		known(t, err)
		return
	}
	for _, x := range tensors {
		if len(x.From.Shape) == 0 { // a number from a key
			continue
		}
		seen := make([]bool, min(x.From.Shape[0], 1<<12))
		for m := range seen {
			if r := x.Row(int64(m)); r < 0 || r >= x.From.Shape[0] {
				t.Fatalf("%s: row %d of %v is row %d", x.Name, m, x.From.Shape, r)
			} else if r < int64(len(seen)) && seen[r] {
				t.Fatalf("%s: row %d of the file is there twice", x.Name, r)
			} else if r < int64(len(seen)) {
				seen[r] = true
			}
		}
	}
}

// known fails for an error without a class.
func known(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) && !errors.Is(err, pack.ErrLimit) {
		t.Errorf("an error of no kind: %v", err)
	}
}
