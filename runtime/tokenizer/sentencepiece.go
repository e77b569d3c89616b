package tokenizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lowpack/lowpack/internal/sentencepiece"
	"github.com/lowpack/lowpack/pack"
)

// piece is one entry of a SentencePiece model.
type piece struct {
	text  string
	score float32
	kind  uint64
}

// Kinds of a piece.
const (
	pieceNormal  = 1
	pieceUnknown = 2
	pieceControl = 3
	pieceUser    = 4
	pieceUnused  = 5
	pieceByte    = 6
)

// spModel is the content of a SentencePiece model.
type spModel struct {
	pieces                                 []piece
	kind                                   uint64 // 1 Unigram, 2 BPE
	byteFallback                           bool
	charsmap                               bool // normalization rules
	rules                                  string
	dummyPrefix, collapseSpaces, keepSpace bool
	suffixMark                             bool
}

// parseSentencePiece reads the required fields of ModelProto (sentencepiece_model.proto).
func parseSentencePiece(data []byte) (*spModel, error) {
	m := &spModel{kind: 1, dummyPrefix: true, collapseSpaces: true}
	err := sentencepiece.Fields(data, func(number protowire.Number, _ uint64, bytes []byte) error {
		switch number {
		case 1:
			p := piece{kind: pieceNormal}
			if len(m.pieces) >= maxTokens {
				return fmt.Errorf("%w: more than %d tokens", pack.ErrLimit, maxTokens)
			}
			err := sentencepiece.Fields(bytes, func(number protowire.Number, varint uint64, bytes []byte) error {
				switch number {
				case 1:
					p.text = string(bytes)
				case 2:
					p.score = math.Float32frombits(uint32(varint))
				case 3:
					p.kind = varint
				}
				return nil
			})
			m.pieces = append(m.pieces, p)
			return err
		case 2:
			return sentencepiece.Fields(bytes, m.trainerField)
		case 3:
			return sentencepiece.Fields(bytes, m.normalizerField)
		}
		return nil
	})
	if err == nil && len(m.pieces) == 0 {
		err = fmt.Errorf("%w: not a SentencePiece model: no pieces", pack.ErrCorrupt)
	}
	return m, err
}

func (m *spModel) trainerField(number protowire.Number, varint uint64, _ []byte) error {
	switch number {
	case 3:
		m.kind = varint
	case 24:
		m.suffixMark = varint != 0
	case 35:
		m.byteFallback = varint != 0
	}
	return nil
}

func (m *spModel) normalizerField(number protowire.Number, varint uint64, bytes []byte) error {
	switch number {
	case 1:
		m.rules = string(bytes)
	case 2:
		m.charsmap = len(bytes) > 0
	case 3:
		m.dummyPrefix = varint != 0
	case 4:
		m.collapseSpaces = varint != 0
	case 5:
		m.keepSpace = varint == 0
	}
	return nil
}

// readSentencePiece makes a tokenizer from tokenizer.model.
func readSentencePiece(data []byte, c *config) (*Tokenizer, error) {
	m, err := parseSentencePiece(data)
	if err != nil {
		return nil, err
	}
	switch {
	case m.charsmap:
		return nil, fmt.Errorf("%w: normalization rules %.40q; supported is identity (or a %s)",
			pack.ErrUnsupported, m.rules, tokenizerJSON)
	case m.collapseSpaces:
		return nil, fmt.Errorf("%w: remove_extra_whitespaces", pack.ErrUnsupported)
	case m.keepSpace || m.suffixMark:
		return nil, fmt.Errorf("%w: spaces that are not marked in front of words", pack.ErrUnsupported)
	}
	t := &Tokenizer{vocab: newVocab(len(m.pieces), len(data))}
	unk, user := -1, []addedToken(nil)
	for id, p := range m.pieces {
		if err := t.vocab.add([]byte(p.text), int64(id)); err != nil {
			return nil, err
		}
		switch p.kind {
		case pieceUnknown:
			unk = id
			user = append(user, addedToken{id: id, content: p.text, special: true})
		case pieceControl, pieceUser:
			user = append(user, addedToken{id: id, content: p.text, special: p.kind == pieceControl})
		}
	}
	if err := t.vocab.index(); err != nil {
		return nil, err
	}
	if t.model, err = m.model(t.vocab, unk); err != nil {
		return nil, err
	}
	m.spaces(t, c)
	for _, a := range user {
		if err := t.addToken(a); err != nil {
			return nil, err
		}
	}
	return t, t.addFromConfig(c, true)
}

// spaces sets the conversion of spaces to marks, and back. Older tokenizers put a mark before every run of text between
// special tokens (legacy), newer ones only before a text that starts without one.
func (m *spModel) spaces(t *Tokenizer, c *config) {
	toMarks := replace{literal(" "), mark}
	switch legacy := c.legacy == nil || *c.legacy; {
	case !m.dummyPrefix:
		t.normalizer = normalizers{toMarks}
	case legacy:
		t.normalizer = normalizers{prepend(mark), toMarks}
	default:
		t.splitters = chain{metaspace{mark: mark, prepend: prependFirst}}
	}
	t.decoder = decoder{steps: []step{replaceStep(mark, " "), fallbackStep}}
	if m.dummyPrefix {
		t.decoder.strip = leftTrim{" ", 1}
	}
}

func (m *spModel) model(v *vocab, unk int) (wordModel, error) {
	if ids := fallbackIDs(v); m.byteFallback && slices.Contains(ids[:], -1) { // SentencePiece rejects it too
		return nil, fmt.Errorf("%w: byte_fallback, but <0x%02X> is not a piece", pack.ErrCorrupt,
			slices.Index(ids[:], -1))
	}
	switch m.kind {
	case 1:
		if unk < 0 {
			return nil, fmt.Errorf("%w: no unknown piece", pack.ErrCorrupt)
		}
		scores := make([]float64, len(m.pieces))
		for i, p := range m.pieces {
			scores[i] = float64(p.score)
		}
		return newUnigram(v, scores, unk, m.byteFallback)
	case 2:
		rules, err := m.rulesByScore(v)
		if err != nil {
			return nil, err
		}
		return newBPE(bpe{vocab: v, merges: rules, unk: int32(unk), fuseUnk: true}, m.byteFallback), nil
	}
	return nil, fmt.Errorf("%w: SentencePiece model type %d; supported are Unigram and BPE",
		pack.ErrUnsupported, m.kind)
}

// rulesByScore makes the merges: two adjacent pieces may merge into any normal piece, the highest score first.
func (m *spModel) rulesByScore(v *vocab) (*merges, error) {
	var order []int
	for id, p := range m.pieces {
		if p.kind == pieceNormal || p.kind == pieceUser || p.kind == pieceUnused {
			order = append(order, id)
		}
		if math.IsNaN(float64(p.score)) {
			return nil, fmt.Errorf("%w: the score of piece %d is not a number", pack.ErrCorrupt, id)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m.pieces[b].score, m.pieces[a].score) })
	rank := 0
	return mergesOf(v, order, func(i int) int {
		if i > 0 && m.pieces[order[i]].score != m.pieces[order[i-1]].score {
			rank = i
		}
		return rank
	})
}

// mergesOf makes a rule for every way to split a token of order into two tokens; rank returns the rank of order[i].
func mergesOf(v *vocab, order []int, rank func(i int) int) (*merges, error) {
	var out []merge
	for i, id := range order {
		at := rank(i)
		token := v.bytes(id)
		if len(token) > maxDivided {
			continue
		}
		for cut := 1; cut < len(token); cut++ {
			left, ok1 := v.find(token[:cut])
			right, ok2 := v.find(token[cut:])
			if ok1 && ok2 {
				out = append(out, newMerge(left, right, at, id))
			}
		}
		if len(out) > maxMerges {
			break
		}
	}
	return newMerges(out)
}

// maxDivided bounds the length of tokens that merges can make, in files that do not list the merges. With the size of
// the file, 5 million bytes for published ones, it bounds the number of ways to split all tokens.
const maxDivided = 1 << 7
