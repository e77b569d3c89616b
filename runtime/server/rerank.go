package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// rerankList is the answer of /v1/rerank.
type rerankList struct {
	Object      string       `json:"object"`
	Results     []rerankItem `json:"results"` // the best first; equal scores in the order of the documents
	Model       string       `json:"model"`
	Fingerprint string       `json:"system_fingerprint"`
	Usage       promptUsage  `json:"usage"`
}

type rerankItem struct {
	Index    int             `json:"index"`
	Score    float64         `json:"relevance_score"`
	Document *rerankDocument `json:"document,omitempty"`
}

type rerankDocument struct {
	Text string `json:"text"`
}

// rerank handles POST /v1/rerank.
func (s *Server) rerank(w http.ResponseWriter, r *http.Request, m *model, b *api.Body) {
	query, whole, most := "", false, 0
	if !b.String("query", &query) {
		b.Fail("query", "query is missing")
	}
	documents := readDocuments(b)
	b.Int("top_n", &most, 0, biggestInt)
	b.Bool("return_documents", &whole)
	b.Refuse("documents are texts", "rank_fields")
	b.Refuse("a score is of the whole document", "relevant_spans")
	pairs := make([]pair, len(documents))
	for i, text := range documents {
		pairs[i] = pair{query, text}
	}
	a := s.scorePairs(w, r, m, b, "documents", pairs)
	if a == nil {
		return
	}
	list := make([]rerankItem, len(pairs))
	for i := range list {
		if list[i] = (rerankItem{Index: i, Score: a.scores[i]}); whole {
			list[i].Document = &rerankDocument{documents[i]}
		}
	}
	slices.SortStableFunc(list, func(x, y rerankItem) int { return cmp.Compare(y.Score, x.Score) })
	if most > 0 {
		list = list[:min(most, len(list))]
	}
	api.WriteJSON(w, http.StatusOK, rerankList{"list", list, m.ID, m.fingerprint, a.usage})
}

// readDocuments reads a list of texts, or of objects with a text.
func readDocuments(b *api.Body) (texts []string) {
	const name = "documents"
	var list []json.RawMessage
	if !b.Decode(name, &list, "a list of texts") {
		b.Fail(name, "%s is missing", name)
		return nil
	}
	if len(list) == 0 || len(list) > maxPrompts {
		b.Fail(name, "%d %s: must be between 1 and %d", len(list), name, maxPrompts)
		return nil
	}
	for i, raw := range list {
		var d struct {
			Text *string `json:"text"`
		}
		var err error
		if bytes.HasPrefix(raw, []byte(`"`)) {
			err = api.Unmarshal(raw, &d.Text)
		} else {
			err = api.Unmarshal(raw, &d)
		}
		if err != nil || d.Text == nil {
			b.Fail(name, "%s[%d]: want a text, or an object with a text", name, i)
			return nil
		}
		texts = append(texts, *d.Text)
	}
	return texts
}
