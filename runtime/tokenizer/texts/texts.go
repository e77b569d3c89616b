// Package texts makes the golden texts of a model: what its tokenizer and its chat template give. Conversion records
// them, verification makes them again.
package texts

import (
	"errors"
	"time"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// From returns the golden texts of the model with these files; none if there is no tokenizer, or an unsupported one.
func From(files tokenizer.Files) ([]golden.Text, error) {
	t, err := tokenizer.Load(files)
	if errors.Is(err, pack.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Of(t)
}

// Of returns the golden texts of a tokenizer. The conversation is omitted if there is no template, or if the template
// does not render it; convert reports the latter.
func Of(t *tokenizer.Tokenizer) ([]golden.Text, error) {
	texts := golden.Texts()
	for i := range texts {
		encode := t.Encode
		if texts[i].Plain {
			encode = t.EncodePlain
		}
		ids, err := encode(texts[i].Text, true)
		if err != nil {
			return nil, err
		}
		texts[i].Tokens = narrowed(ids)
	}
	if c, ok := conversation(t); ok {
		texts = append(texts, c)
	}
	return texts, nil
}

// conversation renders the golden conversation, at a fixed time.
func conversation(t *tokenizer.Tokenizer) (golden.Text, bool) {
	var messages []chat.Message
	for i, text := range golden.Conversation() {
		messages = append(messages, chat.Message{Role: []string{"user", "assistant"}[i%2], Content: text})
	}
	now := time.Date(2024, 7, 26, 12, 0, 0, 0, time.UTC)
	o := chat.Options{AddGenerationPrompt: true, Now: func() time.Time { return now }}
	text, err := t.Chat(messages, o)
	if err != nil {
		return golden.Text{}, false
	}
	ids, err := t.ChatTokens(messages, o)
	return golden.Text{Name: golden.ConversationName, Text: text, Tokens: narrowed(ids)}, err == nil
}

// narrowed converts token ids to int32: tokenizers have at most some millions.
func narrowed(ids []int) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}
