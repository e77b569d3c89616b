package server

import (
	"fmt"
	"testing"
)

// TestEcho covers the requests of evaluation harnesses: logprobs of the prompt, where the first token has none, and of
// exactly one generated token.
func TestEcho(t *testing.T) {
	web := serve(t, small, Options{Queue: 10, PrefixCache: true})
	_, _, text := post(t, web, "/v1/completions",
		`{"prompt": [[2552, 10, 20, 30], [2552, 11]], "temperature": 0, "max_tokens": 1, "logprobs": 1, "echo": true,
		"repetition_penalty": 1}`)
	v := object(t, text)
	for i, n := range []int{5, 3} {
		l, _ := at(v, "choices", i, "logprobs").(map[string]any)
		tokens, scores, top := l["tokens"].([]any), l["token_logprobs"].([]any), l["top_logprobs"].([]any)
		if len(tokens) != n || len(scores) != n || len(top) != n || len(l["text_offset"].([]any)) != n {
			t.Fatalf("choice %d: %d tokens, want %d: %v", i, len(tokens), n, l)
		}
		if scores[0] != nil || top[0] != nil {
			t.Errorf("choice %d: the first token has a logprob: %v %v", i, scores[0], top[0])
		}
		last := n - 1 // greedy: the best alternative has exactly the logprob of the token
		if alternatives := top[last].(map[string]any); alternatives[tokens[last].(string)] != scores[last] ||
			len(alternatives) != 1 {
			t.Errorf("choice %d: %v among %v", i, scores[last], alternatives)
		}
		joined := ""
		for _, token := range tokens {
			joined += token.(string)
		}
		if joined != at(v, "choices", i, "text") {
			t.Errorf("choice %d: text %q, tokens %q", i, at(v, "choices", i, "text"), joined)
		}
	}
	_, _, text = post(t, web, "/v1/completions",
		`{"prompt": "Hello there", "max_tokens": 0, "echo": true, "logprobs": 0}`)
	if v := object(t, text); at(v, "choices", 0, "text") != "Hello there" ||
		at(v, "choices", 0, "finish_reason") != "length" || fmt.Sprint(at(v, "usage", "completion_tokens")) != "0" {
		t.Errorf("prompt alone: %s", text)
	}
}

// TestEchoEnd: a generated token has logprobs where it ends the text, too, if it is the only one; harnesses drop the
// last logprob. Without logprobs, with more tokens, or where the request says what ends the text, it ends there.
func TestEchoEnd(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	for fields, want := range map[string]string{
		`"echo": true, "logprobs": 1, "max_tokens": 1`: "5 1 length",
		`"echo": true, "logprobs": 1, "max_tokens": 2`: "4 0 stop",
		`"echo": true, "max_tokens": 1`:                "0 0 stop",
		`"logprobs": 1, "max_tokens": 1`:               "0 0 stop",

		`"echo": true, "logprobs": 1, "max_tokens": 1, "ignore_eos": null`:       "5 1 length",
		`"echo": true, "logprobs": 1, "max_tokens": 1, "ignore_eos": false`:      "4 0 stop",
		`"echo": true, "logprobs": 1, "max_tokens": 1, "stop_token_ids": []`:     "5 1 length",
		`"echo": true, "logprobs": 1, "max_tokens": 1, "stop_token_ids": [9]`:    "4 0 stop",
		`"echo": true, "logprobs": 1, "max_tokens": 1, "guided_regex": "(a|b)?"`: "4 0 stop",
	} {
		_, _, text := post(t, web, "/v1/completions", `{"prompt": [2552, 10, 20, 30], "temperature": 0,
			"logit_bias": {"2553": 100}, `+fields+`}`)
		v := object(t, text)
		scores, _ := at(v, "choices", 0, "logprobs", "token_logprobs").([]any)
		got := fmt.Sprint(len(scores), " ", at(v, "usage", "completion_tokens"), " ",
			at(v, "choices", 0, "finish_reason"))
		if got != want {
			t.Errorf("%s: logprobs, tokens, reason %s, want %s: %s", fields, got, want, text)
		}
	}
}
