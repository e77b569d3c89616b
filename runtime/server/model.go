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

	"github.com/lowpack/lowpack/internal/harmony"
	"github.com/lowpack/lowpack/internal/version"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/schedule"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// model is a loaded Model.
type model struct {
	*hosted
	*schedule.Scheduler
	Tokenizer *tokenizer.Tokenizer
	engine    *engine.Engine
	sampling  engine.Sampling // defaults from generation_config.json
	stops     []int
	vocab     int
	context   int
	formats   formats
	callForm  func() *callForm // nil result = the chat template has no known form of tool calls
	harmony   *harmony.Format  // nil = the model writes in another format
	hidden    int              // size of hidden states
	pairs     int              // most tokens of all pairs of a request
	pairFault func() error     // why the chat template cannot carry the pairs of scores; nil result = it can
}

func newModel(h *hosted, t *tokenizer.Tokenizer, e *engine.Engine, o schedule.Options) (*model, error) {
	generation, _ := h.File.Embedded("generation_config.json")
	sampling, err := engine.SamplingOf(generation)
	if err != nil {
		e.Close()
		return nil, err
	}
	d := e.Description()
	m := &model{
		hosted: h, Scheduler: schedule.New(e, o), Tokenizer: t, engine: e, sampling: sampling,
		callForm: sync.OnceValue(func() *callForm { return callFormOf(t) }),
		stops:    append(t.StopIDs(), d.EOS...), vocab: d.Vocab, context: e.Options().Context,
		harmony: harmony.Of(t), hidden: d.Hidden, pairs: maxBody,
		pairFault: sync.OnceValue(func() error { return pairFaultOf(t, h.File.Manifest().Scoring) }),
	}
	if m.harmony != nil {
		m.stops = m.harmony.Stops(m.stops)
	}
	return m, nil
}

// close stops running requests and frees the memory.
func (m *model) close() {
	m.Scheduler.Close()
	m.engine.Close()
}

// fingerprintOf returns the system_fingerprint, a hash of everything except the request that the output depends on: the
// manifest of the file, which has a digest of every tensor and embedded file, the version of the program and the type
// of the KV cache. Servers with the same fingerprint return the same bytes for the same request.
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

// tokenText returns the text of a token for lists of logprobs. A token of incomplete UTF-8 is written as "bytes:" and
// \x escapes.
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

// check rejects token ids outside the vocabulary.
func (m *model) check(ids []int) error {
	if i := slices.IndexFunc(ids, func(id int) bool { return id < 0 || id >= m.vocab }); i >= 0 {
		return fmt.Errorf("token id %d: the vocabulary has %d tokens", ids[i], m.vocab)
	}
	return nil
}

// errNoTokens: the text is empty and the model adds no beginning-of-text token.
var errNoTokens = errors.New("the text has no tokens")
