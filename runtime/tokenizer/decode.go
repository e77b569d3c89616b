package tokenizer

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder turns the bytes of tokens into text.
type decoder struct {
	bytewise  bool     // tokens are bytes already
	steps     []step   // applied to each token, in order
	separator string   // between tokens, for tokenizers without a decoder
	strip     leftTrim // applied to the start of the whole text
}

// step rewrites the text of one token. first: no token came before.
type step func(token []byte, first bool) []byte

// leftTrim removes up to count occurrences of a character from the start of a text.
type leftTrim struct {
	char  string
	count int
}

// Stream turns tokens into text incrementally. It returns whole characters only: the bytes of an incomplete character
// wait for the next token. Bytes that can never become UTF-8 are replaced by U+FFFD.
type Stream struct {
	// ShowSpecial includes control tokens in their written form; by default they are omitted.
	ShowSpecial bool
	t           *Tokenizer
	pending     []byte
	started     bool
	trim        int // characters that may still be removed from the start
}

// NewStream starts a stream. continued says that the tokens continue a text: then a leading space is part of the text
// and kept, where the tokenizer would remove it from the start of a whole text.
func (t *Tokenizer) NewStream(continued bool) *Stream {
	s := &Stream{t: t, started: continued}
	if !continued {
		s.trim = t.decoder.strip.count
	}
	return s
}

// Next takes a token and returns the text that is final now; it may be empty. An id without a token returns "".
func (s *Stream) Next(id int) string {
	s.add(id)
	n := len(s.pending) - incomplete(s.pending)
	text := valid(s.pending[:n])
	s.pending = append(s.pending[:0], s.pending[n:]...)
	return text
}

// Flush ends the stream and returns what is left of an incomplete character.
func (s *Stream) Flush() string {
	text := valid(s.pending)
	s.pending = nil
	return text
}

// add appends the bytes of a token to s.pending.
func (s *Stream) add(id int) {
	token := s.t.vocab.bytes(id)
	if token == nil || s.t.special[id] && !s.ShowSpecial {
		return
	}
	d := &s.t.decoder
	for _, f := range d.steps {
		token = f(token, !s.started)
	}
	if s.started {
		s.pending = append(s.pending, d.separator...)
	}
	s.started = true
	for ; s.trim > 0 && len(token) > 0; s.trim-- {
		rest, found := bytes.CutPrefix(token, []byte(d.strip.char))
		if token = rest; !found {
			s.trim = 0
			break
		}
	}
	s.pending = append(s.pending, token...)
}

// Decode returns the text of tokens: valid UTF-8, with invalid bytes replaced by U+FFFD.
func (t *Tokenizer) Decode(ids []int, showSpecial bool) string {
	return valid(t.bytes(ids, showSpecial))
}

// Bytes returns exactly the bytes that tokens stand for: lossless for texts that are not UTF-8.
func (t *Tokenizer) Bytes(ids []int) []byte { return t.bytes(ids, true) }

func (t *Tokenizer) bytes(ids []int, showSpecial bool) []byte {
	s := t.NewStream(false)
	s.ShowSpecial = showSpecial
	for _, id := range ids {
		s.add(id)
	}
	return s.pending
}

// incomplete returns the length of an incomplete character at the end of b that more bytes may complete.
func incomplete(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return n
			}
			return 0
		}
	}
	return 0
}

// valid replaces invalid UTF-8 by U+FFFD: one for every maximal prefix of a character, as Unicode recommends.
func valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			for n < len(b) && !utf8.FullRune(b[:n+1]) {
				n++
			}
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

// The steps of text decoders.

func replaceStep(from, to string) step {
	return func(token []byte, _ bool) []byte { return bytes.ReplaceAll(token, []byte(from), []byte(to)) }
}

// fallbackStep turns a token <0xXX> into its byte. The tokenizers library replaces all bytes of a run of such tokens if
// the run is not valid UTF-8; a stream cannot wait for the end of the run, so valid characters within it are kept here.
func fallbackStep(token []byte, _ bool) []byte {
	if b, ok := fallbackByte(string(token)); ok {
		return []byte{b}
	}
	return token
}

// fallbackByte returns the byte that a token of the form <0xXX> stands for.
func fallbackByte(token string) (byte, bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(token[3:5], "+"), 16, 8) // Rust accepts the sign, as in <0x+9>
	return byte(n), err == nil
}

// marksStep turns marks into spaces; in the first token they are removed if the encoder adds one there.
func marksStep(mark string, dropFirst bool) step {
	return func(token []byte, first bool) []byte {
		space := " "
		if first && dropFirst {
			space = ""
		}
		return bytes.ReplaceAll(token, []byte(mark), []byte(space))
	}
}

// trimStep removes a character from both ends of every token, up to left and right times.
func trimStep(char string, left, right int) step {
	return func(token []byte, _ bool) []byte {
		for i := 0; i < left && bytes.HasPrefix(token, []byte(char)); i++ {
			token = token[len(char):]
		}
		for i := 0; i < right && bytes.HasSuffix(token, []byte(char)); i++ {
			token = token[:len(token)-len(char)]
		}
		return token
	}
}
