package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The base model is the smallest checkpoint that every command accepts: one BitNet block, tied head, and a byte-level
// tokenizer. Cases are this model with one thing wrong.
const (
	hidden, ffn, heads, headDim, vocab = 32, 64, 2, 16, 260
)

func baseConfig() map[string]any {
	return map[string]any{
		"architectures": []string{"BitNetForCausalLM"}, "model_type": "bitnet",
		"hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": 1,
		"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": headDim,
		"vocab_size": vocab, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
		"hidden_act": "relu2", "tie_word_embeddings": true, "torch_dtype": "bfloat16",
		"bos_token_id": 259, "eos_token_id": 258,
		"quantization_config": map[string]any{"quant_method": "bitnet", "linear_class": "autobitlinear",
			"quantization_mode": "online"},
	}
}

// tensors of the base model and their shapes.
func baseShapes() map[string][]int {
	s := map[string][]int{
		"model.embed_tokens.weight": {vocab, hidden},
		"model.norm.weight":         {hidden},
	}
	for name, shape := range map[string][]int{
		"self_attn.q_proj": {hidden, hidden}, "self_attn.k_proj": {hidden, hidden},
		"self_attn.v_proj": {hidden, hidden}, "self_attn.o_proj": {hidden, hidden},
		"mlp.gate_proj": {ffn, hidden}, "mlp.up_proj": {ffn, hidden}, "mlp.down_proj": {hidden, ffn},
		"input_layernorm": {hidden}, "post_attention_layernorm": {hidden},
		"self_attn.attn_sub_norm": {hidden}, "mlp.ffn_sub_norm": {ffn},
	} {
		s["model.layers.0."+name+".weight"] = shape
	}
	return s
}

// shard is a safetensors file of the named tensors, BF16, with small weights that differ.
func shard(names []string) []byte {
	shapes := baseShapes()
	head := map[string]any{}
	var data []byte
	for _, name := range names {
		begin, n := len(data), 1
		for _, d := range shapes[name] {
			n *= d
		}
		for i := range n {
			// 1, −1, ½, −½, 2, … : norms and embeddings must not vanish, ternary weights must not be all alike
			pattern := []uint16{0x3f80, 0xbf80, 0x3f00, 0xbf00, 0x3c00, 0x4000, 0xbc00}[(i*5+len(name))%7]
			data = append(data, byte(pattern), byte(pattern>>8))
		}
		head[name] = map[string]any{"dtype": "BF16", "shape": shapes[name], "data_offsets": []int{begin, len(data)}}
	}
	return frame(string(encode(head)), data)
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("hostile: %v", err)) // the values are literals of this package
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func allNames() []string { return slices.Sorted(maps.Keys(baseShapes())) }

// model writes the base model into dir, with the files in changed put in the place of its own; nil removes one.
func model(dir string, changed map[string][]byte) (string, error) {
	files := map[string][]byte{
		"config.json":       encode(baseConfig()),
		"tokenizer.json":    encode(baseTokenizer()),
		"model.safetensors": shard(allNames()),
	}
	maps.Copy(files, changed)
	for name, data := range files {
		if data == nil {
			continue
		}
		if err := write(dir, name, data); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// sharded writes the base model as two shards and an index that calls them first and second; edit may change the
// weight_map. A second shard whose name is not a plain file name is not written.
func sharded(dir, first, second string, edit func(weightMap map[string]string)) (string, error) {
	names := allNames()
	half := len(names) / 2
	weightMap := map[string]string{}
	for i, name := range names {
		weightMap[name] = first
		if i >= half {
			weightMap[name] = second
		}
	}
	files := map[string][]byte{"model.safetensors": nil, first: shard(names[:half])}
	if !strings.ContainsAny(second, `/\:`) && len(second) < 256 {
		files[second] = shard(names[half:])
	}
	edit(weightMap)
	files[indexName] = encode(map[string]any{"weight_map": weightMap})
	return model(dir, files)
}

const indexName = "model.safetensors.index.json"

// baseTokenizer has 256 bytes, one merge, and the special tokens 258 (end) and 259 (begin); 257 is unused text.
func baseTokenizer() map[string]any {
	letters := byteLetters()
	tokens := map[string]int{}
	for b, letter := range letters {
		tokens[letter] = b
	}
	tokens["he"], tokens["the"] = 256, 257
	return map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil,
		"added_tokens": []any{special(258, "<|end|>"), special(259, "<|begin|>")},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
			"use_regex": true},
		"decoder": map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
			"use_regex": true},
		"post_processor": map[string]any{
			"type": "TemplateProcessing",
			"single": []any{
				map[string]any{"SpecialToken": map[string]any{"id": "<|begin|>", "type_id": 0}},
				map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}},
			},
			"pair": []any{},
			"special_tokens": map[string]any{"<|begin|>": map[string]any{"id": "<|begin|>", "ids": []int{259},
				"tokens": []string{"<|begin|>"}}},
		},
		"model": map[string]any{
			"type":                      "BPE",
			"dropout":                   nil,
			"unk_token":                 nil,
			"continuing_subword_prefix": nil,
			"end_of_word_suffix":        nil,
			"fuse_unk":                  false, "byte_fallback": false, "ignore_merges": false,
			"vocab": tokens, "merges": []string{"h e", "t he"},
		},
	}
}

func special(id int, content string) map[string]any {
	return map[string]any{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
		"normalized": false, "special": true}
}

// byteLetters are the characters by which byte-level tokenizers spell bytes (GPT-2): printable bytes stand for
// themselves, the others for U+0100 onwards.
func byteLetters() []string {
	letters := make([]string, 256)
	next := rune(256)
	for b := range letters {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			letters[b] = string(rune(b))
			continue
		}
		letters[b] = string(next)
		next++
	}
	return letters
}

// Base writes the model that all cases of directories are made from; every command accepts it.
func Base(dir string) (string, error) { return model(dir, nil) }
