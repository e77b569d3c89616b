package onnx

import (
	"encoding/json"
	"fmt"

	"github.com/lowpack/lowpack/convert/export/internal/chat"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// genaiConfig holds the fields of genai_config.json that onnxruntime-genai needs.
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

// genaiSearch are its defaults for generation: greedy, and a KV cache that grows with the text instead of one for all
// positions.
type genaiSearch struct {
	DoSample  bool `json:"do_sample"`
	MaxLength int  `json:"max_length"`
	ShareKV   bool `json:"past_present_share_buffer"`
}

// genai returns the text of genai_config.json. The type llama stands for any decoder with these inputs and outputs.
func (d *decoder) genai() []byte {
	m := d.model
	c := genaiConfig{
		Model: genaiModel{
			Type: "llama", EOS: m.EOS, ContextLength: m.FixedPositions(), VocabSize: m.Vocab,
			Decoder: genaiDecoder{
				Filename:   modelFile,
				HeadSize:   m.HeadDim,
				HiddenSize: m.Hidden,
				Heads:      m.Heads,
				KVHeads:    m.KVHeads,
				Layers:     m.Layers,
				Inputs: map[string]string{
					"input_ids": "input_ids", "attention_mask": "attention_mask",
					"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value",
				},
				Outputs: map[string]string{"logits": "logits", "present_key_names": "present.%d.key",
					"present_value_names": "present.%d.value"},
			},
		},
		Search: genaiSearch{MaxLength: m.FixedPositions()},
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

// chats adds a chat template that onnxruntime-genai renders to the tokenizer files. onnxruntime-genai prefers
// tokenizer_config.json to chat_template.jinja.
func (m *exported) chats() error {
	template := chat.Template(m.file.Embedded)
	if template == "" {
		return nil
	}
	t, err := tokenizer.Load(m.file.Embedded)
	if err == nil {
		template, err = chat.For(chat.ONNXRuntime, t, template)
	}
	if err != nil {
		m.Note("render conversations elsewhere: onnxruntime-genai cannot render the chat template, which is left as "+
			"it is: %v", err)
		return nil
	}
	m.texts = map[string][]byte{"chat_template.jinja": []byte(template)}
	if text, ok := m.file.Embedded("tokenizer_config.json"); ok {
		m.texts["tokenizer_config.json"], err = withTemplate(text, template)
	}
	return err
}

// withTemplate returns tokenizer_config.json with its chat template replaced, if it has one.
func withTemplate(text []byte, template string) ([]byte, error) {
	var config map[string]json.RawMessage
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w: %v", pack.ErrCorrupt, err)
	}
	const key = "chat_template"
	var old string
	if json.Unmarshal(config[key], &old) != nil || old == template {
		return text, nil
	}
	var err error
	if config[key], err = json.Marshal(template); err != nil {
		return nil, err
	}
	return json.MarshalIndent(config, "", "  ")
}
