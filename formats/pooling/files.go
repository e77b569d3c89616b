package pooling

import (
	"cmp"
	"encoding/json"

	"github.com/lowpack/lowpack/formats/model"
)

// Files returns the files of a checkpoint that declare the pooling, by name, for the model that d describes: Parse and
// sentence-transformers read them.
func (p *Pooling) Files(d *model.Description) map[string][]byte {
	type module struct {
		Index int    `json:"idx"`
		Name  string `json:"name"`
		Path  string `json:"path"`
		Type  string `json:"type"`
	}
	list := []module{
		{0, "0", "", "sentence_transformers.models.Transformer"},
		{1, "1", "1_Pooling", "sentence_transformers.models.Pooling"},
	}
	if p.Normalize {
		list = append(list, module{2, "2", "2_Normalize", "sentence_transformers.models.Normalize"})
	}
	config := map[string]any{"word_embedding_dimension": d.Hidden, "include_prompt": true}
	for _, m := range modes {
		config[m.key] = m.mode == p.Mode
	}
	// Without a length, that of tokenizer_config.json would be it.
	transformer := map[string]any{"max_seq_length": cmp.Or(p.MaxTokens, d.MaxPositions), "do_lower_case": false}
	return map[string][]byte{modulesFile: indented(list), poolingFile: indented(config),
		transformerFile: indented(transformer)}
}

func indented(v any) []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // strings, numbers and booleans
	}
	return append(text, '\n')
}
