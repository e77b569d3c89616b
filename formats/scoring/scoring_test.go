package scoring

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/internal/modules"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

const vocab, positions = 100, 1024

var described = &model.Description{Config: model.Config{Vocab: vocab, MaxPositions: positions}}

// lookup finds files by name.
func lookup(files map[string][]byte) func(string) ([]byte, bool) {
	return func(name string) ([]byte, bool) {
		data, ok := files[name]
		return data, ok
	}
}

// plain is a scoring with every field that must be there.
var plain = Scoring{True: 99, False: 7, Activation: Sigmoid, Format: Structured}

// TestFiles: what the files of a scoring declare is that scoring, whatever the tokenizer says.
func TestFiles(t *testing.T) {
	for _, want := range []Scoring{plain,
		{True: 0, False: None, Activation: Identity, Format: Flat, Generation: true, Prompt: "Query <&>:",
			MaxTokens: 512},
		{True: 1, False: 0, Activation: Sigmoid, Format: Flat, MaxTokens: positions - 1},
	} {
		files := want.Files(described)
		files[modules.TokenizerFile] = []byte(`{"model_max_length": 300}`)
		got, err := Parse(lookup(files), described)
		if err != nil || *got != want {
			t.Errorf("%+v: %+v, %v", want, got, err)
		}
	}
	for _, list := range []string{"", `[{"path": "", "type": "sentence_transformers.models.Transformer"}]`, "{}", "["} {
		files := map[string][]byte{modules.ListFile: []byte(list)}
		if s, err := Parse(lookup(files), described); s != nil || err != nil {
			t.Errorf("%s: %v, %v", list, s, err)
		}
	}
}

// TestSavedBySix: the files that sentence-transformers 6.2 writes of a model whose chat template has the usual length
// of its tokenizer.
func TestSavedBySix(t *testing.T) {
	files := map[string][]byte{
		modules.ListFile: []byte(`[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
			{"idx": 1, "name": "1", "path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}]`),
		modules.TransformerFile: []byte(`{"transformer_task": "text-generation", "modality_config": {"text": {"method": "forward",
			"method_output_name": "logits"}, "message": {"method": "forward", "method_output_name": "logits", "format": "flat"}},
			"module_output_name": "causal_logits"}`),
		scoreFile: []byte(`{"true_token_id": 9, "false_token_id": 4, "module_input_name": "causal_logits"}`),
		modules.SettingsFile: []byte(`{"model_type": "CrossEncoder", "__version__": {"sentence_transformers": "6.2.0"},
			"prompts": {"web": "Given a question", "none": null}, "default_prompt_name": "web",
			"activation_fn": "torch.nn.modules.activation.Sigmoid"}`),
		modules.TokenizerFile: []byte(`{"model_max_length": 256}`),
	}
	want := Scoring{True: 9, False: 4, Activation: Sigmoid, Format: Flat, Prompt: "Given a question", MaxTokens: 256}
	if s, err := Parse(lookup(files), described); err != nil || *s != want {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestActivation: that of the settings counts, then that of config.json under its newer and its older name, then
// Sigmoid.
func TestActivation(t *testing.T) {
	const sigmoid, identity = `"torch.nn.modules.activation.Sigmoid"`, `"torch.nn.modules.linear.Identity"`
	for _, c := range []struct {
		settings, config string
		want             Activation
	}{
		{``, `{}`, Sigmoid},
		{`, "activation_fn": null`, `{}`, Sigmoid},
		{`, "activation_fn": "torch.nn.Identity"`, `{}`, Identity},
		{`, "activation_fn": ` + sigmoid, `{"sentence_transformers": {"activation_fn": ` + identity + `}}`, Sigmoid},
		{``, `{"sentence_transformers": {"activation_fn": ` + identity + `}}`, Identity},
		{``, `{"sentence_transformers": {"version": "4"}, "sbert_ce_default_activation_function": ` + identity + `}`, Identity},
		{``, `{"sentence_transformers": {"activation_fn": null}, "sbert_ce_default_activation_function": ` + identity + `}`,
			Sigmoid},
	} {
		files := plain.Files(described)
		files[modules.SettingsFile] = []byte(`{"model_type": "CrossEncoder"` + c.settings + "}")
		files[modules.ConfigFile] = []byte(c.config)
		if s, err := Parse(lookup(files), described); err != nil || s.Activation != c.want {
			t.Errorf("%s, %s: %v, %v", c.settings, c.config, s, err)
		}
	}
}

// TestRefused: what is not computed is an error that names file and key.
func TestRefused(t *testing.T) {
	const (
		message     = `"message": {"method": "forward", "method_output_name": "logits", "format": "flat"}`
		modalities  = `"modality_config": {` + message + `}`
		transformer = `"transformer_task": "text-generation", "module_output_name": "causal_logits"`
		whole       = transformer + ", " + modalities
		encoder     = `"model_type": "CrossEncoder"`
		first       = `{"path": "", "type": "sentence_transformers.models.Transformer"}`
		second      = `{"path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.modules.LogitScore"}`
	)
	for _, c := range []struct{ file, text, want string }{
		{modules.ListFile, `[` + second + `]`, "the modules are LogitScore"},
		{modules.ListFile, `[` + second + `, ` + first + `]`, "the modules are LogitScore, Transformer"},
		{modules.ListFile, `[` + first + `, ` + second + `, ` + second + `]`, "LogitScore, LogitScore"},
		{modules.ListFile, `[` + first + `, {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}, ` + second +
			`]`, `module 1 is a "sentence_transformers.models.Pooling"`},
		{modules.ListFile, `[` + first + `, {"path": "x", "type": "sentence_transformers.LogitScore"}]`, `has the path "x"`},
		{modules.TransformerFile, "", "sentence_bert_config.json is missing"},
		{modules.TransformerFile, `{"module_output_name": "causal_logits", ` + modalities + `}`, "there is no transformer_task"},
		{modules.TransformerFile, `{` + transformer + `}`, "there is no modality_config"},
		{modules.TransformerFile, `{"transformer_task": "text-generation", ` + modalities + `}`, "no module_output_name"},
		{modules.TransformerFile, `{"transformer_task": "any-to-any"}`, `"transformer_task" is "any-to-any"`},
		{modules.TransformerFile, `{"module_output_name": "scores"}`, `"module_output_name" is "scores"`},
		{modules.TransformerFile, `{"modality_config": {"text": {"method": "forward", "method_output_name": "logits"}}}`,
			`"modality_config" is an object`},
		{modules.TransformerFile, `{"modality_config": {` + message + `, "image": {"method": "forward",
			"method_output_name": "logits"}}}`, `"modality_config" is an object`},
		{modules.TransformerFile, `{"modality_config": {"message": {"method": "forward", "method_output_name": "logits"}}}`,
			`"modality_config" is an object`},
		{modules.TransformerFile, `{"modality_config": {"message": {"method": "forward", "method_output_name": "logits",
			"format": "auto"}}}`, `"modality_config" is an object`},
		{modules.TransformerFile, `{"modality_config": {"message": {"method": "forward",
			"method_output_name": "last_hidden_state", "format": "flat"}}}`, `"modality_config" is an object`},
		{modules.TransformerFile, `{"modality_config": {"message": {"method": "generate", "method_output_name": "logits",
			"format": "flat"}}}`, `"modality_config" is an object`},
		{modules.TransformerFile, `{` + whole + `, "processing_kwargs": {"text": {"truncation": false}}}`,
			`"processing_kwargs" is an object`},
		{modules.TransformerFile, `{` + whole + `, "processing_kwargs": {"chat_template": {"enable_thinking": false}}}`,
			`"processing_kwargs" is an object`},
		{modules.TransformerFile, `{` + whole + `, "processing_kwargs": {"chat_template": {"add_generation_prompt": 1}}}`,
			`"processing_kwargs" is an object`},
		{modules.TransformerFile, `{` + whole + `, "processing_kwargs": []}`, `"processing_kwargs" is an array`},
		{modules.TransformerFile, `{` + whole + `, "max_seq_length": 0}`, `"max_seq_length" is "0"`},
		{modules.TransformerFile, `{` + whole + `, "do_lower_case": true}`, `"do_lower_case" is true`},
		{modules.TransformerFile, `{` + whole + `, "query_length": 8}`, `"query_length" is "8"`},
		{scoreFile, "", "1_LogitScore/config.json is missing"},
		{scoreFile, `{"false_token_id": 1}`, "there is no true_token_id"},
		{scoreFile, `{"true_token_id": null}`, `"true_token_id" is null`},
		{scoreFile, `{"true_token_id": -1}`, `"true_token_id" is "-1"`},
		{scoreFile, `{"true_token_id": 100}`, `"true_token_id" is "100"`},
		{scoreFile, `{"true_token_id": 1.5}`, `"true_token_id" is "1.5"`},
		{scoreFile, `{"true_token_id": 1, "false_token_id": -2}`, `"false_token_id" is "-2"`},
		{scoreFile, `{"true_token_id": 1, "false_token_id": "no"}`, `"false_token_id" is "no"`},
		{scoreFile, `{"true_token_id": 1, "module_input_name": "logits"}`, `"module_input_name" is "logits"`},
		{scoreFile, `{"true_token_id": 1, "scale": 2}`, `"scale" is "2"`},
		{modules.SettingsFile, "", "config_sentence_transformers.json is missing"},
		{modules.SettingsFile, `{}`, "there is no model_type"},
		{modules.SettingsFile, `{"model_type": "SentenceTransformer"}`, `"model_type" is "SentenceTransformer"`},
		{modules.SettingsFile, `{` + encoder + `, "activation_fn": "torch.nn.modules.activation.Tanh"}`,
			`the activation is "torch.nn.modules.activation.Tanh"`},
		{modules.SettingsFile, `{` + encoder + `, "activation_fn": "mine.Sigmoid"}`, `the activation is "mine.Sigmoid"`},
		{modules.SettingsFile, `{` + encoder + `, "activation_fn": []}`, `the activation is an array`},
		{modules.SettingsFile, `{` + encoder + `, "default_prompt_name": "web"}`, `default_prompt_name is "web"`},
		{modules.SettingsFile, `{` + encoder + `, "default_prompt_name": "", "prompts": {"": "a"}}`, `"default_prompt_name" is ""`},
		{modules.SettingsFile, `{` + encoder + `, "prompts": {"query": 1}}`, `"prompts" is an object`},
		{modules.SettingsFile, `{` + encoder + `, "truncate_dim": 8}`, `"truncate_dim" is "8"`},
	} {
		files := maps.Clone(plain.Files(described))
		if files[c.file] = []byte(c.text); c.text == "" {
			delete(files, c.file)
		}
		_, err := Parse(lookup(files), described)
		if err == nil || !strings.HasPrefix(strings.TrimPrefix(err.Error(), pack.ErrCorrupt.Error()+": "), c.file) ||
			!strings.Contains(err.Error(), c.want) ||
			!errors.Is(err, pack.ErrUnsupported) && !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s %s: %v; want %s", c.file, c.text, err, c.want)
		}
	}
	files := plain.Files(described)
	files[modules.ConfigFile] = []byte(`{"sentence_transformers": {"activation_fn": "torch.nn.Tanh"}}`)
	files[modules.SettingsFile] = []byte(`{` + encoder + `}`)
	if _, err := Parse(lookup(files), described); err == nil || !strings.HasPrefix(err.Error(), modules.ConfigFile) {
		t.Error(err)
	}
	older := plain.Files(described)
	older["sentence_roberta_config.json"] = older[modules.TransformerFile]
	delete(older, modules.TransformerFile)
	if _, err := Parse(lookup(older), described); err == nil || !strings.Contains(err.Error(), "is an older name") {
		t.Error(err)
	}
}

// TestCheck: undefined values of a manifest are refused, and tokens that a vocabulary does not have.
func TestCheck(t *testing.T) {
	if err := plain.Check(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(s *Scoring){
		func(s *Scoring) { s.True = -1 },
		func(s *Scoring) { s.True = 1 << 31 },
		func(s *Scoring) { s.False = -2 },
		func(s *Scoring) { s.False = 1 << 31 },
		func(s *Scoring) { s.Activation = "softmax" },
		func(s *Scoring) { s.Activation = "" },
		func(s *Scoring) { s.Format = "auto" },
		func(s *Scoring) { s.MaxTokens = -1 },
		func(s *Scoring) { s.MaxTokens = 1<<24 + 1 },
		func(s *Scoring) { s.Prompt = strings.Repeat("a", 1<<16+1) },
	} {
		s := plain
		if change(&s); s.Check() == nil {
			t.Errorf("%.200s is taken", s.String())
		}
	}
	for n, taken := range map[int]bool{vocab: true, vocab - 1: false} {
		for _, s := range []Scoring{plain, {True: 7, False: 99}} {
			if err := s.CheckVocab(n); taken != (err == nil) || err != nil && !errors.Is(err, pack.ErrCorrupt) {
				t.Errorf("%s of %d tokens: %v", &s, n, err)
			}
		}
	}
}

// FuzzParse: whatever the files hold, Parse returns nothing, a scoring that passes Check, or an error.
func FuzzParse(f *testing.F) {
	files := plain.Files(described)
	f.Add(files[modules.ListFile], files[scoreFile], files[modules.TransformerFile], files[modules.SettingsFile])
	f.Fuzz(func(t *testing.T, list, score, transformer, settings []byte) {
		files := map[string][]byte{modules.ListFile: list, scoreFile: score, modules.TransformerFile: transformer,
			modules.SettingsFile: settings}
		s, err := Parse(lookup(files), described)
		if s == nil || err != nil {
			return
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(lookup(s.Files(described)), described)
		if err != nil || *again != *s || bytes.Contains([]byte(s.String()), []byte("%!")) {
			t.Errorf("%+v, then %+v, %v", s, again, err)
		}
	})
}
