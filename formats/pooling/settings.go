package pooling

import (
	"github.com/lowpack/lowpack/formats/internal/modules"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/jsonread"
)

// readSettings reads what sentence-transformers does around the modules.
func readSettings(v *jsonread.Value, d *model.Description) error {
	return modules.EachKey(v, func(key string, v *jsonread.Value) bool {
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
		return new(modules.Prompts).Read(key, v)
	})
}

// Prompts returns the names of the prompts that a checkpoint declares, in the order of its file, and the one that
// sentence-transformers puts in front of a text by default, "" for none. They are not part of the pooling: whoever
// sends a text puts them there. Errors are those of Parse.
func Prompts(file func(name string) (data []byte, ok bool)) (names []string, usual string, err error) {
	var p modules.Prompts
	err = modules.Files(file).Read(modules.Part{Name: modules.SettingsFile, Read: func(v *jsonread.Value) error {
		for i := range v.Members {
			p.Read(v.Members[i].Key, &v.Members[i].Value)
		}
		return nil
	}})
	return p.Names, p.Usual, err
}
