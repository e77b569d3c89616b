package server

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// scoreFields are the names of the two fields with queries and documents: vLLM has several.
var scoreFields = [][2]string{{"text_1", "text_2"}, {"queries", "documents"}, {"queries", "items"}}

// scoreList is the answer of /v1/score.
type scoreList struct {
	Object      string      `json:"object"`
	Data        []scoreItem `json:"data"`
	Model       string      `json:"model"`
	Fingerprint string      `json:"system_fingerprint"`
	Usage       promptUsage `json:"usage"`
}

type scoreItem struct {
	Index  int     `json:"index"`
	Object string  `json:"object"`
	Score  float64 `json:"score"`
}

// score handles POST /v1/score.
func (s *Server) score(w http.ResponseWriter, r *http.Request, m *model, b *api.Body) {
	field, pairs := readPairs(b)
	a := s.scorePairs(w, r, m, b, field, pairs)
	if a == nil {
		return
	}
	list := make([]scoreItem, len(pairs))
	for i := range list {
		list[i] = scoreItem{i, "score", a.scores[i]}
	}
	api.WriteJSON(w, http.StatusOK, scoreList{"list", list, m.ID, m.fingerprint, a.usage})
}

// readPairs reads queries and documents, of which there are as many, or one query for all. It returns the name of the
// field of the documents.
func readPairs(b *api.Body) (field string, pairs []pair) {
	at := slices.IndexFunc(scoreFields, func(names [2]string) bool {
		return b.Raw(names[0]) != nil && b.Raw(names[1]) != nil
	})
	if at < 0 {
		b.Fail(scoreFields[0][1], "there are no %s and %s", scoreFields[0][0], scoreFields[0][1])
		return "", nil
	}
	field = scoreFields[at][1]
	for _, name := range slices.Concat(scoreFields[0][:], scoreFields[1][:], scoreFields[2][:]) {
		if !slices.Contains(scoreFields[at][:], name) && b.Raw(name) != nil {
			b.Unsupported(name, "%s beside %s: want one of them", name, field)
		}
	}
	queries, documents := readTexts(b, scoreFields[at][0]), readTexts(b, field)
	if len(queries) != 1 && len(queries) != len(documents) {
		b.Unsupported(field, "%d %s and %d %s: want as many, or one of %[2]s", len(queries), scoreFields[at][0],
			len(documents), field)
	}
	if b.Err() != nil {
		return field, nil
	}
	for i, text := range documents {
		pairs = append(pairs, pair{queries[min(i, len(queries)-1)], text})
	}
	return field, pairs
}

// readTexts reads a text or a list of texts.
func readTexts(b *api.Body, name string) (texts []string) {
	var list []*string
	if bytes.HasPrefix(b.Raw(name), []byte("[")) {
		b.Decode(name, &list, "a text or a list of texts")
	} else {
		list = make([]*string, 1)
		b.Decode(name, &list[0], "a text or a list of texts")
	}
	if len(list) == 0 || len(list) > maxPrompts {
		b.Fail(name, "%s has %d texts: must be between 1 and %d", name, len(list), maxPrompts)
	}
	for i, text := range list {
		if text == nil {
			b.Fail(name, "%s[%d] is null: want a text", name, i)
			return nil
		}
		texts = append(texts, *text)
	}
	return texts
}
