package server

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lowpack/lowpack/runtime/engine"
)

// TestTokensTakeWhatIsAsked: texts of tokens are allocated only if asked for. A request of 8 MiB can have millions of
// tokens, whose texts take many times as much memory.
func TestTokensTakeWhatIsAsked(t *testing.T) {
	s, _ := serveModel(t, engine.Options{}, Options{})
	ids := make([]int, 100_000)
	if n := testing.AllocsPerRun(1, func() { s.models.list[0].model.tokens(ids, false, false) }); n > 1000 {
		t.Errorf("%v allocations for ids alone", n) // those of servers that tests before this one close are counted too
	}
	n := testing.AllocsPerRun(1, func() { s.models.list[0].model.tokens(ids, true, false) })
	if n > 2.5*float64(len(ids)) {
		t.Errorf("%v allocations for %d pieces", n, len(ids))
	}
}

// TestTokenize: tokens of a text, the text of tokens, and the prompt that the chat template renders.
func TestTokenize(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	_, _, text := post(t, web, "/tokenize",
		`{"content": "Hello there", "with_pieces": true, "return_token_strs": true}`)
	v := object(t, text)
	joined := ""
	for i := range at(v, "tokens").([]any) {
		joined += at(v, "tokens", i, "piece").(string)
	}
	if joined != "Hello there" || fmt.Sprint(at(v, "max_model_len")) != "256" {
		t.Error(text)
	}
	_, _, text = post(t, web, "/tokenize", `{"prompt": "Hello there"}`)
	ids, _ := json.Marshal(at(object(t, text), "tokens"))
	_, _, text = post(t, web, "/detokenize", `{"tokens": `+string(ids)+`}`)
	if at(object(t, text), "content") != "<|begin_of_text|>Hello there" {
		t.Error(text)
	}
	_, _, text = post(t, web, "/apply-template",
		`{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]}`)
	if at(object(t, text), "prompt") != "<|begin_of_text|>User: a\nb<|eot_id|>Assistant: " {
		t.Error(text)
	}
}
