package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/version"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/schedule"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// model is a Model at work.
type model struct {
	*hosted
	*schedule.Scheduler
	Tokenizer *tokenizer.Tokenizer
	engine    *engine.Engine
	sampling  engine.Sampling // what generation_config.json asks for
	stops     []int
	vocab     int
	context   int
	formats   formats
	callForm  func() *callForm // nil = calls of functions have none that is known
}

func newModel(h *hosted, t *tokenizer.Tokenizer, e *engine.Engine, o schedule.Options) (*model, error) {
	generation, _ := h.File.Embedded("generation_config.json")
	sampling, err := engine.SamplingOf(generation)
	if err != nil {
		e.Close()
		return nil, err
	}
	d := e.Description()
	return &model{
		hosted: h, Scheduler: schedule.New(e, o), Tokenizer: t, engine: e, sampling: sampling,
		callForm: sync.OnceValue(func() *callForm { return callFormOf(t) }),
		stops:    append(t.StopIDs(), d.EOS...), vocab: d.Vocab, context: e.Options().Context,
	}, nil
}

// close ends what is running and gives the memory back.
func (m *model) close() {
	m.Scheduler.Close()
	m.engine.Close()
}

// fingerprintOf names all that an answer depends on besides the request: the bytes of the file, whose manifest has a
// digest of every tensor and embedded file, the program, and the format of the KV cache. The same request to servers of
// the same fingerprint gets the same bytes.
func fingerprintOf(m Model) (string, error) {
	manifest, err := json.Marshal(m.File.Manifest())
	if err != nil {
		return "", fmt.Errorf("manifest: %w", err)
	}
	h := sha256.New()
	h.Write(manifest)
	fmt.Fprintf(h, "\n%s\n%s\n", version.Version, m.Engine.Cache)
	return "fp_" + hex.EncodeToString(h.Sum(nil))[:16], nil
}

// tokenText is the text of a token in lists of logprobs. One that is not whole characters is written as its bytes.
func (m *model) tokenText(id int) (text string, raw []byte) {
	raw = m.Tokenizer.TokenBytes(id)
	if utf8.Valid(raw) {
		return string(raw), raw
	}
	var b strings.Builder
	b.WriteString("bytes:")
	for _, c := range raw {
		b.WriteString(`\x` + strconv.FormatUint(uint64(c)|0x100, 16)[1:])
	}
	return b.String(), raw
}

// check refuses token ids that the model does not have.
func (m *model) check(ids []int) error {
	if i := slices.IndexFunc(ids, func(id int) bool { return id < 0 || id >= m.vocab }); i >= 0 {
		return fmt.Errorf("token id %d; the vocabulary has %d", ids[i], m.vocab)
	}
	return nil
}

// errNoTokens: an empty text of a model that puts nothing in front of texts.
var errNoTokens = errors.New("the prompt has no tokens")
