package export

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/lowpack/lowpack/convert/export/internal/chat"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// The check text of llama.cpp's converter and the fingerprints of its encodings, by the name of the pre-tokenizer (MIT
// licence).
//
//go:embed pretokenizers.json
var pretokenizers []byte

// tokenizerFile holds the vocabulary part of tokenizer.json.
type tokenizerFile struct {
	Added []struct {
		ID      int
		Content string
		Special bool
	} `json:"added_tokens"`
	Normalizer   json.RawMessage
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Model        struct {
		Type         string
		Vocab        tokenIDs
		Merges       merges
		UnkToken     string `json:"unk_token"`
		ByteFallback bool   `json:"byte_fallback"`
		IgnoreMerges bool   `json:"ignore_merges"`
	}
}

// tokenIDs maps tokens to their ids.
type tokenIDs map[string]int

func (v *tokenIDs) UnmarshalJSON(b []byte) error {
	r := jsonread.NewReader(b)
	*v = tokenIDs{}
	return r.Members(func(token []byte) error {
		id, err := r.Int()
		(*v)[string(token)] = int(id)
		return err
	})
}

// merges are pairs of tokens, each in one text or in two.
type merges []string

func (m *merges) UnmarshalJSON(b []byte) error {
	r := jsonread.NewReader(b)
	return r.Array(func(int) error {
		pair := []string{}
		one := func(int) error {
			text, err := r.String()
			pair = append(pair, text)
			return err
		}
		kind, err := r.Kind()
		if err == nil && kind == jsonread.Array {
			err = r.Array(one)
		} else if err == nil {
			err = one(0)
		}
		*m = append(*m, strings.Join(pair, " "))
		return err
	})
}

// vocabulary holds llama.cpp's arrays of tokens.
type vocabulary struct {
	kind, pre string // "llama" or "gpt2", and its pre-tokenizer
	tokens    []string
	types     []int32
	scores    []float32 // of llama
	merges    []string  // of gpt2
	whole     []byte    // tokenizer.json
}

// tokenizer writes the keys of the tokenizer and of the tokens with a role.
func (w *ggufWriter) tokenizer() error {
	t, err := tokenizer.Load(w.file.Embedded)
	if err != nil {
		return fmt.Errorf("%w (a GGUF has its tokenizer inside)", err)
	}
	v, err := w.vocabulary(t)
	if err != nil {
		return err
	}
	w.key("tokenizer.ggml.model", gguf.TextValue(v.kind))
	w.key("tokenizer.ggml.pre", gguf.TextValue(v.pre))
	w.key("tokenizer.ggml.tokens", gguf.TextsValue(v.tokens))
	w.key("tokenizer.ggml.token_type", gguf.I32sValue(v.types))
	if v.scores != nil {
		w.key("tokenizer.ggml.scores", gguf.FloatsValue(v.scores))
	}
	if v.merges != nil {
		w.key("tokenizer.ggml.merges", gguf.TextsValue(v.merges))
	}
	if err := w.roles(t, v); err != nil {
		return err
	}
	if v.whole != nil {
		w.key("tokenizer.huggingface.json", gguf.TextValue(string(v.whole)))
	}
	w.chatTemplate()
	return nil
}

// roles writes the special tokens, and which of them are added around a text.
func (w *ggufWriter) roles(t *tokenizer.Tokenizer, v *vocabulary) error {
	d := w.model
	if d.BOS >= 0 {
		w.count("tokenizer.ggml.bos_token_id", d.BOS)
	}
	for i, id := range d.EOS[:min(2, len(d.EOS))] {
		w.count([]string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}[i], id)
	}
	if len(d.EOS) > 2 {
		w.Detail("of %d tokens that end a text, llama.cpp is told the first two", len(d.EOS))
	}
	for id, kind := range v.types {
		if kind == hf.UnknownToken {
			w.count("tokenizer.ggml.unknown_token_id", id)
			break
		}
	}
	ids, err := t.Encode("a", true)
	if err != nil {
		return err
	}
	bare, err := t.Encode("a", false)
	if err != nil {
		return err
	}
	begins, ends := len(ids) > 0 && ids[0] == d.BOS && len(ids) > len(bare), len(ids) > 1 && len(d.EOS) > 0 &&
		ids[len(ids)-1] == d.EOS[0] && len(ids) > len(bare)
	w.key("tokenizer.ggml.add_bos_token", gguf.BoolValue(begins))
	w.key("tokenizer.ggml.add_eos_token", gguf.BoolValue(ends))
	if v.kind == "llama" {
		w.key("tokenizer.ggml.add_space_prefix",
			gguf.BoolValue(len(bare) > 0 && strings.HasPrefix(v.tokens[bare[0]], "▁")))
	}
	return nil
}

func (w *ggufWriter) chatTemplate() {
	if text := chat.Template(w.file.Embedded); text != "" {
		w.key("tokenizer.chat_template", gguf.TextValue(text))
	}
}

// vocabulary reads the file that the tokenizer was loaded from.
func (w *ggufWriter) vocabulary(t *tokenizer.Tokenizer) (*vocabulary, error) {
	if text, ok := w.file.Embedded("tokenizer.json"); ok {
		var f tokenizerFile
		if err := json.Unmarshal(text, &f); err != nil {
			return nil, fmt.Errorf("tokenizer.json: %w: %v", pack.ErrCorrupt, err)
		}
		v := &vocabulary{whole: text}
		return v, v.fromJSON(&f, t, w.model.Vocab)
	}
	text, ok := w.file.Embedded("tokenizer.model")
	if !ok {
		return nil, fmt.Errorf("%w: the tokenizer is neither tokenizer.json nor tokenizer.model; another "+
			"one is not written",
			pack.ErrUnsupported)
	}
	v := &vocabulary{kind: "llama", pre: "default"}
	var err error
	if v.tokens, v.scores, v.types, err = hf.Pieces(text); err != nil {
		return nil, fmt.Errorf("tokenizer.model: %w", err)
	}
	return v, v.fill(w.model.Vocab)
}

var byteToken = regexp.MustCompile(`^<0x[0-9A-F]{2}>$`)

func (v *vocabulary) fromJSON(f *tokenizerFile, t *tokenizer.Tokenizer, size int) error {
	m := &f.Model
	if m.Type != "BPE" && m.Type != "" {
		return fmt.Errorf("tokenizer.json: %w: model %s; llama.cpp has BPE", pack.ErrUnsupported, m.Type)
	}
	last := len(m.Vocab)
	for _, id := range m.Vocab {
		last = max(last, id+1)
	}
	for _, a := range f.Added {
		last = max(last, a.ID+1)
	}
	if last > size {
		return fmt.Errorf("tokenizer.json: %w: token %d, but the model has %d", pack.ErrUnsupported, last-1, size)
	}
	v.tokens, v.types = make([]string, last), make([]int32, last)
	for token, id := range m.Vocab {
		v.tokens[id], v.types[id] = token, hf.NormalToken
		switch {
		case m.ByteFallback && byteToken.MatchString(token):
			v.types[id] = hf.ByteToken
		case token == m.UnkToken && token != "":
			v.types[id] = hf.UnknownToken
		}
	}
	for _, a := range f.Added {
		v.tokens[a.ID], v.types[a.ID] = a.Content, hf.UserToken
		switch {
		case a.Content == m.UnkToken && m.ByteFallback:
			v.types[a.ID] = hf.UnknownToken
		case a.Special:
			v.types[a.ID] = hf.ControlToken
		}
	}
	if err := v.fill(size); err != nil {
		return err
	}
	if m.ByteFallback {
		v.kind, v.pre = "llama", "default"
		v.scoresOf(m.Merges, m.Vocab)
		return nil
	}
	v.kind, v.merges = "gpt2", append([]string{}, m.Merges...)
	var err error
	v.pre, err = preTokenizer(f, t)
	return err
}

// fill names the tokens that a vocabulary lacks, as llama.cpp's converter does.
func (v *vocabulary) fill(size int) error {
	if len(v.tokens) > size {
		return fmt.Errorf("%w: %d tokens, but the model has %d", pack.ErrUnsupported, len(v.tokens), size)
	}
	for i := range size {
		if i == len(v.tokens) {
			v.tokens, v.types = append(v.tokens, ""), append(v.types, 0)
			if v.scores != nil {
				v.scores = append(v.scores, -10000)
			}
		}
		if v.types[i] == 0 {
			v.tokens[i], v.types[i] = fmt.Sprintf("[PAD%d]", i), hf.UnusedToken
		}
	}
	return nil
}

// scoresOf gives each token the score of the first merge that produces it: SentencePiece merges the best score first.
func (v *vocabulary) scoresOf(pairs merges, ids tokenIDs) {
	v.scores = make([]float32, len(v.tokens))
	for i := range v.scores {
		if v.types[i] != hf.ControlToken && v.types[i] != hf.UserToken && v.types[i] != hf.UnknownToken {
			v.scores[i] = -10000
		}
	}
	for i := len(pairs) - 1; i >= 0; i-- {
		if id, ok := ids[strings.Replace(pairs[i], " ", "", 1)]; ok {
			v.scores[id] = -float32(i)
		}
	}
}

// preTokenizer returns llama.cpp's name for the pre-tokenizer, found by the fingerprint of an encoding, else by the
// rules themselves.
func preTokenizer(f *tokenizerFile, t *tokenizer.Tokenizer) (string, error) {
	var table struct {
		Text  string
		Known []struct{ SHA256, Pre string }
	}
	if err := json.Unmarshal(pretokenizers, &table); err != nil {
		panic(err) // a constant
	}
	ids, err := t.Encode(table.Text, true)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.ReplaceAll(fmt.Sprint(ids), " ", ", ")))
	fingerprint := hex.EncodeToString(sum[:])
	name := ""
	for _, k := range table.Known {
		if k.SHA256 == fingerprint {
			name = k.Pre
		}
	}
	name = cmp.Or(name, hf.PreTokenizer(f.Normalizer, f.PreTokenizer, f.Model.IgnoreMerges))
	if name == "" {
		return "", fmt.Errorf("tokenizer.json: %w: llama.cpp has no name for its pre-tokenizer (fingerprint %s), and "+
			"a wrong one would change token ids without an error", pack.ErrUnsupported, fingerprint)
	}
	return name, nil
}
