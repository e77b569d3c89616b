package tokenizer

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// modelReader reads the model of a tokenizer.json.
type modelReader struct {
	bytewise bool
	guess    int // size of the file, from which the number of entries is estimated

	kind                                string
	unkToken                            string
	unkID                               int64
	fuseUnk, byteFallback, ignoreMerges bool
	vocab                               *vocab
	scores                              []float64
	merges                              *merges
	sawMerges, sawScores                bool
	scratch                             []byte
	waiting                             *jsonread.Reader // at merges that precede the vocabulary
}

func (m *modelReader) read(r *jsonread.Reader) (*vocab, wordModel, error) {
	m.unkID = -1
	if err := r.Object(func(key string) error { return m.field(r, key) }); err != nil {
		return nil, nil, err
	}
	if m.vocab == nil {
		return nil, nil, fmt.Errorf("%w: model: vocab is missing", pack.ErrCorrupt)
	}
	if m.waiting != nil {
		if err := m.readMerges(m.waiting); err != nil {
			return nil, nil, err
		}
	}
	model, err := m.model()
	return m.vocab, model, err
}

func (m *modelReader) field(r *jsonread.Reader, key string) (err error) {
	switch key {
	case "type":
		m.kind, err = r.String()
	case "unk_token":
		m.unkToken, err = optional(r, r.String)
	case "unk_id":
		if null, err := r.Null(); err != nil || null {
			return err
		}
		m.unkID, err = r.Int()
	case "fuse_unk":
		m.fuseUnk, err = optional(r, r.Bool)
	case "byte_fallback":
		m.byteFallback, err = optional(r, r.Bool)
	case "ignore_merges":
		m.ignoreMerges, err = optional(r, r.Bool)
	case "vocab":
		return m.readVocab(r)
	case "merges":
		m.sawMerges = true
		if m.vocab == nil {
			fork := *r
			m.waiting = &fork
			return r.Skip()
		}
		return m.readMerges(r)
	case "dropout", "continuing_subword_prefix", "end_of_word_suffix":
		v, err := r.Value()
		if err != nil {
			return err
		}
		if f, isNumber := v.Float(); v.Kind != jsonread.Null && v.Text != "" && (!isNumber || f != 0) {
			return fmt.Errorf("%w: model: %s is %.40q", pack.ErrUnsupported, key, v.Text)
		}
	default:
		return fmt.Errorf("%w: model: the field %.40q is not known", pack.ErrUnsupported, key)
	}
	return err
}

// optional reads a value that may be null.
func optional[T any](r *jsonread.Reader, read func() (T, error)) (none T, err error) {
	if null, err := r.Null(); err != nil || null {
		return none, err
	}
	return read()
}

// readVocab reads {"token": id, …} (BPE) or [["token", score], …] (Unigram).
func (m *modelReader) readVocab(r *jsonread.Reader) error {
	const bytesPerToken = 48 // of the whole file, with the merges; a wrong guess costs time only
	m.vocab = newVocab(m.guess/bytesPerToken, m.guess/8)
	kind, err := r.Kind()
	if err != nil {
		return err
	}
	if kind == jsonread.Array {
		m.sawScores = true
		err = r.Array(func(i int) error { return m.scored(r, i) })
		if err != nil {
			return err
		}
		return m.vocab.index()
	}
	err = r.Members(func(token []byte) error {
		id, err := r.Int()
		if err != nil {
			return err
		}
		if !m.bytewise {
			return m.vocab.add(token, id)
		}
		raw, ok := toBytes(m.scratch[:0], token)
		if m.scratch = raw; !ok {
			return m.vocab.addHidden(token, id)
		}
		return m.vocab.add(raw, id)
	})
	if err != nil {
		return err
	}
	return m.vocab.index()
}

func (m *modelReader) scored(r *jsonread.Reader, id int) error {
	return r.Array(func(i int) error {
		switch i {
		case 0:
			token, err := r.Bytes()
			if err != nil {
				return err
			}
			return m.vocab.add(token, int64(id))
		case 1:
			v, err := r.Value()
			score, ok := v.Float()
			if err == nil && !ok {
				err = r.Errorf("the score of a token is not a number")
			}
			m.scores = append(m.scores, score)
			return err
		}
		return r.Errorf("a token has more than a text and a score")
	})
}

// readMerges reads ["a b", …] or [["a", "b"], …]; the rank of a rule is its index in the list.
func (m *modelReader) readMerges(r *jsonread.Reader) error {
	rules := newRuleReader(m.vocab, m.bytewise)
	err := r.Array(func(int) error {
		kind, err := r.Kind()
		if err != nil {
			return err
		}
		if kind == jsonread.Array {
			left, right, err := pairOf(r)
			if err != nil {
				return err
			}
			return rules.add(left, right)
		}
		rule, err := r.Bytes()
		if err != nil {
			return err
		}
		return rules.addLine(rule)
	})
	if err == nil {
		m.merges, err = rules.finish()
	}
	return err
}

func pairOf(r *jsonread.Reader) (left, right []byte, err error) {
	n := 0
	err = r.Array(func(i int) error {
		b, err := r.Bytes()
		switch i {
		case 0:
			left = append(left, b...)
		case 1:
			right = append(right, b...)
		}
		n++
		return err
	})
	if err == nil && n != 2 {
		err = r.Errorf("a merge has %d parts, not 2", n)
	}
	return left, right, err
}

// model builds what has been read.
func (m *modelReader) model() (wordModel, error) {
	kind := m.kind
	if kind == "" && m.sawMerges { // old files have no type
		kind = "BPE"
	}
	switch kind {
	case "BPE":
		if m.sawScores || !m.sawMerges {
			return nil, fmt.Errorf("%w: model: a BPE has a vocab without scores, and merges", pack.ErrCorrupt)
		}
		return m.bpe()
	case "Unigram":
		if len(m.scores) != m.vocab.size() || m.unkID < 0 || m.unkID >= int64(len(m.scores)) || m.bytewise {
			return nil, fmt.Errorf("%w: model: a Unigram has a score per token, an unk_id among them, and no ByteLevel",
				pack.ErrCorrupt)
		}
		return newUnigram(m.vocab, m.scores, int(m.unkID), m.byteFallback)
	}
	return nil, fmt.Errorf("%w: model of type %.40q; supported are BPE and Unigram", pack.ErrUnsupported, kind)
}

// bpe builds a BPE model. The unknown token is optional if every byte has a token.
func (m *modelReader) bpe() (wordModel, error) {
	unk := -1
	if m.unkToken != "" {
		unk, _ = m.vocab.findString(m.unkToken)
	}
	b := newBPE(bpe{
		vocab: m.vocab, merges: m.merges, bytewise: m.bytewise, wholeWords: m.ignoreMerges, unk: int32(unk),
		fuseUnk: m.fuseUnk,
	}, m.byteFallback)
	if m.unkToken != "" && unk < 0 && !b.allBytes {
		return nil, fmt.Errorf("%w: model: unk_token %.40q is not a token, nor is every byte", pack.ErrCorrupt,
			m.unkToken)
	}
	return b, nil
}
