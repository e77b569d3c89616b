package lowpack

import (
	"bytes"
	"fmt"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// UseDraft opens the packed file of a smaller draft model whose tokens m verifies several at a time (speculative
// decoding). Texts stay the same, byte for byte. The draft model must have the tokens of m; otherwise the error is
// pack.ErrUnsupported. Close closes it, too.
func (m *Model) UseDraft(path string) error {
	f, err := packed.Open(path)
	if err != nil {
		return err
	}
	if err := m.useDraft(f); err != nil {
		f.Close()
		return filerr.Named(path, err)
	}
	return nil
}

func (m *Model) useDraft(f *packed.File) error {
	var t *tokenizer.Tokenizer
	err := mmap.Guard(func() (err error) {
		t, err = tokenizer.Load(f.Embedded)
		return err
	})
	if err != nil {
		return err
	}
	if err := sameTokens(t, m.Tokenizer); err != nil {
		return err
	}
	draft, err := m.Engine.NewDraftModel(f)
	if err != nil {
		return err
	}
	m.closeDraft()
	m.Drafts, m.drafts = draft, f
	return nil
}

// sameTokens compares all tokens of a draft model with the tokens of its target.
func sameTokens(draft, target *tokenizer.Tokenizer) error {
	const remedy = "; a draft model needs the tokenizer of the model that it is for"
	if draft.Size() != target.Size() {
		return fmt.Errorf("%w: %d tokens, the model has %d%s", pack.ErrUnsupported, draft.Size(), target.Size(), remedy)
	}
	for id := range target.Size() {
		a, b := draft.TokenBytes(id), target.TokenBytes(id)
		if !bytes.Equal(a, b) || draft.Special(id) != target.Special(id) {
			return fmt.Errorf("%w: token %d is %q, that of the model %q%s", pack.ErrUnsupported, id, a, b, remedy)
		}
	}
	return nil
}

func (m *Model) closeDraft() {
	if m.Drafts != nil {
		m.Drafts.Close()
		m.drafts.Close()
	}
}
