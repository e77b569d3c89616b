package pooling

import (
	"cmp"
	"path"

	"github.com/lowpack/lowpack/formats/internal/modules"
	"github.com/lowpack/lowpack/formats/model"
)

// Files returns the files of a checkpoint that declare the pooling, by name, for the model that d describes: Parse and
// sentence-transformers read them.
func (p *Pooling) Files(d *model.Description) map[string][]byte {
	list := []modules.Module{
		{Index: 0, Name: "0", Type: "sentence_transformers.models.Transformer"},
		{Index: 1, Name: "1", Path: path.Dir(poolingFile), Type: "sentence_transformers.models.Pooling"},
	}
	if p.Normalize {
		list = append(list, modules.Module{Index: 2, Name: "2", Path: path.Dir(normalizeFile),
			Type: "sentence_transformers.models.Normalize"})
	}
	config := map[string]any{"word_embedding_dimension": d.Hidden, "include_prompt": true}
	for _, m := range modes {
		config[m.key] = m.mode == p.Mode
	}
	// Without a length, that of tokenizer_config.json would be it.
	transformer := map[string]any{"max_seq_length": cmp.Or(p.MaxTokens, d.MaxPositions), "do_lower_case": false}
	return map[string][]byte{modules.ListFile: modules.Indented(list), poolingFile: modules.Indented(config),
		modules.TransformerFile: modules.Indented(transformer)}
}
