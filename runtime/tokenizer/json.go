package tokenizer

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// maxPartValues bounds the tree of a normalizer, pre-tokenizer, post-processor or decoder: up to maxParts parts with a
// dozen fields each.
const maxPartValues = 1 << 14

// readJSON reads tokenizer.json.
func readJSON(data []byte) (*Tokenizer, error) {
	f := fileReader{data: data}
	r := jsonread.NewReader(data)
	if err := r.Object(func(key string) error { return f.field(r, key) }); err != nil {
		return nil, err
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	if !f.sawModel {
		return nil, fmt.Errorf("%w: model is missing", pack.ErrCorrupt)
	}
	if f.tok == nil {
		if err := f.readModel(&f.model); err != nil {
			return nil, err
		}
	}
	return f.finish()
}

// fileReader collects the parts of a tokenizer.json. The vocabulary is read in a streaming pass; the parts that say how
// to read it come first in files written by the tokenizers library; in other files, reading the model is deferred to
// the end.
type fileReader struct {
	data                                            []byte
	normalizer, preTokenizer, postProcessor, decode jsonread.Value
	added                                           []addedToken
	told                                            int // how many of normalizer, pre_tokenizer, decoder were read
	sawModel                                        bool
	model                                           jsonread.Reader // at the model, when it was deferred
	tok                                             *Tokenizer
}

func (f *fileReader) field(r *jsonread.Reader, key string) (err error) {
	switch key {
	case "version":
		v, err := r.Value()
		if s, _ := v.Str(); err == nil && s != "1.0" {
			err = fmt.Errorf("%w: version %.40q; supported is \"1.0\"", pack.ErrUnsupported, s)
		}
		return err
	case "truncation", "padding": // for batches, which do not exist here
		return r.Skip()
	case "added_tokens":
		f.added, err = readAdded(r)
	case "normalizer":
		f.told++
		f.normalizer, err = r.ValueUpTo(maxPartValues)
	case "pre_tokenizer":
		f.told++
		f.preTokenizer, err = r.ValueUpTo(maxPartValues)
	case "post_processor":
		f.postProcessor, err = r.ValueUpTo(maxPartValues)
	case "decoder":
		f.told++
		f.decode, err = r.ValueUpTo(maxPartValues)
	case "model":
		f.sawModel = true
		if f.model = *r; f.told < 3 {
			return skipModel(r)
		}
		return f.readModel(r)
	default:
		return fmt.Errorf("%w: the field %.40q is not known", pack.ErrUnsupported, key)
	}
	return err
}

// skipModel skips a model that is read later, which has more tokens than objects have keys elsewhere.
func skipModel(r *jsonread.Reader) error {
	return r.Object(func(key string) error {
		if kind, err := r.Kind(); err != nil || key != "vocab" || kind != jsonread.Object {
			return r.Skip()
		}
		return r.Members(func([]byte) error { return r.Skip() })
	})
}

// readModel reads the model, once it is known whether words are bytes.
func (f *fileReader) readModel(r *jsonread.Reader) error {
	t := &Tokenizer{}
	var bytewise bool
	var err error
	if t.normalizer, err = readNormalizers(&f.normalizer); err != nil {
		return err
	}
	if t.splitters, bytewise, err = readSplitters(&f.preTokenizer); err != nil {
		return err
	}
	if t.decoder, err = readDecoder(&f.decode, bytewise); err != nil {
		return err
	}
	m := modelReader{bytewise: bytewise, guess: len(f.data)}
	if t.vocab, t.model, err = m.read(r); err != nil {
		return err
	}
	f.tok = t
	return nil
}

// finish adds the tokens of added_tokens and the special tokens before and after a text.
func (f *fileReader) finish() (*Tokenizer, error) {
	t := f.tok
	for _, a := range f.added {
		if err := t.addToken(a); err != nil {
			return nil, err
		}
	}
	if err := t.vocab.checkDense(); err != nil {
		return nil, err
	}
	return t, t.readPost(&f.postProcessor)
}

// readAdded reads the list of added tokens, one after another.
func readAdded(r *jsonread.Reader) (out []addedToken, err error) {
	if none, err := r.Null(); none || err != nil {
		return nil, err
	}
	err = r.Array(func(i int) error {
		if i == maxAdded {
			return fmt.Errorf("%w: added_tokens has more than %d elements", pack.ErrLimit, maxAdded)
		}
		v, err := r.Value()
		if err != nil {
			return err
		}
		where := fmt.Sprintf("added_tokens[%d]", i)
		a, err := readAddedToken(where, &v)
		if err != nil {
			return err
		}
		id, ok := v.Get("id").Int()
		if !ok || id < 0 || id > maxTokens+maxAdded {
			return fmt.Errorf("%w: %s: id is not a number from 0 to %d", pack.ErrCorrupt, where, maxTokens+maxAdded)
		}
		a.id = int(id)
		out = append(out, a)
		return nil
	})
	return out, err
}

// readAddedToken reads an added token without its id.
func readAddedToken(where string, v *jsonread.Value) (addedToken, error) {
	p := part{where: where, v: v, used: map[string]bool{}}
	p.ignore("id", "__type")
	a := addedToken{
		content:    p.text("content"),
		special:    p.flag("special", false),
		singleWord: p.flag("single_word", false),
		lstrip:     p.flag("lstrip", false),
		rstrip:     p.flag("rstrip", false),
	}
	a.normalized = p.flag("normalized", !a.special)
	return a, p.done()
}

// addToken adds an added token: under its own id if the vocabulary has it, else as a new one.
func (t *Tokenizer) addToken(a addedToken) error {
	if a.content == "" {
		return fmt.Errorf("%w: added token %d is empty", pack.ErrCorrupt, a.id)
	}
	if id, ok := t.idInVocab(a.content); ok && id != a.id {
		return fmt.Errorf("%w: the added token %.40q has the id %d, in the vocabulary %d",
			pack.ErrCorrupt, a.content, a.id, id)
	} else if !ok {
		if err := t.vocab.addHidden([]byte(a.content), int64(a.id)); err != nil {
			return err
		}
	}
	if t.added == nil {
		t.added, t.special = map[string]int{}, map[int]bool{}
	}
	if _, twice := t.added[a.content]; twice {
		return fmt.Errorf("%w: the added token %.40q occurs twice", pack.ErrCorrupt, a.content)
	}
	t.added[a.content] = a.id
	if a.special {
		t.special[a.id] = true
	}
	if !a.normalized {
		return t.raw.add(a, a.content)
	}
	key, err := t.normalizer.normalize(a.content)
	if err != nil {
		return err
	}
	return t.normal.add(a, key)
}

// idInVocab looks up a token as tokenizer.json writes it: byte-level vocabularies use the byte alphabet.
func (t *Tokenizer) idInVocab(content string) (int, bool) {
	if !t.decoder.bytewise {
		return t.vocab.findString(content)
	}
	raw, ok := toBytes(nil, []byte(content))
	if !ok {
		id, ok := t.vocab.hidden[content]
		return id, ok
	}
	return t.vocab.find(raw)
}
