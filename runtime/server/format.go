package server

import (
	"container/list"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/runtime/server/grammar"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// maxFormats is the number of compiled grammars cached per model, with their masks.
const maxFormats = 16

// formats caches the vocabulary and the compiled grammars of a model: many requests share one.
type formats struct {
	once       sync.Once
	vocabulary *grammar.Vocabulary
	opening    sync.Once
	withOpener *grammar.Vocabulary

	// observe wraps the work that formats add to a request, for tests and benchmarks; nil = run it directly.
	observe func(work func())

	mu    sync.Mutex
	known map[string]*list.Element
	order list.List // of namedGrammar, most recently used first
}

type namedGrammar struct {
	name string
	*grammar.Grammar
}

// words returns the vocabulary of constrained output, which excludes control tokens.
func (m *model) words() *grammar.Vocabulary {
	m.formats.once.Do(func() { m.formats.vocabulary = m.newVocabulary(-1) })
	return m.formats.vocabulary
}

// vocabularyWith also includes the control token that opens a tool call.
func (m *model) vocabularyWith(opener int) *grammar.Vocabulary {
	m.formats.opening.Do(func() { m.formats.withOpener = m.newVocabulary(opener) })
	return m.formats.withOpener
}

func (m *model) newVocabulary(opener int) *grammar.Vocabulary {
	return grammar.NewVocabulary(m.vocab, func(id int) []byte {
		if id != opener && m.Tokenizer.Special(id) || slices.Contains(m.stops, id) {
			return nil
		}
		return m.Tokenizer.TokenBytes(id)
	})
}

// run runs work on behalf of a format.
func (f *formats) run(work func()) {
	if f.observe != nil {
		f.observe(work)
		return
	}
	work()
}

// get returns the grammar cached under name, or compiles it. name must contain everything that the grammar depends on.
func (f *formats) get(name string, compile func() (*grammar.Grammar, error)) (g *grammar.Grammar, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.known[name]; e != nil {
		f.order.MoveToFront(e)
		return e.Value.(namedGrammar).Grammar, nil
	}
	if f.run(func() { g, err = compile() }); err != nil {
		return nil, err
	}
	if f.known == nil {
		f.known = map[string]*list.Element{}
	}
	f.known[name] = f.order.PushFront(namedGrammar{name, g})
	if f.order.Len() > maxFormats {
		last := f.order.Remove(f.order.Back()).(namedGrammar)
		delete(f.known, last.name)
	}
	return g, nil
}

// responseFormat is OpenAI's object, or llama-server's, which has the schema outside json_schema.
type responseFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
	JSON   struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// unread returns the schema field that Type does not use; "" = none.
func (f *responseFormat) unread() string {
	switch {
	case f.Schema != nil && f.Type != "json_object":
		return "schema"
	case f.JSON.Schema != nil && f.Type != "json_schema":
		return "json_schema"
	}
	return ""
}

// readFormat reads the output format: response_format, vLLM's guided_json, guided_regex and guided_choice, or
// llama-server's grammar.
func (s *settings) readFormat(b *api.Body, m *model) {
	var f responseFormat
	if b.Decode("response_format", &f, "an object with a type") {
		if string(f.Schema) == "null" {
			f.Schema = nil
		}
		if string(f.JSON.Schema) == "null" {
			f.JSON.Schema = nil
		}
		if unread := f.unread(); unread != "" {
			b.Unsupported("response_format", "response_format: type %.40q does not use %s", f.Type, unread)
		}
		switch f.Type {
		case "text":
		case "json_object":
			s.useSchema(b, m, "response_format", f.Schema)
		case "json_schema":
			if f.JSON.Schema == nil {
				b.Fail("response_format", "response_format: json_schema.schema is missing")
			}
			s.useSchema(b, m, "response_format", f.JSON.Schema)
		default:
			b.Fail("response_format", "response_format of type %.40q: must be one of text, json_object, json_schema",
				f.Type)
		}
	}
	if schema := b.Raw("guided_json"); schema != nil {
		text := ""
		if json.Unmarshal(schema, &text) == nil { // a schema as a string
			schema = json.RawMessage(text)
		}
		s.useSchema(b, m, "guided_json", schema)
	}
	if pattern := ""; b.String("guided_regex", &pattern) {
		s.use(b, m, "guided_regex", "regex "+pattern,
			func() (*grammar.Grammar, error) { return grammar.Regex(pattern) })
	}
	if text := ""; b.String("grammar", &text) && text != "" {
		s.use(b, m, "grammar", "grammar "+text, func() (*grammar.Grammar, error) { return grammar.GBNF(text) })
	}
	var texts []string
	if b.Strings("guided_choice", &texts, maxBiases) {
		if len(texts) == 0 {
			b.Unsupported("guided_choice", "guided_choice is empty")
			return
		}
		s.use(b, m, "guided_choice", "choice "+string(b.Raw("guided_choice")),
			func() (*grammar.Grammar, error) { return grammar.Choice(texts) })
	}
}

// useSchema constrains the output to a JSON schema; nil = any object.
func (s *settings) useSchema(b *api.Body, m *model, param string, schema json.RawMessage) {
	s.use(b, m, param, "schema "+string(schema), func() (*grammar.Grammar, error) {
		if schema == nil {
			return grammar.Object()
		}
		return grammar.Schema(schema)
	})
}

func (s *settings) use(b *api.Body, m *model, param, name string, compile func() (*grammar.Grammar, error)) {
	g, err := m.formats.get(name, compile)
	switch {
	case err != nil:
		b.Unsupported(param, "%s: %v", param, err)
	case s.format != nil:
		b.Unsupported(param, "%s cannot be combined with another format", param)
	case s.ignoreEOS || s.minTokens > 0:
		b.Unsupported(param,
			"%s cannot be combined with ignore_eos and min_tokens: the text ends where the format does",
			param)
	case len(m.stops) == 0:
		b.Unsupported(param, "%s is not supported: the model has no end-of-text token", param)
	}
	s.format, s.formatName = g, param
}

// constrain returns a logits processor that masks all tokens the format forbids, and the end tokens unless the format
// may end (N34).
func (s *settings) constrain(m *model) func([]int, []float32) {
	words := s.words
	if words == nil {
		words = m.words()
	}
	text, read := s.format.NewText(words), 0
	s.constrained = append(s.constrained, text)
	kept := make([]float32, len(s.ends))
	return func(generated []int, logits []float32) {
		for ; read < len(generated); read++ {
			text.Accept(generated[read])
		}
		mask, end := text.Allowed()
		for i, id := range s.ends {
			kept[i] = logits[id]
		}
		mask.Restrict(logits)
		for i, id := range s.ends {
			if end {
				logits[id] = kept[i]
			}
		}
	}
}

// check returns an error if the output could not satisfy its format; a client can choose another format.
func (s *settings) check() *api.Error {
	for _, text := range s.constrained {
		if text.Dead() {
			return unsupported(s.formatName,
				fmt.Errorf("%s: the model's vocabulary cannot express the format, or the format is too ambiguous at "+
					"this point; use another format", s.formatName))
		}
	}
	return nil
}
