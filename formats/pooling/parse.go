package pooling

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/internal/modules"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// The files of the modules.
const (
	poolingFile   = "1_Pooling/config.json"
	normalizeFile = "2_Normalize/config.json"
)

// Parse reads the files of a checkpoint, whose model d describes; file returns the bytes of one that exists. The result
// is nil without a modules.json, and with one of a model that makes scores (package scoring). Errors name file and key,
// and wrap pack.ErrCorrupt or pack.ErrUnsupported.
func Parse(file func(name string) (data []byte, ok bool), d *model.Description) (*Pooling, error) {
	files := modules.Files(file)
	if _, ok := file(modules.ListFile); !ok || files.Lists(modules.ScoreKind) {
		return nil, nil
	}
	if err := files.RefuseOlder(); err != nil {
		return nil, err
	}
	p, length := &Pooling{}, modules.Length(0)
	if err := files.Read(
		modules.Part{Name: modules.ListFile, Required: true, Read: p.readModules},
		modules.Part{Name: modules.ConfigFile, Read: refuseCode},
		modules.Part{Name: modules.TokenizerFile, Read: length.ReadTokenizer},
		modules.Part{Name: modules.TransformerFile, Read: readTransformer(&length)},
		modules.Part{Name: poolingFile, Required: true,
			Read: func(v *jsonread.Value) error { return p.readPooling(v, d.Hidden) }},
		modules.Part{Name: normalizeFile, Read: readNormalize},
		modules.Part{Name: modules.SettingsFile, Read: func(v *jsonread.Value) error { return readSettings(v, d) }},
	); err != nil {
		return nil, err
	}
	p.MaxTokens = length.Within(d.MaxPositions)
	if p.Mode == Mean && cmp.Or(p.MaxTokens, d.MaxPositions) > d.FixedPositions() {
		return nil, fmt.Errorf("%w: %s: a mean of texts of more than %d tokens, whose rotations depend on their "+
			"length (longrope, dynamic): each hidden state would be that of the text up to its token, not of the "+
			"whole; set max_seq_length of %s to %[3]d, or %[5]s", pack.ErrUnsupported, poolingFile, d.FixedPositions(),
			modules.TransformerFile, modules.Remedy)
	}
	return p, nil
}

// moduleKinds are the modules in their order; the last one may be absent.
var moduleKinds = []string{modules.TransformerKind, "Pooling", "Normalize"}

// readModules demands a transformer, its pooling, and no more than a normalization behind them.
func (p *Pooling) readModules(v *jsonread.Value) error {
	places := map[string]string{modules.TransformerKind: "", "Pooling": path.Dir(poolingFile),
		"Normalize": path.Dir(normalizeFile)}
	kinds, err := modules.ReadList(v, places, "Transformer, Pooling and Normalize")
	if err != nil {
		return err
	}
	p.Normalize = len(kinds) == 3
	if !slices.Equal(kinds, moduleKinds[:max(2, min(len(kinds), 3))]) {
		return fmt.Errorf("%w: the modules are %s; want Transformer, Pooling and, where vectors are normalized, "+
			"Normalize; %s", pack.ErrUnsupported, strings.Join(kinds, ", "), modules.Remedy)
	}
	return nil
}

// refuseCode refuses a model that brings a class of its own for hidden states: it is there because they are others,
// such as those of tokens that see the later ones too.
func refuseCode(v *jsonread.Value) error {
	if class := v.Get("auto_map").Get("AutoModel"); class != nil {
		return fmt.Errorf("%w: auto_map names code of the checkpoint for AutoModel, %s: embeddings are meant to be "+
			"made by it, and its hidden states may be others (attention to later tokens); %s", pack.ErrUnsupported,
			modules.Show(class), modules.Remedy)
	}
	return nil
}

// readNormalize demands that the vector of the text is what the third module normalizes.
func readNormalize(v *jsonread.Value) error {
	return modules.EachKey(v, func(key string, v *jsonread.Value) bool {
		return (key == "module_input_name" || key == "module_output_name") && v.Text == "sentence_embedding"
	})
}

// readTransformer reads how the first module makes hidden states of a text.
func readTransformer(length *modules.Length) func(v *jsonread.Value) error {
	return func(v *jsonread.Value) error {
		return modules.EachKey(v, func(key string, v *jsonread.Value) bool {
			switch key {
			case "transformer_task":
				return v.Text == "feature-extraction"
			case "module_output_name":
				return v.Text == "token_embeddings"
			case "modality_config":
				return plainText(v)
			case "processing_kwargs":
				return len(v.Members) == 0
			}
			return length.ReadTransformer(key, v)
		})
	}
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
	err := modules.EachKey(v, func(key string, v *jsonread.Value) bool {
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
			"take for true and newer ones for false; add it, or %s", pack.ErrUnsupported, modules.Remedy)
	}
	return nil
}

// choose sets the mode, if it is known and the only one.
func (p *Pooling) choose(m Mode) bool {
	first := p.Mode == "" || p.Mode == m
	p.Mode = m
	return first && p.Check() == nil
}
