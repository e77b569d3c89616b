package server

import (
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// predictionUsage counts the tokens of a predicted output: those that occur in the generated texts, and the rest. The
// counts depend on prompt, prediction and texts only, not on which drafts were tried.
type predictionUsage struct {
	Accepted int `json:"accepted_prediction_tokens"`
	Rejected int `json:"rejected_prediction_tokens"`
}

// readPrediction reads a predicted output and cuts it to the context length.
func (s *settings) readPrediction(b *api.Body, m *model) {
	raw := b.Raw("prediction")
	if raw == nil {
		return
	}
	inner, e := api.ParseBody(raw)
	if e != nil {
		b.Fail("prediction", "prediction: want an object such as {\"type\": \"content\", \"content\": \"…\"}")
		return
	}
	kind := ""
	if inner.String("type", &kind); kind != "content" {
		inner.Fail("type", "type %.40q: must be content", kind)
	}
	if inner.Raw("content") == nil {
		inner.Fail("content", "content is missing")
	}
	text := readContent(inner, inner.Raw("content"))
	if e := inner.Err(); e != nil {
		b.Fail("prediction", "prediction: %s", e.Message)
		return
	}
	ids, err := m.Tokenizer.Encode(text, false)
	if err != nil {
		b.Unsupported("prediction", "prediction: %v", err)
	}
	s.prediction = append([]int{}, ids[:min(len(ids), m.context)]...)
}

// predicted returns the usage of the prediction; nil = none was given.
func (a *answer) predicted() *predictionUsage {
	if a.prediction == nil {
		return nil
	}
	u := &predictionUsage{}
	for i, c := range a.choices {
		n := engine.Predicted(a.requests[i/a.n].Prompt, a.prediction, c.tokens)
		u.Accepted += n
		u.Rejected += len(a.prediction) - n
	}
	return u
}
