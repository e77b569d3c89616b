package pooling

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/internal/modules"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

const hidden, positions = 64, 1024

// described is the model of the checkpoints.
var described = &model.Description{Config: model.Config{Hidden: hidden, MaxPositions: positions}}

// lookup finds files by name.
func lookup(files map[string][]byte) func(string) ([]byte, bool) {
	return func(name string) ([]byte, bool) {
		data, ok := files[name]
		return data, ok
	}
}

// TestFiles: what the files of a pooling declare is that pooling, whatever the tokenizer says.
func TestFiles(t *testing.T) {
	for _, mode := range []Mode{LastToken, Mean} {
		for _, normalize := range []bool{false, true} {
			for _, most := range []int{0, 512} {
				want := Pooling{mode, normalize, most}
				files := want.Files(described)
				files[modules.TokenizerFile] = []byte(`{"model_max_length": 300}`)
				got, err := Parse(lookup(files), described)
				if err != nil || *got != want {
					t.Errorf("%+v: %+v, %v", want, got, err)
				}
			}
		}
	}
	if p, err := Parse(lookup(nil), described); p != nil || err != nil {
		t.Errorf("without modules.json: %v, %v", p, err)
	}
}

// TestSavedBySix: the files that sentence-transformers 6 writes.
func TestSavedBySix(t *testing.T) {
	files := map[string][]byte{
		modules.ListFile: []byte(`[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
			{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"},
			{"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.base.modules.normalize.Normalize"}]`),
		modules.TransformerFile: []byte(`{"transformer_task": "feature-extraction", "modality_config": {"text": {"method": "forward",
			"method_output_name": "last_hidden_state"}, "image": {"method": "forward"}}, "module_output_name": "token_embeddings", "unpad_inputs": null}`),
		poolingFile:        []byte(`{"embedding_dimension": 64, "pooling_mode": "mean", "include_prompt": true}`),
		normalizeFile:      []byte(`{"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}`),
		modules.ConfigFile: []byte(`{"auto_map": {"AutoModelForCausalLM": "modeling.Head", "AutoModel": null}, "rope": NaN}`),
		modules.SettingsFile: []byte(`{"__version__": {"sentence_transformers": "6.2.0"}, "default_prompt_name": null,
			"model_type": "SentenceTransformer", "prompts": {"document": "", "query": ""}, "similarity_fn_name": "cosine",
			"truncate_dim": 64}`),
	}
	if p, err := Parse(lookup(files), described); err != nil || *p != (Pooling{Mode: Mean, Normalize: true}) {
		t.Errorf("%v, %v", p, err)
	}
}

// TestMaxTokens: a text is as long as the transformer declares, else the tokenizer, if that is shorter than what the
// model was made for.
func TestMaxTokens(t *testing.T) {
	for _, c := range []struct {
		transformer, tokenizer string
		want                   int
	}{
		{`{"max_seq_length": 512}`, `{"model_max_length": 200}`, 512},
		{`{"max_seq_length": null}`, `{"model_max_length": 200}`, 200},
		{`{}`, `{"model_max_length": 1000000000000000019884624838656}`, 0},
		{`{}`, `{"model_max_length": 1024}`, 0},
		{`{}`, `{"model_max_length": 1023}`, 1023},
		{`{"max_seq_length": 2048}`, `{}`, 0},
	} {
		files := (&Pooling{Mode: Mean}).Files(described)
		files[modules.TransformerFile], files[modules.TokenizerFile] = []byte(c.transformer), []byte(c.tokenizer)
		if p, err := Parse(lookup(files), described); err != nil || p.MaxTokens != c.want {
			t.Errorf("%s, %s: %v, %v; want %d", c.transformer, c.tokenizer, p, err, c.want)
		}
	}
}

// TestRefused: what is not computed is an error that names file and key.
func TestRefused(t *testing.T) {
	const pooled = `"word_embedding_dimension": 64, "pooling_mode_lasttoken": true`
	module := func(path, kind string) string { return fmt.Sprintf(`{"path": %q, "type": %q}`, path, kind) }
	transformer, pool := module("", "sentence_transformers.models.Transformer"),
		module("1_Pooling", "sentence_transformers.models.Pooling")
	norm := module("2_Normalize", "sentence_transformers.models.Normalize")
	for _, c := range []struct{ file, text, want string }{
		{poolingFile, "", "1_Pooling/config.json is missing"},
		{poolingFile, `{"pooling_mode_cls_token": true}`, `"pooling_mode_cls_token" is true`},
		{poolingFile, `{"pooling_mode_max_tokens": true, ` + pooled + `}`, `"pooling_mode_max_tokens" is true`},
		{poolingFile, `{"pooling_mode_weightedmean_tokens": true}`, `"pooling_mode_weightedmean_tokens" is true`},
		{poolingFile, `{"pooling_mode_mean_tokens": true, ` + pooled + `}`, `"pooling_mode_lasttoken" is true`},
		{poolingFile, `{"pooling_mode": "cls"}`, `"pooling_mode" is "cls"`},
		{poolingFile, `{"pooling_mode": ["lasttoken", "mean"]}`, `"pooling_mode" is an array`},
		{poolingFile, `{"word_embedding_dimension": 65}`, `"word_embedding_dimension" is "65"`},
		{poolingFile, `{` + pooled + `, "include_prompt": false}`, `"include_prompt" is false`},
		{poolingFile, `{` + pooled + `, "frob": 1}`, `"frob" is "1"`},
		{poolingFile, `{"pooling_mode_lasttoken": false}`, "no pooling mode is chosen"},
		{poolingFile, `{` + pooled + `}`, "there is no pooling_mode_mean_tokens"},
		{poolingFile, `[]`, "array where an object is expected"},
		{modules.TransformerFile, `{"do_lower_case": true}`, `"do_lower_case" is true`},
		{modules.TransformerFile, `{"max_seq_length": 0}`, `"max_seq_length" is "0"`},
		{modules.TransformerFile, `{"transformer_task": "text-generation"}`, `"transformer_task" is "text-generation"`},
		{modules.TransformerFile, `{"modality_config": {"message": {"method": "forward",
			"method_output_name": "last_hidden_state"}}}`, `"modality_config" is an object`},
		{modules.TransformerFile, `{"modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"},
			"message": {"method": "forward", "method_output_name": "last_hidden_state"}}}`, `"modality_config" is an object`},
		{modules.TransformerFile, `{"modality_config": {"text": {"method": "get_text_features",
			"method_output_name": "last_hidden_state"}}}`, `"modality_config" is an object`},
		{modules.TransformerFile, `{"processing_kwargs": {"text": {"padding": true}}}`, `"processing_kwargs" is an object`},
		{modules.ListFile, `{}`, "object where a list of modules is expected"},
		{modules.ListFile, `[` + transformer + `]`, "the modules are Transformer"},
		{modules.ListFile, `[` + transformer + "," + norm + "," + pool + `]`, "the modules are Transformer, Normalize, Pooling"},
		{modules.ListFile, `[` + transformer + "," + pool + "," + norm + "," + norm + `]`, "Normalize, Normalize"},
		{modules.ListFile, `[` + transformer + "," + pool + "," + module("2_Dense", "sentence_transformers.models.Dense") + `]`,
			`module 2 is a "sentence_transformers.models.Dense"`},
		{modules.ListFile, `[` + module("", "custom.Transformer") + "," + pool + `]`, `module 0 is a "custom.Transformer"`},
		{modules.ListFile, `[` + transformer + "," + module("pool", "sentence_transformers.models.Pooling") + `]`,
			`has the path "pool"`},
		{modules.ListFile, `[` + module("0_T", "sentence_transformers.models.Transformer") + "," + pool + `]`,
			`has the path "0_T"`},
		{normalizeFile, `{"module_input_name": "token_embeddings"}`, `"module_input_name" is "token_embeddings"`},
		{modules.ListFile, `[{"path": ""}]`, "has no type or no path"},
		{modules.ConfigFile, `{"auto_map": {"AutoModel": "modeling.Model"}}`, `auto_map names code of the checkpoint`},
		{modules.SettingsFile, `{"truncate_dim": 63}`, `"truncate_dim" is "63"`},
		{modules.SettingsFile, `{"truncate_dim": -1}`, `"truncate_dim" is "-1"`},
		{modules.SettingsFile, `{"truncate_dim": true}`, `"truncate_dim" is true`},
		{modules.SettingsFile, `{"model_type": "CrossEncoder"}`, `"model_type" is "CrossEncoder"`},
		{modules.SettingsFile, `{"model_type": "SparseEncoder"}`, `"model_type" is "SparseEncoder"`},
		{modules.SettingsFile, `{"model_type": "MultiVectorEncoder"}`, `"model_type" is "MultiVectorEncoder"`},
		{modules.SettingsFile, `{"model_type": null}`, `"model_type" is null`},
		{modules.SettingsFile, `{"max_active_dims": 8}`, `"max_active_dims" is "8"`},
		{modules.SettingsFile, `{"default_prompt_name": ["query"]}`, `"default_prompt_name" is an array`},
		{modules.SettingsFile, `{"prompts": null}`, `"prompts" is null`},
		{modules.SettingsFile, `{"prompts": {"query": 1}}`, `"prompts" is an object`},
	} {
		files := maps.Clone((&Pooling{Mode: LastToken, Normalize: true}).Files(described))
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
}

// TestOlderNames: an older name of the transformer's file is refused where sentence-transformers reads it.
func TestOlderNames(t *testing.T) {
	for _, name := range []string{"roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"} {
		name = "sentence_" + name + "_config.json"
		for text, taken := range map[string]bool{"": false, "{}": false, `{"max_seq_length": 512}`: true} {
			files := (&Pooling{Mode: Mean}).Files(described)
			files[name], files[modules.TransformerFile] = []byte(`{"max_seq_length": 2}`), []byte(text)
			if text == "" {
				delete(files, modules.TransformerFile)
			}
			_, err := Parse(lookup(files), described)
			if taken != (err == nil) || err != nil && (!errors.Is(err, pack.ErrUnsupported) ||
				!strings.Contains(err.Error(), name+" is an older name of sentence_bert_config.json")) {
				t.Errorf("%s beside %q: %v", name, text, err)
			}
		}
	}
}

// TestMeanOfStages: where rotations depend on the length of a text, a mean is taken of texts for which they do not.
func TestMeanOfStages(t *testing.T) {
	const fixed = 256
	for _, rope := range []model.Rope{
		{Dynamic: 2, OriginalMaxPositions: fixed},
		{LongRope: &model.LongRope{Short: []float64{1}, Long: []float64{2}}, OriginalMaxPositions: fixed},
	} {
		d := &model.Description{Config: model.Config{Hidden: hidden, MaxPositions: positions, Rope: rope}}
		for _, c := range []struct {
			p     Pooling
			taken bool
		}{
			{Pooling{Mode: Mean}, false},
			{Pooling{Mode: Mean, MaxTokens: fixed + 1}, false},
			{Pooling{Mode: Mean, MaxTokens: fixed}, true},
			{Pooling{Mode: LastToken}, true},
		} {
			_, err := Parse(lookup(c.p.Files(described)), d)
			if c.taken != (err == nil) || err != nil && (!errors.Is(err, pack.ErrUnsupported) ||
				!strings.Contains(err.Error(), "to 256, or remove modules.json")) {
				t.Errorf("%s: %v", &c.p, err)
			}
		}
	}
}

// TestCheck: undefined values of a manifest are refused.
func TestCheck(t *testing.T) {
	for _, p := range []Pooling{{}, {Mode: "cls"}, {Mode: Mean, MaxTokens: -1},
		{Mode: Mean, MaxTokens: modules.MostTokens + 1}} {
		if p.Check() == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}

// TestPrompts: the names of prompts that are not empty, in order, and the usual one, as Python reads them.
func TestPrompts(t *testing.T) {
	file := func(text string) func(string) ([]byte, bool) {
		return lookup(map[string][]byte{modules.SettingsFile: []byte(text)})
	}
	for text, want := range map[string]string{
		`{"prompts": {"query": "Query: ", "document": "", "web": "w"}, "default_prompt_name": "web"}`: `[query web] "web"`,
		`{"prompts": {"query": "Query: ", "document": null}, "default_prompt_name": null}`:            `[query] ""`,
		`{"prompts": {"query": "q"}, "default_prompt_name": "query", "x": NaN}`:                       `[query] "query"`,
		`{}`: `[] ""`,
	} {
		names, usual, err := Prompts(file(text))
		if got := fmt.Sprintf("%v %q", names, usual); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	if _, _, err := Prompts(file("[")); err == nil || !strings.Contains(err.Error(), modules.SettingsFile) {
		t.Error(err)
	}
	if names, usual, err := Prompts(lookup(nil)); len(names) > 0 || usual != "" || err != nil {
		t.Errorf("without the file: %v, %q, %v", names, usual, err)
	}
}

// FuzzParse: whatever the files hold, Parse returns a pooling that passes Check, or an error.
func FuzzParse(f *testing.F) {
	files := (&Pooling{LastToken, true, 512}).Files(described)
	f.Add(files[modules.ListFile], files[poolingFile], files[modules.TransformerFile])
	f.Fuzz(func(t *testing.T, list, pool, transformer []byte) {
		files := map[string][]byte{modules.ListFile: list, poolingFile: pool, modules.TransformerFile: transformer}
		p, err := Parse(lookup(files), described)
		if err != nil {
			return
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(lookup(p.Files(described)), described)
		if err != nil || *again != *p || bytes.Contains([]byte(p.String()), []byte("%!")) {
			t.Errorf("%+v, then %+v, %v", p, again, err)
		}
	})
}
