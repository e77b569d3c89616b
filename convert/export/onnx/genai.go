package onnx

import (
	"encoding/json"
	"regexp"
)

// genaiConfig is genai_config.json, as far as onnxruntime-genai needs it.
type genaiConfig struct {
	Model  genaiModel  `json:"model"`
	Search genaiSearch `json:"search"`
}

type genaiModel struct {
	Type          string       `json:"type"`
	BOS           *int         `json:"bos_token_id,omitempty"`
	EOS           []int        `json:"eos_token_id,omitempty"`
	Pad           *int         `json:"pad_token_id,omitempty"`
	ContextLength int          `json:"context_length"`
	VocabSize     int          `json:"vocab_size"`
	Decoder       genaiDecoder `json:"decoder"`
}

type genaiDecoder struct {
	SessionOptions struct {
		ProviderOptions []struct{} `json:"provider_options"`
	} `json:"session_options"`
	Filename   string            `json:"filename"`
	HeadSize   int               `json:"head_size"`
	HiddenSize int               `json:"hidden_size"`
	Heads      int               `json:"num_attention_heads"`
	KVHeads    int               `json:"num_key_value_heads"`
	Layers     int               `json:"num_hidden_layers"`
	Inputs     map[string]string `json:"inputs"`
	Outputs    map[string]string `json:"outputs"`
}

// genaiSearch are its defaults for generation: greedy, and a KV cache that grows with the text instead of one for all positions.
type genaiSearch struct {
	DoSample  bool `json:"do_sample"`
	MaxLength int  `json:"max_length"`
	ShareKV   bool `json:"past_present_share_buffer"`
}

// genai is the text of genai_config.json. The type llama stands for any decoder with these inputs and outputs.
func (d *decoder) genai() []byte {
	m := d.model
	c := genaiConfig{
		Model: genaiModel{
			Type: "llama", EOS: m.EOS, ContextLength: m.MaxPositions, VocabSize: m.Vocab,
			Decoder: genaiDecoder{
				Filename: modelFile, HeadSize: m.HeadDim, HiddenSize: m.Hidden, Heads: m.Heads, KVHeads: m.KVHeads, Layers: m.Layers,
				Inputs: map[string]string{
					"input_ids": "input_ids", "attention_mask": "attention_mask",
					"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value",
				},
				Outputs: map[string]string{"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"},
			},
		},
		Search: genaiSearch{MaxLength: m.MaxPositions},
	}
	c.Model.Decoder.SessionOptions.ProviderOptions = []struct{}{}
	if m.BOS >= 0 {
		c.Model.BOS = &m.BOS
	}
	if len(m.EOS) > 0 {
		c.Model.Pad = &m.EOS[0]
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		panic(err) // numbers and constant names
	}
	return append(text, '\n')
}

// missingFilters are those of Jinja that onnxruntime-genai's engine for chat templates lacks.
var missingFilters = regexp.MustCompile(`\|\s*(capitalize|title)\b`)

// noteTemplate tells that onnxruntime-genai will not render the chat template.
func (m *exported) noteTemplate() {
	for _, name := range []string{"chat_template.jinja", "tokenizer_config.json"} {
		text, _ := m.file.Embedded(name)
		if found := missingFilters.FindSubmatch(text); found != nil {
			m.notes = append(m.notes, "onnxruntime-genai has no filter "+string(found[1])+", which the chat template uses: it loads the model and does not render chats; transformers does")
			return
		}
	}
}
