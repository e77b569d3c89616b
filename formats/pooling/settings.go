package pooling

import (
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/jsonread"
)

// readSettings reads what sentence-transformers does around the modules.
func readSettings(v *jsonread.Value, d *model.Description) error {
	return eachKey(v, func(key string, v *jsonread.Value) bool {
		switch key {
		case "truncate_dim": // cuts vectors after they are normalized
			n, ok := v.Int()
			return v.Kind == jsonread.Null || ok && n >= int64(d.Hidden)
		case "model_type": // others make scores, sparse vectors or one vector per token of the same modules
			return v.Text == "SentenceTransformer"
		case "__version__", "requirements", // what the checkpoint was saved with, and what Python must have
			"similarity_fn_name": // compares vectors that are made
			return true
		}
		return new(prompts).read(key, v)
	})
}

// prompts are texts in front of a text, which whoever sends it puts there: they are not part of the pooling.
type prompts struct {
	names []string // of those that are not empty, in the order of the file
	usual string   // of the prompt of a text by default; "" = none
}

// read reads the value of a key, and reports whether it is one of prompts with a value as it should be.
func (p *prompts) read(key string, v *jsonread.Value) bool {
	switch key {
	case "default_prompt_name":
		p.usual = v.Text
		return v.Kind == jsonread.Null || v.Kind == jsonread.String
	case "prompts":
		for _, m := range v.Members {
			if m.Value.Text != "" {
				p.names = append(p.names, m.Key)
			}
		}
		return v.Kind == jsonread.Object && !slices.ContainsFunc(v.Members, func(m jsonread.Member) bool {
			return m.Value.Kind != jsonread.Null && m.Value.Kind != jsonread.String
		})
	}
	return false
}

// Prompts returns the names of the prompts that a checkpoint declares, in the order of its file, and the one that
// sentence-transformers puts in front of a text by default, "" for none. They are not part of the pooling: whoever
// sends a text puts them there. Errors are those of Parse.
func Prompts(file func(name string) (data []byte, ok bool)) (names []string, usual string, err error) {
	data, ok := file(promptsFile)
	if !ok {
		return nil, "", nil
	}
	var p prompts
	err = readFile(promptsFile, data, func(v *jsonread.Value) error {
		for i := range v.Members {
			p.read(v.Members[i].Key, &v.Members[i].Value)
		}
		return nil
	})
	return p.names, p.usual, err
}
