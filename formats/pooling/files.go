package pooling

import (
	"encoding/json"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/internal/jsonread"
)

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

// Prompts returns the names of the prompts that a checkpoint declares, in the order of its file, and the one that
// sentence-transformers puts in front of a text by default, "" for none. They are not part of the pooling: whoever
// sends a text puts them there.
func Prompts(file func(name string) (data []byte, ok bool)) (names []string, usual string) {
	data, _ := file(promptsFile)
	v, err := jsonread.Parse(data, int(modelfile.Limit(promptsFile)))
	if err != nil { // only a note depends on it
		return nil, ""
	}
	prompts := v.Get("prompts")
	if prompts == nil {
		return nil, ""
	}
	for _, m := range prompts.Members {
		if m.Value.Text != "" {
			names = append(names, m.Key)
		}
	}
	usual, _ = v.Get("default_prompt_name").Str()
	return names, usual
}
