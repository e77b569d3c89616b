package scoring

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/internal/modules"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// scoreFile has the settings of the second module.
const scoreFile = "1_LogitScore/config.json"

// The names that tie the parts together.
const (
	logitsName = "causal_logits"   // what the first module hands to the second
	task       = "text-generation" // of the first module: the model with its output head
	modelType  = "CrossEncoder"
	activation = "activation_fn" // key of the settings and, in older releases, of config.json
)

// Parse reads the files of a checkpoint, whose model d describes; file returns the bytes of one that exists. The result
// is nil without a modules.json with a LogitScore. Errors name file and key, and wrap pack.ErrCorrupt or
// pack.ErrUnsupported.
func Parse(file func(name string) (data []byte, ok bool), d *model.Description) (*Scoring, error) {
	files := modules.Files(file)
	if !files.Lists(modules.ScoreKind) {
		return nil, nil
	}
	if err := files.RefuseOlder(); err != nil {
		return nil, err
	}
	s, length := &Scoring{False: None}, modules.Length(0)
	if err := files.Read(
		modules.Part{Name: modules.ListFile, Required: true, Read: readModules},
		modules.Part{Name: modules.TokenizerFile, Read: length.ReadTokenizer},
		modules.Part{Name: modules.TransformerFile, Required: true,
			Read: func(v *jsonread.Value) error { return s.readTransformer(v, &length) }},
		modules.Part{Name: scoreFile, Required: true,
			Read: func(v *jsonread.Value) error { return s.readScore(v, d.Vocab) }},
		modules.Part{Name: modules.SettingsFile, Required: true, Read: s.readSettings},
		modules.Part{Name: modules.ConfigFile, Read: s.readConfig},
	); err != nil {
		return nil, err
	}
	if s.Activation == "" { // without a config.json too
		s.Activation = Sigmoid
	}
	s.MaxTokens = length.Within(d.MaxPositions)
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", modules.ListFile, err)
	}
	return s, nil
}

// readModules demands a transformer and what makes scores of its logits.
func readModules(v *jsonread.Value) error {
	want := []string{modules.TransformerKind, modules.ScoreKind}
	kinds, err := modules.ReadList(v, map[string]string{want[0]: "", want[1]: path.Dir(scoreFile)},
		strings.Join(want, " and ")+" in a model that makes scores")
	if err == nil && !slices.Equal(kinds, want) {
		err = fmt.Errorf("%w: the modules are %s; want %s; %s", pack.ErrUnsupported, strings.Join(kinds, ", "),
			strings.Join(want, ", "), modules.Remedy)
	}
	return err
}

// demand reports the first of the keys that an object lacks: without it, what is meant is something else.
func demand(v *jsonread.Value, keys ...string) error {
	for _, key := range keys {
		if v.Get(key) == nil {
			return fmt.Errorf("%w: there is no %s; %s", pack.ErrUnsupported, key, modules.Remedy)
		}
	}
	return nil
}

// readTransformer reads how the first module makes logits of a query and a document.
func (s *Scoring) readTransformer(v *jsonread.Value, length *modules.Length) error {
	if err := modules.EachKey(v, func(key string, v *jsonread.Value) bool {
		switch key {
		case "transformer_task":
			return v.Text == task
		case "module_output_name":
			return v.Text == logitsName
		case "modality_config":
			return s.readModalities(v)
		case "processing_kwargs":
			return s.readProcessing(v)
		}
		return length.ReadTransformer(key, v)
	}); err != nil {
		return err
	}
	return demand(v, "transformer_task", "module_output_name", "modality_config")
}

// readModalities demands that texts become messages, whose logits count. Without messages a pair would go through the
// tokenizer as two texts, which has its own rules for that.
func (s *Scoring) readModalities(v *jsonread.Value) bool {
	for i := range v.Members {
		m := &v.Members[i].Value
		method, _ := m.Get("method").Str()
		output, _ := m.Get("method_output_name").Str()
		keys := 2
		switch v.Members[i].Key {
		case "text": // becomes a message too
		case "message":
			format, _ := m.Get("format").Str()
			s.Format, keys = Format(format), 3
		default:
			return false
		}
		if method != "forward" || output != "logits" || len(m.Members) != keys {
			return false
		}
	}
	return s.Format == Flat || s.Format == Structured
}

// readProcessing reads how the chat template is rendered. Nothing else may be set: not padding, which changes nothing
// but is not known to, nor another length.
func (s *Scoring) readProcessing(v *jsonread.Value) bool {
	return v.Kind == jsonread.Object && !slices.ContainsFunc(v.Members, func(part jsonread.Member) bool {
		return part.Key != "chat_template" || part.Value.Kind != jsonread.Object ||
			slices.ContainsFunc(part.Value.Members, func(m jsonread.Member) bool {
				switch m.Key {
				case "add_generation_prompt":
					s.Generation = m.Value.Bool
				case "restore_suffix": // of a conversation that is cut; here none is
				default:
					return true
				}
				return m.Value.Kind != jsonread.Bool
			})
	})
}

// readScore reads the second module.
func (s *Scoring) readScore(v *jsonread.Value, vocab int) error {
	if err := modules.EachKey(v, func(key string, v *jsonread.Value) bool {
		n, isInt := v.Int()
		isToken := isInt && n >= 0 && n < int64(vocab)
		switch key {
		case "true_token_id":
			s.True = int(n)
			return isToken
		case "false_token_id":
			if isToken {
				s.False = int(n)
			}
			return isToken || v.Kind == jsonread.Null
		case "module_input_name":
			return v.Text == logitsName
		}
		return false
	}); err != nil {
		return err
	}
	return demand(v, "true_token_id")
}

// readSettings reads what sentence-transformers does around the modules. Without the type of the model it makes other
// modules than those of the list.
func (s *Scoring) readSettings(v *jsonread.Value) error {
	var p modules.Prompts
	var class *jsonread.Value
	if err := modules.EachKey(v, func(key string, v *jsonread.Value) bool {
		switch key {
		case "model_type":
			return v.Text == modelType
		case activation:
			class = v
			return true
		case "default_prompt_name":
			return p.Read(key, v) && (v.Kind == jsonread.Null || v.Text != "")
		case "__version__", "requirements", // what the checkpoint was saved with, and what Python must have
			"keep_in_fp32_modules": // computes more exactly
			return true
		}
		return p.Read(key, v)
	}); err != nil {
		return err
	}
	if err := demand(v, "model_type"); err != nil {
		return err
	}
	if _, known := p.Texts[p.Usual]; !known && p.Usual != "" {
		return fmt.Errorf("%w: default_prompt_name is %.80q, and prompts has none of that name", pack.ErrCorrupt,
			p.Usual)
	}
	if p.Usual != "" {
		s.Prompt = p.Texts[p.Usual]
	}
	return s.activate(class)
}

// readConfig reads the activation where older releases have it: it counts if the settings have none.
func (s *Scoring) readConfig(v *jsonread.Value) error {
	if s.Activation != "" {
		return nil
	}
	newer := v.Get("sentence_transformers")
	if newer != nil && slices.ContainsFunc(newer.Members, func(m jsonread.Member) bool { return m.Key == activation }) {
		return s.activate(newer.Get(activation)) // of null too
	}
	return s.activate(v.Get("sbert_ce_default_activation_function"))
}

// activate sets the activation of that class, if one is named.
func (s *Scoring) activate(class *jsonread.Value) error {
	if class == nil || class.Kind == jsonread.Null {
		return nil
	}
	for _, a := range activations {
		if class.Kind == jsonread.String && slices.Contains(a.classes, class.Text) {
			s.Activation = a.activation
			return nil
		}
	}
	return fmt.Errorf("%w: the activation is %s; there are Sigmoid and Identity; %s", pack.ErrUnsupported,
		modules.Show(class), modules.Remedy)
}
