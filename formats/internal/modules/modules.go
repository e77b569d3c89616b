// Package modules reads the files that sentence-transformers saves beside a model: the list of its modules, and what
// the settings of embeddings and of scores have in common.
package modules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// The files.
const (
	ListFile        = "modules.json"
	TransformerFile = "sentence_bert_config.json"
	SettingsFile    = "config_sentence_transformers.json"
	TokenizerFile   = "tokenizer_config.json"
	ConfigFile      = "config.json" // of the model
)

// Kinds of modules that tell what a model is for.
const (
	TransformerKind = "Transformer" // the model itself
	ScoreKind       = "LogitScore"  // makes scores of logits
)

// MostTokens bounds the tokens of a text.
const MostTokens = 1 << 24

// Remedy ends errors about what lowpack does not compute.
const Remedy = "remove " + ListFile + " to convert the model without embeddings and scores"

// Files returns the bytes of a file that exists.
type Files func(name string) (data []byte, ok bool)

// Part is a file and what reads it.
type Part struct {
	Name     string
	Required bool
	Read     func(v *jsonread.Value) error
}

// Read reads files in their order. Errors name file and key, and wrap pack.ErrCorrupt or pack.ErrUnsupported.
func (f Files) Read(parts ...Part) error {
	for _, p := range parts {
		data, ok := f(p.Name)
		if !ok && p.Required {
			return fmt.Errorf("%w: %s is missing; %s asks for it, %s", pack.ErrCorrupt, p.Name, ListFile, Remedy)
		}
		if !ok {
			continue
		}
		v, err := jsonread.ParsePython(data, int(modelfile.Limit(p.Name)))
		if err == nil {
			err = p.Read(v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// RefuseOlder refuses the older names of the transformer's file where sentence-transformers reads them: beside none, or
// one without a key.
func (f Files) RefuseOlder() error {
	keys := 0
	if f.Read(Part{TransformerFile, true, func(v *jsonread.Value) error {
		keys = len(v.Members)
		return nil
	}}) == nil && keys > 0 {
		return nil
	}
	for _, older := range modelfile.Sentence() {
		if _, ok := f(older.Name); ok && older.Name != TransformerFile && strings.HasPrefix(older.Name, "sentence_") {
			return fmt.Errorf("%w: %s is an older name of %s: rename it", pack.ErrUnsupported, older.Name,
				TransformerFile)
		}
	}
	return nil
}

// Module is an item of the list of modules.
type Module struct {
	Index int    `json:"idx"`
	Name  string `json:"name"`
	Path  string `json:"path"` // of its folder
	Type  string `json:"type"` // its class
}

// Kind is the class of a module of sentence-transformers without its packages; "" = it is of somebody else.
func (m *Module) Kind() string {
	if !strings.HasPrefix(m.Type, "sentence_transformers.") {
		return ""
	}
	return m.Type[strings.LastIndexByte(m.Type, '.')+1:]
}

// Lists reports whether the list has a module of that kind.
func (f Files) Lists(kind string) (found bool) {
	f.Read(Part{ListFile, false, func(v *jsonread.Value) error { // another reader tells its errors
		list, err := listOf(v)
		found = slices.ContainsFunc(list, func(m Module) bool { return m.Kind() == kind })
		return err
	}})
	return found
}

func listOf(v *jsonread.Value) (list []Module, err error) {
	if v.Kind != jsonread.Array {
		return nil, fmt.Errorf("%w: %s where a list of modules is expected", pack.ErrCorrupt, v.Kind)
	}
	for i := range v.Items {
		name, _ := v.Items[i].Get("type").Str()
		place, ok := v.Items[i].Get("path").Str()
		if !ok || name == "" {
			return nil, fmt.Errorf("%w: module %d has no type or no path", pack.ErrCorrupt, i)
		}
		list = append(list, Module{Index: i, Path: place, Type: name})
	}
	return list, nil
}

// ReadList demands modules of the kinds that places has, each in its place, and returns their kinds, in their order.
func ReadList(v *jsonread.Value, places map[string]string, known string) (kinds []string, err error) {
	list, err := listOf(v)
	if err != nil {
		return nil, err
	}
	for i := range list {
		m := &list[i]
		place, ok := places[m.Kind()]
		switch {
		case !ok:
			return nil, fmt.Errorf("%w: module %d is a %.80q; there are %s; %s", pack.ErrUnsupported, i, m.Type, known,
				Remedy)
		case m.Path != place:
			return nil, fmt.Errorf("%w: module %d, %s, has the path %.80q; want %q", pack.ErrUnsupported, i, m.Kind(),
				m.Path, place)
		}
		kinds = append(kinds, m.Kind())
	}
	return kinds, nil
}

// EachKey calls read with every key of an object and its value; the key for which it returns false is named.
func EachKey(v *jsonread.Value, read func(key string, v *jsonread.Value) bool) error {
	if v.Kind != jsonread.Object {
		return fmt.Errorf("%w: %s where an object is expected", pack.ErrCorrupt, v.Kind)
	}
	for i := range v.Members {
		if m := &v.Members[i]; !read(m.Key, &m.Value) {
			return fmt.Errorf("%w: %.80q is %s, which is not supported; %s", pack.ErrUnsupported, m.Key, Show(&m.Value),
				Remedy)
		}
	}
	return nil
}

// Show is a value as errors have it.
func Show(v *jsonread.Value) string {
	switch v.Kind {
	case jsonread.Bool:
		return fmt.Sprint(v.Bool)
	case jsonread.Number, jsonread.String:
		return fmt.Sprintf("%.80q", v.Text)
	}
	return v.Kind.String()
}

// Indented is a value as JSON for people.
func Indented(v any) []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // strings, numbers and booleans
	}
	return append(text, '\n')
}
