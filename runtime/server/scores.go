package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/relevance"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// pair is a query and a document.
type pair struct{ query, document string }

// scored are the scores of pairs, in their order.
type scored struct {
	scores []float64
	usage  promptUsage
}

// scorePairs computes the scores of pairs, whose documents stand in a field of the request, and answers with an error
// if it returns nil.
func (s *Server) scorePairs(
	w http.ResponseWriter, r *http.Request, m *model, b *api.Body, field string, pairs []pair,
) *scored {
	ctx := r.Context()
	requests := m.readScores(ctx, b, field, pairs, saltOf(r))
	if e := b.Err(); e != nil {
		e.Write(w)
		return nil
	}
	if err := ctx.Err(); err != nil {
		apiError(err).Write(w)
		return nil
	}
	b.Close()
	a := &scored{scores: make([]float64, len(requests))}
	how := m.File.Manifest().Scoring
	if e := s.compute(r, m, requests, field, func(e *schedule.Event) {
		a.scores[e.Request] = relevance.Score(how, e.Logits)
	}); e != nil {
		e.Write(w)
		return nil
	}
	for i := range requests {
		a.usage.Prompt += len(requests[i].Prompt)
	}
	a.usage.Total = a.usage.Prompt
	return a
}

// readScores reads the fields that all requests for scores have, and makes the requests of pairs. They have at most as
// many tokens together as texts without a common query could have, and are made only until ctx is done.
func (m *model) readScores(
	ctx context.Context, b *api.Body, field string, pairs []pair, salt string,
) (requests []schedule.Request) {
	how := m.File.Manifest().Scoring
	b.Accept("user")
	b.Refuse("documents are not cut", "max_tokens_per_doc", "max_chunks_per_doc", "truncate_prompt_tokens",
		"truncation")
	b.Refuse("put the instruction into the field instruction", "prompt_name", "chat_template_kwargs")
	instruction := ""
	given := b.String("instruction", &instruction)
	switch {
	case b.Err() != nil:
		return nil
	case how == nil:
		b.Unsupported("model", "model %s makes no scores: its checkpoint does not declare how. Save it with "+
			"sentence-transformers, 6 or later, as a CrossEncoder of a Transformer and a LogitScore, with a chat "+
			"template of the roles query and document, and convert that", m.ID)
		return nil
	case m.pairFault() != nil:
		b.Unsupported("model", "model %s makes no scores: %v", m.ID, m.pairFault())
		return nil
	case !given:
		instruction = how.Prompt
	}
	total := 0
	for i, p := range pairs {
		if ctx.Err() != nil {
			return nil
		}
		ids := m.render(b, field, conversation(how, instruction, p),
			chat.Options{AddGenerationPrompt: how.Generation, Now: b.Now})
		if b.Err() != nil {
			return nil
		}
		if total += len(ids); total > m.pairs {
			b.TooLong(field, "%s have more than %d tokens together, each with its query: send fewer", field, m.pairs)
		}
		if len(ids) > m.context {
			b.TooLong(field, "%s[%d] has %d tokens with its query: the context holds %d", field, i, len(ids), m.context)
		}
		if most := how.MaxTokens; most > 0 && len(ids) > most {
			b.TooLong(field, "%s[%d] has %d tokens with its query: the checkpoint declares %d as the longest text",
				field, i, len(ids), most)
		}
		if b.Err() != nil {
			return nil
		}
		requests = append(requests, schedule.Request{Prompt: ids, Logprobs: -1, PromptLogprobs: -1, Salt: salt,
			Picked: how.Tokens()})
	}
	return requests
}

// conversation returns the messages of a pair, as sentence-transformers makes them.
func conversation(how *scoring.Scoring, instruction string, p pair) []chat.Message {
	list := []chat.Message{{Role: "query", Content: p.query}, {Role: "document", Content: p.document}}
	if instruction != "" {
		list = append([]chat.Message{{Role: "system", Content: instruction}}, list...)
	}
	if how.Format == scoring.Structured {
		for i, m := range list {
			list[i] = chat.Message{More: jsonOf(structured{m.Role, []textPart{{"text", m.Content}}})}
		}
	}
	return list
}

// structured is a message whose content is a list of parts.
type structured struct {
	Role    string     `json:"role"`
	Content []textPart `json:"content"`
}

type textPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// probes are pairs that a chat template must tell apart, those of sentence-transformers.
var probes = []pair{{"alpha", "bravo"}, {"charlie", "bravo"}, {"alpha", "foxtrot"}}

// errPairs: scores would be of something else than a query and a document.
var errPairs = errors.New("its chat template does not write the contents of the roles query and document")

// pairFaultOf returns why a chat template cannot carry a query and a document; nil = it can.
func pairFaultOf(t *tokenizer.Tokenizer, how *scoring.Scoring) error {
	var texts []string
	for _, p := range probes {
		o := chat.Options{AddGenerationPrompt: how.Generation, Now: func() time.Time { return time.Time{} }}
		text, err := t.RenderChat(conversation(how, "", p), o)
		if err != nil {
			return fmt.Errorf("its chat template does not take the roles query and document: %w", err)
		}
		texts = append(texts, text.S)
	}
	if texts[0] == texts[1] || texts[0] == texts[2] {
		return errPairs
	}
	return nil
}
