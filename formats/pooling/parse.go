package pooling

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// The files that sentence-transformers reads.
const (
	modulesFile     = "modules.json"
	transformerFile = "sentence_bert_config.json"
	poolingFile     = "1_Pooling/config.json"
	normalizeFile   = "2_Normalize/config.json"
	promptsFile     = "config_sentence_transformers.json"
	tokenizerFile   = "tokenizer_config.json"
	configFile      = "config.json" // of the model
)

// remedy ends errors about what lowpack does not compute.
const remedy = "remove " + modulesFile + " to convert the model without embeddings"

// Parse reads the files of a checkpoint, whose model d describes; file returns the bytes of one that exists. The result
// is nil without a modules.json. Errors name file and key, and wrap pack.ErrCorrupt or pack.ErrUnsupported.
func Parse(file func(name string) (data []byte, ok bool), d *model.Description) (*Pooling, error) {
	if _, ok := file(modulesFile); !ok {
		return nil, nil
	}
	if err := refuseOlder(file); err != nil {
		return nil, err
	}
	p := &Pooling{}
	if err := p.readFiles(file, d); err != nil {
		return nil, err
	}
	if p.MaxTokens >= d.MaxPositions {
		p.MaxTokens = 0
	}
	if p.Mode == Mean && cmp.Or(p.MaxTokens, d.MaxPositions) > d.FixedPositions() {
		return nil, fmt.Errorf("%w: %s: a mean of texts of more than %d tokens, whose rotations depend on their "+
			"length (longrope, dynamic): each hidden state would be that of the text up to its token, not of the "+
			"whole; set max_seq_length of %s to %[3]d, or %[5]s", pack.ErrUnsupported, poolingFile, d.FixedPositions(),
			transformerFile, remedy)
	}
	return p, nil
}

// refuseOlder refuses the older names of the transformer's file where sentence-transformers reads them: beside none, or
// one without a key.
func refuseOlder(file func(name string) (data []byte, ok bool)) error {
	if data, ok := file(transformerFile); ok {
		var keys int
		err := readFile(transformerFile, data, func(v *jsonread.Value) error {
			keys = len(v.Members)
			return nil
		})
		if err != nil || keys > 0 {
			return nil // readFiles reads it
		}
	}
	for _, f := range modelfile.Embeddings() {
		if _, ok := file(f.Name); ok && f.Name != transformerFile && strings.HasPrefix(f.Name, "sentence_") {
			return fmt.Errorf("%w: %s is an older name of %s: rename it", pack.ErrUnsupported, f.Name, transformerFile)
		}
	}
	return nil
}

// readFiles reads all files.
func (p *Pooling) readFiles(file func(name string) (data []byte, ok bool), d *model.Description) error {
	for _, read := range []struct {
		name     string
		required bool
		read     func(v *jsonread.Value) error
	}{
		{modulesFile, true, p.readModules},
		{configFile, false, refuseCode},
		{tokenizerFile, false, p.readTokenizer},
		{transformerFile, false, p.readTransformer},
		{poolingFile, true, func(v *jsonread.Value) error { return p.readPooling(v, d.Hidden) }},
		{normalizeFile, false, readNormalize},
		{promptsFile, false, func(v *jsonread.Value) error { return readSettings(v, d) }},
	} {
		data, ok := file(read.name)
		if !ok && read.required {
			return fmt.Errorf("%w: %s is missing; %s asks for it, %s", pack.ErrCorrupt, read.name, modulesFile, remedy)
		}
		if !ok {
			continue
		}
		if err := readFile(read.name, data, read.read); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads the bytes of a file, as Python takes them, with read.
func readFile(name string, data []byte, read func(v *jsonread.Value) error) error {
	v, err := jsonread.ParsePython(data, int(modelfile.Limit(name)))
	if err == nil {
		err = read(v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// moduleKinds are the modules in their order; the last one may be absent.
var moduleKinds = []string{"Transformer", "Pooling", "Normalize"}

// readModules demands a transformer, its pooling, and no more than a normalization behind them.
func (p *Pooling) readModules(v *jsonread.Value) error {
	if v.Kind != jsonread.Array {
		return fmt.Errorf("%w: %s where a list of modules is expected", pack.ErrCorrupt, v.Kind)
	}
	places := map[string]string{"Pooling": path.Dir(poolingFile), "Normalize": path.Dir(normalizeFile)}
	var kinds []string
	for i := range v.Items {
		name, _ := v.Items[i].Get("type").Str()
		place, ok := v.Items[i].Get("path").Str()
		if !ok || name == "" {
			return fmt.Errorf("%w: module %d has no type or no path", pack.ErrCorrupt, i)
		}
		kind := name[strings.LastIndexByte(name, '.')+1:]
		switch {
		case !strings.HasPrefix(name, "sentence_transformers."), !slices.Contains(moduleKinds, kind):
			return fmt.Errorf("%w: module %d is a %.80q; there are Transformer, Pooling and Normalize; %s",
				pack.ErrUnsupported, i, name, remedy)
		case place != places[kind]:
			return fmt.Errorf("%w: module %d, %s, has the path %.80q; want %q", pack.ErrUnsupported, i, kind, place,
				places[kind])
		}
		kinds = append(kinds, kind)
	}
	p.Normalize = len(kinds) == 3
	if !slices.Equal(kinds, moduleKinds[:max(2, min(len(kinds), 3))]) {
		return fmt.Errorf("%w: the modules are %s; want Transformer, Pooling and, where vectors are normalized, "+
			"Normalize; %s", pack.ErrUnsupported, strings.Join(kinds, ", "), remedy)
	}
	return nil
}

// refuseCode refuses a model that brings a class of its own for hidden states: it is there because they are others,
// such as those of tokens that see the later ones too.
func refuseCode(v *jsonread.Value) error {
	if class := v.Get("auto_map").Get("AutoModel"); class != nil {
		return fmt.Errorf("%w: auto_map names code of the checkpoint for AutoModel, %s: embeddings are meant to be "+
			"made by it, and its hidden states may be others (attention to later tokens); %s", pack.ErrUnsupported,
			show(class), remedy)
	}
	return nil
}

// readTokenizer reads the length at which the tokenizer of a checkpoint cuts texts; a number that no text reaches says
// that it does not.
func (p *Pooling) readTokenizer(v *jsonread.Value) error {
	if n, ok := v.Get("model_max_length").Int(); ok && n > 0 && n <= mostTokens {
		p.MaxTokens = int(n)
	}
	return nil
}

// readNormalize demands that the vector of the text is what the third module normalizes.
func readNormalize(v *jsonread.Value) error {
	return eachKey(v, func(key string, v *jsonread.Value) bool {
		return (key == "module_input_name" || key == "module_output_name") && v.Text == "sentence_embedding"
	})
}

// readTransformer reads how the first module makes hidden states of a text.
func (p *Pooling) readTransformer(v *jsonread.Value) error {
	return eachKey(v, func(key string, v *jsonread.Value) bool {
		switch key {
		case "max_seq_length":
			n, ok := v.Int()
			if ok {
				p.MaxTokens = int(n)
			}
			return v.Kind == jsonread.Null || ok && n > 0 && n <= mostTokens
		case "do_lower_case":
			return v.Kind == jsonread.Bool && !v.Bool
		case "transformer_task":
			return v.Text == "feature-extraction"
		case "module_output_name":
			return v.Text == "token_embeddings"
		case "modality_config":
			return plainText(v)
		case "processing_kwargs":
			return len(v.Members) == 0
		case "unpad_inputs": // how a batch lies in memory
			return true
		}
		return false
	})
}

// plainText reports whether texts go to the model as they are and come back as hidden states. With "message" beside
// "text", every text is a message, in the chat template.
func plainText(v *jsonread.Value) bool {
	text := v.Get("text")
	if text == nil {
		return false
	}
	method, _ := text.Get("method").Str()
	output, _ := text.Get("method_output_name").Str()
	chat := slices.ContainsFunc(v.Members, func(m jsonread.Member) bool { return m.Key == "message" })
	return !chat && len(text.Members) == 2 && method == "forward" && output == "last_hidden_state"
}

// readPooling reads the second module: the names of modes, or in older files a key for each.
func (p *Pooling) readPooling(v *jsonread.Value, hidden int) error {
	err := eachKey(v, func(key string, v *jsonread.Value) bool {
		n, isInt := v.Int()
		switch key {
		case "embedding_dimension", "word_embedding_dimension":
			return isInt && n == int64(hidden)
		case "include_prompt": // without it, a mean leaves out tokens that the server cannot tell apart
			return v.Kind == jsonread.Bool && v.Bool
		case "pooling_mode":
			return p.choose(Mode(v.Text))
		}
		for _, m := range modes {
			if m.key == key {
				return v.Kind == jsonread.Bool && (!v.Bool || p.choose(m.mode))
			}
		}
		return strings.HasPrefix(key, "pooling_mode_") && v.Kind == jsonread.Bool && !v.Bool
	})
	switch {
	case err != nil:
		return err
	case p.Mode == "":
		return fmt.Errorf("%w: no pooling mode is chosen", pack.ErrCorrupt)
	case v.Get("pooling_mode") == nil && v.Get("pooling_mode_mean_tokens") == nil:
		return fmt.Errorf("%w: there is no pooling_mode_mean_tokens, which older releases of sentence-transformers "+
			"take for true and newer ones for false; add it, or %s", pack.ErrUnsupported, remedy)
	}
	return nil
}

// choose sets the mode, if it is known and the only one.
func (p *Pooling) choose(m Mode) bool {
	first := p.Mode == "" || p.Mode == m
	p.Mode = m
	return first && p.Check() == nil
}

// eachKey calls read with every key of an object and its value; the key for which it returns false is named.
func eachKey(v *jsonread.Value, read func(key string, v *jsonread.Value) bool) error {
	if v.Kind != jsonread.Object {
		return fmt.Errorf("%w: %s where an object is expected", pack.ErrCorrupt, v.Kind)
	}
	for i := range v.Members {
		if m := &v.Members[i]; !read(m.Key, &m.Value) {
			return fmt.Errorf("%w: %.80q is %s, which is not supported; %s", pack.ErrUnsupported, m.Key, show(&m.Value),
				remedy)
		}
	}
	return nil
}

func show(v *jsonread.Value) string {
	switch v.Kind {
	case jsonread.Bool:
		return fmt.Sprint(v.Bool)
	case jsonread.Number, jsonread.String:
		return fmt.Sprintf("%.80q", v.Text)
	}
	return v.Kind.String()
}
