// Package tokenizer turns text into token ids and back, and conversations into text.
//
// It reads what models ship: tokenizer.json (byte-level BPE, SentencePiece-style BPE with byte fallback, Unigram), or
// tokenizer.model, a tiktoken file, or vocab.json with merges.txt where there is no tokenizer.json; and the chat
// template. A file that asks for something the package does not do is refused by name, because the alternative is wrong
// tokens without any error.
package tokenizer

import (
	"fmt"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/internal/marked"
	"github.com/lowpack/lowpack/pack"
)

// maxText bounds one text, in bytes, before and after normalization.
const maxText = 1 << 28

// Tokenizer is safe for concurrent use.
type Tokenizer struct {
	vocab      *vocab
	model      wordModel
	raw        finder // added tokens matched in the original text
	normal     finder // added tokens matched in the normalized text
	normalizer normalizers
	splitters  chain
	before     []int // special tokens before a text
	after      []int // special tokens after a text
	decoder    decoder
	added      map[string]int // added tokens by content
	special    map[int]bool
	workspaces sync.Pool

	roles     map[string]string // special tokens by role: "bos_token" …
	stops     []int
	templates []chatTemplate
	chosen    int // index in templates; −1 = none selected
}

// wordModel turns one word into tokens.
type wordModel interface {
	encode(dst []int, word string, w *workspace) ([]int, error)
}

// Encode returns the tokens of a text. With special, the special tokens that the model expects before and after a text
// (begin of text, for most) are added; a rendered chat template has them already. The written form of an added token,
// for example <|eot_id|>, becomes that token: use EncodePlain or ChatTokens for untrusted text. Text that is not UTF-8
// is encoded byte by byte if the vocabulary allows it.
//
// Memory: 8 bytes per token for the result, as much again while it grows, the normalized text, and up to 64 bytes per
// byte of the longest run without a place to cut, of at most 4 MiB. Errors: pack.ErrLimit for a text beyond 256 MiB,
// for a word beyond 4 MiB that the vocabulary allows no cut in, or for a text on which a pattern of the tokenizer takes
// too many steps.
func (t *Tokenizer) Encode(text string, special bool) ([]int, error) {
	return t.encode(marked.Text{S: text}, special)
}

// EncodePlain returns the tokens of a text without control tokens: what looks like <|eot_id|> is encoded as plain text.
// Added tokens that are not special, for example <think>, stay tokens. Otherwise it is Encode.
func (t *Tokenizer) EncodePlain(text string, special bool) ([]int, error) {
	return t.encode(marked.Input(text), special)
}

// encode encodes a text whose marked bytes cannot become control tokens.
func (t *Tokenizer) encode(text marked.Text, special bool) ([]int, error) {
	if err := checkLength(len(text.S)); err != nil {
		return nil, err
	}
	w, _ := t.workspaces.Get().(*workspace)
	if w == nil {
		w = newWorkspace()
	}
	defer func() {
		w.trim()
		t.workspaces.Put(w)
	}()
	// Nearly all texts have more than three bytes per token.
	e := encoder{t: t, w: w, ids: make([]int, 0, len(text.S)/3+8)}
	if special {
		e.ids = append(e.ids, t.before...)
	}
	if err := e.withAdded(&t.raw, text, true, e.plain); err != nil {
		return nil, err
	}
	if special {
		e.ids = append(e.ids, t.after...)
	}
	return e.ids, nil
}

func checkLength(n int) error {
	if n > maxText {
		return fmt.Errorf("%w: a text of %d bytes, more than %d", pack.ErrLimit, n, maxText)
	}
	return nil
}

type encoder struct {
	t   *Tokenizer
	w   *workspace
	ids []int
}

// stretch processes a part of a text; start says that it starts where the text does.
type stretch func(text marked.Text, start bool) error

// withAdded appends the added tokens of a text and passes the text between them to rest.
func (e *encoder) withAdded(f *finder, text marked.Text, start bool, rest stretch) error {
	from, search := 0, 0
	for search < len(text.S) {
		token, begin, end, after := f.next(text, search, from)
		if token == nil {
			break
		}
		if from < begin {
			if err := rest(text.Slice(from, begin), start && from == 0); err != nil {
				return err
			}
		}
		e.ids = append(e.ids, token.id)
		from, search = end, after
	}
	if from < len(text.S) {
		return rest(text.Slice(from, len(text.S)), start && from == 0)
	}
	return nil
}

// plain encodes a part of a text without raw added tokens.
func (e *encoder) plain(text marked.Text, start bool) error {
	text, err := e.normalized(text)
	if err != nil {
		return err
	}
	return e.withAdded(&e.t.normal, text, start, func(text marked.Text, start bool) error {
		return e.t.splitters.split(text.S, start, e.word)
	})
}

func (e *encoder) word(s string, _ bool) (err error) {
	e.ids, err = e.t.model.encode(e.ids, s, e.w)
	return err
}

// Size is the number of token ids: the largest id + 1.
func (t *Tokenizer) Size() int { return t.vocab.size() }

// ID returns the id of a token by its written form.
func (t *Tokenizer) ID(token string) (int, bool) {
	if id, ok := t.added[token]; ok {
		return id, true
	}
	return t.idInVocab(token)
}

// Dropped lists the bytes that have no token: they are dropped from a text without notice, as in the library that
// defines the format. Empty for most tokenizers, and for all that have an unknown token.
func (t *Tokenizer) Dropped() []byte {
	if b, ok := t.model.(*bpe); ok && b.bytewise && b.unk < 0 {
		return b.dropped()
	}
	return nil
}

// Special reports whether an id is a control token, which is omitted from displayed text.
func (t *Tokenizer) Special(id int) bool { return t.special[id] }

// StopIDs lists the tokens that end an answer: the end-of-text token of tokenizer_config.json, the stop tokens of
// generation_config.json and config.json, and the token with which the chat template ends a turn. Ascending.
func (t *Tokenizer) StopIDs() []int { return slices.Clone(t.stops) }

// Kind names the tokenization algorithm: "byte-level BPE", "BPE" (of characters, as in SentencePiece) or "Unigram".
func (t *Tokenizer) Kind() string {
	switch m := t.model.(type) {
	case *bpe:
		if m.bytewise {
			return "byte-level BPE"
		}
		return "BPE"
	case *unigram:
		return "Unigram"
	}
	return "unknown"
}
