// Package requests makes requests of every kind for tests that compare the answers of servers.
package requests

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/seed"
)

// Request is one to be posted.
type Request struct{ Path, Body string }

// hangers are the generators of tests whose clients hang up.
var hangers = struct {
	sync.Mutex
	of map[testing.TB]*rand.Rand
}{of: map[testing.TB]*rand.Rand{}}

// leaves is the time after which the next client of a test hangs up.
func leaves(t testing.TB, most time.Duration) time.Duration {
	t.Helper()
	hangers.Lock()
	defer hangers.Unlock()
	r := hangers.of[t]
	if r == nil {
		r = seed.Rand(t)
		hangers.of[t] = r
		t.Cleanup(func() {
			hangers.Lock()
			defer hangers.Unlock()
			delete(hangers.of, t)
		})
	}
	return time.Duration(r.Int64N(int64(most)))
}

// HangUp sends a request to a server and leaves at some time before most has passed, which the seed of the test
// chooses.
func (r Request) HangUp(t testing.TB, client *http.Client, url string, most time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), leaves(t, most))
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+r.Path, strings.NewReader(r.Body))
	if err != nil {
		t.Error(err)
		return
	}
	if answer, err := client.Do(q); err == nil {
		answer.Body.Close()
	}
}

// Template is a chat template that shows tools, and writes calls in the form of Hermes.
const Template = `{% for m in messages %}{% if loop.first and tools %}{% for t in tools %}{{ t.function.name }} {% endfor %}{% endif %}{{ '<' ~ m.role ~ '>' ~ m.content }}` +
	`{% for c in m.tool_calls %}{{ '<tool_call>\n{"name": "' ~ c.function.name ~ '", "arguments": ' ~ c.function.arguments | tojson ~ '}\n</tool_call>' }}{% endfor %}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}`

const (
	schema = `{"type": "object", "properties": {"name": {"type": "string", "maxLength": 6}, "ok": {"type": "boolean"}, "n": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}}, "required": ["name", "ok", "n"]}`
	tools  = `[{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"enum": ["sky", "sea"]}}, "required": ["at"]}}}]`
)

// Mixed makes n requests: completions, chats and responses, greedy and sampled, alone and with several choices, with
// penalties, stop texts, logprobs, echo, schemas, regular expressions, tools, predictions. Many begin alike. The
// context is at least 256 tokens.
func Mixed(n int) []Request {
	g := &generator{rand.New(rand.NewPCG(5, 5)), nil}
	g.common = g.say(14)
	list := make([]Request, n)
	for i := range list {
		list[i] = g.request(i)
	}
	return list
}

type generator struct {
	*rand.Rand
	common []string
}

// say makes a text of k words.
func (g *generator) say(k int) []string {
	words := strings.Fields("river stone light winter paper engine garden music cloud bread silver window forest " +
		"letter harbor clock")
	list := make([]string, k)
	for i := range list {
		list[i] = words[g.IntN(len(words))]
	}
	return list
}

func (g *generator) request(i int) Request {
	words := g.say(1 + g.IntN(14))
	if i%3 == 0 {
		words = append(g.common[:len(g.common):len(g.common)], words...)
	}
	text := strings.Join(words, " ")
	b := map[string]any{"model": "tiny", "max_tokens": 1 + g.IntN(14), "seed": i, "temperature": float64(i%3) * 0.6}
	kind, path := i%11, "/v1/completions"
	if (i+i/11)%2 == 1 || kind == 7 {
		path = "/v1/chat/completions"
	}
	switch kind {
	case 1:
		b["n"], b["top_p"], b["top_k"] = 2, 0.9, 0
	case 2:
		b["frequency_penalty"], b["presence_penalty"], b["logit_bias"] = 0.7, -0.3, map[string]int{"17": 5, "40": -100}
	case 3:
		b["stop"], b["min_tokens"] = []string{"e", " the"}, 2
	case 4:
		b["repetition_penalty"], b["min_p"], b["ignore_eos"] = 1.3, 0.05, true
	case 5:
		b["max_tokens"] = 40
		b["response_format"] = map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"name": "x", "schema": json.RawMessage(schema)}}
	case 6:
		b["guided_regex"] = `[A-Z][a-z]{2,5} (river|stone)+[.]`
	case 7:
		b["tools"], b["tool_choice"], b["max_tokens"] = json.RawMessage(tools), []string{"auto", "required",
			"none"}[i%3], 40
	case 8:
		b["prediction"], b["max_tokens"] = map[string]any{"type": "content", "content": strings.Repeat(text+" ", 2)}, 40
	case 9:
		b["max_tokens"], b["ignore_eos"], b["temperature"] = 90, true, 0 // long and greedy: it repeats itself
	case 10:
		return responseOf(b, text)
	}
	scores := i%4 < 2 && kind < 9
	if path == "/v1/completions" {
		if b["prompt"] = text; kind == 0 {
			b["prompt"] = []string{text, text + " and", "The"}
		}
		if scores {
			b["logprobs"], b["echo"] = i%6, kind < 5 && i%8 == 0
		}
	} else {
		b["messages"] = []map[string]any{{"role": "user", "content": text}}
		if scores {
			b["logprobs"], b["top_logprobs"] = true, i%6
		}
	}
	return encode(path, b)
}

func responseOf(b map[string]any, text string) Request {
	b["input"], b["max_output_tokens"] = text, b["max_tokens"]
	delete(b, "max_tokens")
	return encode("/v1/responses", b)
}

func encode(path string, b map[string]any) Request {
	body, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return Request{path, string(body)}
}

// Essence returns the part of an answer that must not depend on what else the server does: all but ids, the time, and
// how many tokens came from the prefix cache.
func Essence(answer []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber() // every digit counts
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	strip(v)
	out, err := json.Marshal(v)
	return string(out), err
}

func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"id", "call_id", "item_id", "created", "created_at", "prompt_tokens_details",
			"input_tokens_details"} {
			delete(v, key)
		}
		for key, inner := range v {
			if key != "top_logprobs" { // its keys are tokens
				strip(inner)
			}
		}
	case []any:
		for _, inner := range v {
			strip(inner)
		}
	}
}
