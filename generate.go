package lowpack

import (
	"context"
	"fmt"
	"iter"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Request asks for a text: the continuation of Prompt, or the answer to a conversation.
type Request struct {
	Prompt   string
	Messages []chat.Message // rendered with the model's chat template; instead of Prompt

	MaxTokens int              // most tokens to generate; 0 = as many as the context holds
	Sampling  *engine.Sampling // nil = Model.Sampling; &engine.Sampling{} is greedy
	Stop      []string         // texts that end the generation and are not part of it
}

// Generate streams the generated text piece by piece. The loop ends with the text, when ctx is done, or when the body
// breaks; an error, if any, is the last pair. The text of all pieces in order is the whole text; a piece without a
// token has the token −1.
//
// As many loops may run at once as the model was opened with sequences (engine.Options.Sequences, one by default); one
// more gets pack.ErrLimit. Programs that need the reason why a text ended, timings, or a KV cache that stays between
// calls use Model.Engine.
func (m *Model) Generate(ctx context.Context, r Request) iter.Seq2[engine.Piece, error] {
	return func(yield func(engine.Piece, error) bool) {
		request, err := m.request(r)
		if err != nil {
			yield(engine.Piece{Token: -1}, err)
			return
		}
		seq, err := m.Engine.NewSequence()
		if err != nil {
			yield(engine.Piece{Token: -1}, err)
			return
		}
		defer seq.Close()
		wanted := true
		_, err = m.Engine.Generate(ctx, seq, request, func(p engine.Piece) bool {
			wanted = yield(p, nil)
			return wanted
		})
		if err != nil && wanted {
			yield(engine.Piece{Token: -1}, err)
		}
	}
}

// request turns text into tokens and fills in what the model's own files say.
func (m *Model) request(r Request) (engine.Request, error) {
	out := engine.Request{
		MaxTokens: r.MaxTokens, StopTexts: r.Stop, StopTokens: m.StopTokens(), Decoder: m.Tokenizer.NewStream(true),
		Speculate: engine.SpeculateAuto, Drafts: m.Drafts,
	}
	var err error
	if r.Sampling != nil {
		out.Sampling = *r.Sampling
	} else if out.Sampling, err = m.Sampling(); err != nil {
		return out, err
	}
	if out.Prompt, err = m.encode(r); err == nil && len(out.Prompt) == 0 {
		err = fmt.Errorf("%w: the prompt has no tokens", pack.ErrUnsupported)
	}
	return out, err
}

func (m *Model) encode(r Request) ([]int, error) {
	switch {
	case len(r.Messages) == 0:
		return m.Tokenizer.Encode(r.Prompt, true)
	case r.Prompt != "":
		return nil, fmt.Errorf("%w: a request has Prompt or Messages, not both", pack.ErrUnsupported)
	}
	return m.Tokenizer.ChatTokens(r.Messages, chat.Options{AddGenerationPrompt: true})
}
