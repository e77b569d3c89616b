package pooling

import "encoding/json"

// Files returns the files of a checkpoint that declare the pooling, by name, for hidden states of a size: Parse and
// sentence-transformers read them.
func (p *Pooling) Files(hidden int) map[string][]byte {
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
	config := map[string]any{"word_embedding_dimension": hidden, "include_prompt": true}
	for _, m := range modes {
		config[m.key] = m.mode == p.Mode
	}
	files := map[string][]byte{modulesFile: indented(list), poolingFile: indented(config)}
	if p.MaxTokens > 0 {
		files[transformerFile] = indented(map[string]any{"max_seq_length": p.MaxTokens, "do_lower_case": false})
	}
	return files
}

func indented(v any) []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // strings, numbers and booleans
	}
	return append(text, '\n')
}
