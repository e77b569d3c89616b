package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// Document is a text to calibrate with.
type Document struct {
	Text     string         // in UTF-8; unused with Messages
	Messages []chat.Message // of a chat, which the chat template of the model makes a text of; nil = Text
	Origin   string         // file and line, for errors; "" = unknown
}

// chatDate is the date for chat templates that have one in their text: the same texts give the same file on any day.
var chatDate = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// tokenized is a calibration text as the model reads it.
type tokenized struct {
	ids    []int
	digest string // SHA-256 of the text, or of the texts with a zero byte between two
}

// tokens returns the calibration texts, one after another.
func (p *Plan) tokens(t *tokenizer.Tokenizer) (*tokenized, error) {
	hash, all := sha256.New(), &tokenized{}
	for i, d := range p.o.Calibration {
		text, ids, err := d.tokens(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name(), err)
		}
		all.ids = append(all.ids, ids...)
		if i > 0 {
			hash.Write([]byte{0})
		}
		hash.Write([]byte(text))
	}
	if len(all.ids) < calibrationLeast {
		return nil, fmt.Errorf("%w: the calibration text has %d tokens; at least %d are needed, and up to %d are read",
			pack.ErrUnsupported, len(all.ids), calibrationLeast, p.cut.most)
	}
	all.digest = hex.EncodeToString(hash.Sum(nil))
	return all, nil
}

func (d *Document) name() string {
	if d.Origin == "" {
		return "calibration text"
	}
	return "calibration text " + d.Origin
}

func (d *Document) tokens(t *tokenizer.Tokenizer) (text string, ids []int, err error) {
	if d.Messages == nil {
		if !utf8.ValidString(d.Text) {
			return "", nil, fmt.Errorf("%w: it is not UTF-8", pack.ErrUnsupported)
		}
		ids, err = t.Encode(d.Text, false)
		return d.Text, ids, err
	}
	rendered, err := t.RenderChat(d.Messages, chat.Options{Now: func() time.Time { return chatDate }})
	if err != nil {
		return "", nil, err
	}
	ids, err = t.EncodeChat(rendered)
	return rendered.S, ids, err
}
