package server

import (
	"net/http"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// tokenize handles POST /tokenize. It takes the fields of llama-server (content, add_special) and of vLLM (prompt,
// messages, add_special_tokens), and answers with the fields of both.
func (s *Server) tokenize(w http.ResponseWriter, _ *http.Request, m *model, b *api.Body) {
	text, special, pieces, strings := "", false, false, false
	given := b.String("content", &text)
	if b.String("prompt", &text) {
		if given {
			b.Unsupported("prompt", "prompt cannot be combined with content")
		}
		given, special = true, true // vLLM's default
	}
	if given && b.Raw("messages") != nil {
		b.Unsupported("messages", "messages cannot be combined with content or prompt")
	}
	if b.Bool("add_special", &special) && b.Raw("add_special_tokens") != nil {
		b.Unsupported("add_special_tokens", "add_special_tokens is another name of add_special: send one of them")
	}
	b.Bool("add_special_tokens", &special)
	b.Bool("with_pieces", &pieces)
	b.Bool("return_token_strs", &strings)
	var (
		ids []int
		err error
	)
	switch {
	case b.Raw("messages") != nil:
		ids = m.readConversation(b)
	case !given:
		b.Fail("content", "content, prompt or messages is missing")
	default:
		ids, err = m.Tokenizer.Encode(text, special)
	}
	if err != nil {
		b.Unsupported("content", "content: %v", err)
	}
	if e := b.Err(); e != nil {
		e.Write(w)
		return
	}
	api.WriteJSON(w, http.StatusOK, m.tokens(ids, pieces, strings))
}

// piece is a token id with its text.
type piece struct {
	ID    int    `json:"id"`
	Piece string `json:"piece"`
}

// tokens returns the body of a /tokenize response, with a text per token only if asked for.
func (m *model) tokens(ids []int, pieces, strings bool) map[string]any {
	if ids == nil {
		ids = []int{}
	}
	answer := map[string]any{"tokens": ids, "count": len(ids), "max_model_len": m.context}
	if pieces {
		list := make([]piece, len(ids))
		for i, id := range ids {
			list[i].ID = id
			list[i].Piece, _ = m.tokenText(id)
		}
		answer["tokens"] = list
	}
	if strings {
		texts := make([]string, len(ids))
		for i, id := range ids {
			texts[i], _ = m.tokenText(id)
		}
		answer["token_strs"] = texts
	}
	return answer
}

// detokenize handles POST /detokenize.
func (s *Server) detokenize(w http.ResponseWriter, _ *http.Request, m *model, b *api.Body) {
	var ids api.Integers
	given := b.Decode("tokens", &ids, "a list of token ids")
	if !given {
		b.Fail("tokens", "tokens is missing")
	} else if err := m.check(ids); err != nil {
		b.Unsupported("tokens", "tokens: %v", err)
	}
	if e := b.Err(); e != nil {
		e.Write(w)
		return
	}
	text := m.Tokenizer.Decode(ids, true)
	api.WriteJSON(w, http.StatusOK, map[string]string{"content": text, "prompt": text})
}

// applyTemplate handles POST /apply-template.
func (s *Server) applyTemplate(w http.ResponseWriter, _ *http.Request, m *model, b *api.Body) {
	readFunctions(b, b.Raw("tools"))
	messages, o := m.readMessages(b)
	text := ""
	if b.Err() == nil {
		var err error
		if text, err = m.Tokenizer.Chat(messages, o); err != nil {
			b.Unsupported("messages", "messages: %v", err)
		}
	}
	if e := b.Err(); e != nil {
		e.Write(w)
		return
	}
	api.WriteJSON(w, http.StatusOK, map[string]string{"prompt": text})
}
