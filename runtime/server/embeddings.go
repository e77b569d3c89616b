package server

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net/http"

	"github.com/lowpack/lowpack/runtime/embedding"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// vectors is a parsed request for embeddings.
type vectors struct {
	model      *model
	requests   []schedule.Request
	dimensions int
	base64     bool
}

// embeddings handles POST /v1/embeddings.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request, m *model, b *api.Body) {
	v := m.readVectors(b, saltOf(r))
	if e := b.Err(); e != nil {
		e.Write(w)
		return
	}
	b.Close()
	if e := s.compute(r, m, v.requests, "input", func(*schedule.Event) {}); e != nil {
		e.Write(w)
		return
	}
	api.WriteJSON(w, http.StatusOK, v.answer())
}

// compute computes requests without texts, which stand in a field, and calls take for each event.
func (s *Server) compute(
	r *http.Request, m *model, requests []schedule.Request, field string, take func(*schedule.Event),
) *api.Error {
	ctx := r.Context()
	call, err := m.Submit(ctx, requests)
	if err != nil {
		return fieldError(err, field)
	}
	defer call.Close()
	for {
		events, err := call.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fieldError(err, field)
		}
		for i := range events {
			take(&events[i])
		}
	}
}

// fieldError maps an error of the scheduler to an API error about the field that has the texts.
func fieldError(err error, field string) *api.Error {
	e := apiError(err)
	if e.Param == "prompt" {
		e.Param = field
	}
	return e
}

// readVectors reads the fields of a request for embeddings.
func (m *model) readVectors(b *api.Body, salt string) *vectors {
	v := &vectors{model: m, dimensions: m.hidden}
	format := "float"
	if b.String("encoding_format", &format); format != "float" && format != "base64" {
		b.Fail("encoding_format", "encoding_format is %.40q: must be float or base64", format)
	}
	v.base64 = format == "base64"
	if b.Int("dimensions", &v.dimensions, 1, biggestInt) && v.dimensions > m.hidden {
		b.Unsupported("dimensions", "dimensions is %d: the embeddings of the model have %d", v.dimensions, m.hidden)
	}
	b.Accept("user")
	b.Refuse("put the prompt in front of the text", "prompt_name", "input_type")
	b.Refuse("that is a field of chat completions", "messages")
	b.Refuse("texts are not cut", "truncate_prompt_tokens")
	prompts := m.readPrompts(b, "input")
	pooling := m.File.Manifest().Pooling
	switch {
	case b.Err() != nil:
		return nil
	case pooling == nil:
		b.Unsupported("model", "model %s makes no embeddings: its checkpoint declares no pooling. Those of "+
			"sentence-transformers do, in modules.json: convert one with last-token or mean pooling, such as "+
			"Qwen3-Embedding", m.ID)
		return nil
	}
	for i, p := range prompts {
		if len(p.ids) > m.context {
			b.TooLong("input", "input[%d] has %d tokens: the context holds %d", i, len(p.ids), m.context)
		}
		if most := pooling.MaxTokens; most > 0 && len(p.ids) > most {
			b.TooLong("input", "input[%d] has %d tokens: the checkpoint declares %d as the longest text", i, len(p.ids),
				most)
		}
		v.requests = append(v.requests, schedule.Request{Prompt: p.ids, Logprobs: -1, PromptLogprobs: -1,
			Salt: salt, Vector: embedding.New(*pooling, m.hidden)})
	}
	return v
}

// embeddingList is the answer of /v1/embeddings.
type embeddingList struct {
	Object      string          `json:"object"`
	Data        []embeddingItem `json:"data"`
	Model       string          `json:"model"`
	Fingerprint string          `json:"system_fingerprint"`
	Usage       promptUsage     `json:"usage"`
}

type embeddingItem struct {
	Object    string          `json:"object"`
	Index     int             `json:"index"`
	Embedding json.RawMessage `json:"embedding"`
}

// promptUsage counts the tokens of texts that are not continued.
type promptUsage struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

// answer returns the answer, once all vectors are complete.
func (v *vectors) answer() *embeddingList {
	a := &embeddingList{Object: "list", Model: v.model.ID, Fingerprint: v.model.fingerprint}
	for i := range v.requests {
		q := &v.requests[i]
		a.Usage.Prompt += len(q.Prompt)
		y := q.Vector.Result(v.dimensions)
		item := embeddingItem{Object: "embedding", Index: i}
		if v.base64 {
			item.Embedding = jsonOf(base64.StdEncoding.EncodeToString(littleEndian(y)))
		} else {
			item.Embedding = jsonOf(y) // the shortest decimals that are these float32
		}
		a.Data = append(a.Data, item)
	}
	a.Usage.Total = a.Usage.Prompt
	return a
}

// littleEndian returns the bytes of float32 values.
func littleEndian(y []float32) []byte {
	bytes := make([]byte, 0, 4*len(y))
	for _, x := range y {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
	}
	return bytes
}
