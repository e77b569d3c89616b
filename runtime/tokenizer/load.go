package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// Files returns the files of a model by name.
type Files func(name string) (data []byte, ok bool)

// FileNames lists every file that Load may read. A packed file that contains those that exist has the same tokenizer as
// its checkpoint.
func FileNames() []string {
	return []string{
		tokenizerJSON, configJSON, templateFile, templateJSON, generationJSON, modelJSON,
		sentencePiece, vocabJSON, mergesText, specialMapJSON,
	}
}

const (
	tokenizerJSON  = "tokenizer.json"
	configJSON     = "tokenizer_config.json"
	templateFile   = "chat_template.jinja"
	templateJSON   = "chat_template.json"
	generationJSON = "generation_config.json"
	modelJSON      = "config.json"
	sentencePiece  = "tokenizer.model" // or a tiktoken file of that name
	vocabJSON      = "vocab.json"
	mergesText     = "merges.txt"
	specialMapJSON = "special_tokens_map.json"
)

// Load reads the tokenizer of a model: tokenizer.json, or tokenizer.model, or vocab.json with merges.txt, the first
// that exists; and special tokens, stop tokens and chat templates from the other files. Errors name the file and wrap
// pack.ErrCorrupt, pack.ErrUnsupported or pack.ErrLimit. A chat template that cannot be parsed is an error only in
// Chat.
func Load(files Files) (*Tokenizer, error) {
	if err := checkSizes(files); err != nil {
		return nil, err
	}
	c, err := readConfig(files)
	if err != nil {
		return nil, err
	}
	t, file, err := readVocabulary(files, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := c.apply(t, file); err != nil {
		return nil, fmt.Errorf("%s: %w", configJSON, err)
	}
	t.readTemplates(files, c)
	return t, t.readStops(files)
}

// readVocabulary reads the first vocabulary file that exists, and returns its name.
func readVocabulary(files Files, c *config) (t *Tokenizer, file string, err error) {
	if data, ok := files(tokenizerJSON); ok {
		t, err = readJSON(data)
		return t, tokenizerJSON, filekind.Explain(err, data)
	}
	if data, ok := files(sentencePiece); ok {
		if looksLikeTiktoken(data) {
			t, err = readTiktoken(data, c)
		} else {
			t, err = readSentencePiece(data, c)
		}
		return t, sentencePiece, filekind.Explain(err, data)
	}
	vocabulary, ok1 := files(vocabJSON)
	rules, ok2 := files(mergesText)
	if ok1 && ok2 {
		t, err = readVocabAndMerges(vocabulary, rules, c)
		return t, vocabJSON + " and " + mergesText, filekind.Explain(err, vocabulary, rules)
	}
	return nil, "tokenizer", fmt.Errorf("%w: there is no %s, no %s, and no %s with %s; "+
		"put the tokenizer of the model beside its config.json, and convert again",
		pack.ErrUnsupported, tokenizerJSON, sentencePiece, vocabJSON, mergesText)
}

// config is the content of tokenizer_config.json, completed by special_tokens_map.json.
type config struct {
	class          string
	addBOS, addEOS *bool
	legacy         *bool
	tokens         map[string]string // "bos_token" … by role
	added          []addedToken      // added_tokens_decoder
	templates      *jsonread.Value
}

// tokenRoles are the special tokens that templates refer to by name.
var tokenRoles = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

func readConfig(files Files) (*config, error) {
	c := &config{tokens: map[string]string{}}
	for _, name := range []string{specialMapJSON, configJSON} {
		v, err := parseFile(files, name)
		if err != nil {
			return nil, err
		}
		for _, role := range tokenRoles {
			if token := tokenText(v.Get(role)); token != "" {
				c.tokens[role] = token
			}
		}
		if name == configJSON {
			if err := c.read(v); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return c, nil
}

// parseFile parses a small JSON file; nil when it does not exist.
func parseFile(files Files, name string) (*jsonread.Value, error) {
	data, ok := files(name)
	if !ok {
		return nil, nil
	}
	v, err := jsonread.Parse(data, int(modelfile.Limit(name)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, filekind.Explain(err, data))
	}
	return v, nil
}

// checkSizes rejects files that exceed the size limit of their names.
func checkSizes(files Files) error {
	for _, name := range FileNames() {
		if data, ok := files(name); ok && int64(len(data)) > modelfile.Limit(name) {
			return fmt.Errorf("%s: %w: %d bytes; at most %d are read", name, pack.ErrLimit, len(data),
				modelfile.Limit(name))
		}
	}
	return nil
}

// tokenText is the written form of a token, given as a string or as an object.
func tokenText(v *jsonread.Value) string {
	if s, ok := v.Str(); ok {
		return s
	}
	s, _ := v.Get("content").Str()
	return s
}

func (c *config) read(v *jsonread.Value) error {
	c.class, _ = v.Get("tokenizer_class").Str()
	c.templates = v.Get("chat_template")
	for key, to := range map[string]**bool{"add_bos_token": &c.addBOS, "add_eos_token": &c.addEOS,
		"legacy": &c.legacy} {
		if f := v.Get(key); f != nil && f.Kind == jsonread.Bool {
			*to = &f.Bool
		}
	}
	decoder := v.Get("added_tokens_decoder")
	if decoder == nil {
		return nil
	}
	if len(decoder.Members) > maxAdded {
		return fmt.Errorf("%w: %d added tokens, more than %d", pack.ErrLimit, len(decoder.Members), maxAdded)
	}
	for i := range decoder.Members {
		m := &decoder.Members[i]
		id := jsonread.Value{Kind: jsonread.Number, Text: m.Key}
		n, ok := id.Int()
		if !ok || n < 0 || n > maxTokens+maxAdded {
			return fmt.Errorf("%w: added_tokens_decoder: %.40q is not a token id", pack.ErrCorrupt, m.Key)
		}
		a, err := readAddedToken(fmt.Sprintf("added_tokens_decoder %d", n), &m.Value)
		if err != nil {
			return err
		}
		a.id = int(n)
		c.added = append(c.added, a)
	}
	return nil
}

// apply sets the special tokens before and after a text where tokenizer_config.json decides about them: for tokenizers
// whose class does so, and for files that do not define them.
func (c *config) apply(t *Tokenizer, file string) error {
	t.roles = c.tokens
	ofClass := func(family string) bool { return strings.HasPrefix(c.class, family) }
	decides := file != tokenizerJSON || slices.ContainsFunc([]string{"Llama", "CodeLlama", "Gemma"}, ofClass)
	if !decides {
		return nil
	}
	if c.addBOS != nil {
		if err := t.setAround(&t.before, c.tokens["bos_token"], *c.addBOS); err != nil {
			return err
		}
	}
	if c.addEOS != nil {
		return t.setAround(&t.after, c.tokens["eos_token"], *c.addEOS)
	}
	return nil
}

// readStops collects the tokens that end an answer.
func (t *Tokenizer) readStops(files Files) error {
	t.addStop(t.roles["eos_token"])
	t.addStop(t.endOfTurn())
	for _, name := range []string{generationJSON, modelJSON} {
		v, err := parseFile(files, name)
		if err != nil {
			return err
		}
		ids := v.Get("eos_token_id")
		if ids == nil {
			continue
		}
		items := []jsonread.Value{*ids}
		if ids.Kind == jsonread.Array {
			items = ids.Items
		}
		for i := range items {
			if n, ok := items[i].Int(); ok && n >= 0 && n < int64(t.Size()) {
				t.stops = append(t.stops, int(n))
			}
		}
	}
	slices.Sort(t.stops)
	t.stops = slices.Compact(t.stops)
	return nil
}

func (t *Tokenizer) addStop(token string) {
	if id, ok := t.ID(token); ok && token != "" {
		t.stops = append(t.stops, id)
	}
}
