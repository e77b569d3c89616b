package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
)

// answered is what TestReplicaPrefixes looks at of an answer.
type answered struct {
	Choices []struct {
		Message json.RawMessage `json:"message"`
	} `json:"choices"`
	Usage struct {
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// story is the first message of conversation i; its end is k.
func story(i, k int) string {
	return fmt.Sprintf(`{"role":"user","content":"%d. %s%d"}`, i, strings.Repeat("Once upon a time. ", 10), k)
}

// turn asks for the next message of a conversation, and returns its replica and the tokens of the prompt that were in
// the cache there. first stands in front of the messages.
func (r *replicas) turn(first string, messages *[]string) (replica string, cached int) {
	r.t.Helper()
	got, err := r.post("/v1/chat/completions", fmt.Sprintf(`{%s"max_tokens":4,"seed":1,"messages":[%s]}`, first,
		strings.Join(*messages, ",")))
	if err != nil {
		r.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK {
		r.t.Fatalf("%d %v %s", got.StatusCode, err, text)
	}
	var a answered
	if err := json.Unmarshal(text, &a); err != nil {
		r.t.Fatal(err)
	}
	*messages = append(*messages, string(a.Choices[0].Message), `{"role":"user","content":"And then?"}`)
	return got.Header.Get("X-Replica"), a.Usage.Details.Cached
}

// refuses sends a body that is not JSON, which takes a proxy no more than linear time.
func (r *replicas) refuses(body string) {
	r.t.Helper()
	answer, err := r.post("/v1/chat/completions", body)
	if err != nil {
		r.t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		r.t.Errorf("%s for a body of %d bytes that is not JSON", answer.Status, len(body))
	}
}

// TestReplicaPrefixes: behind HAProxy the turns of a conversation go to one replica, which has its beginning in the
// cache, and those of another one may go elsewhere. When a replica is gone, its conversations move and no others.
func TestReplicaPrefixes(t *testing.T) {
	long.Only(t)
	testReplicaPrefixes(t, haproxy)
}

// TestInteropReplicaPrefixes: the same behind Envoy.
func TestInteropReplicaPrefixes(t *testing.T) { testReplicaPrefixes(t, envoy) }

func testReplicaPrefixes(t *testing.T, p proxy) {
	t.Helper()
	t.Parallel()
	r := newReplicas(t, p)
	const n = 60
	home, lists, firsts := make([]string, n), make([][]string, n), make([]string, n)
	homes := map[string]int{}
	for i := range n {
		if lists[i] = []string{story(i, 0)}; i%4 == 2 {
			lists[i] = []string{`{"role":"system","content":"Tell stories."}`, story(i, 0)}
		}
		for k := range 3 {
			if i%2 == 1 { // body and first message differ from turn to turn, so the key decides
				firsts[i] = fmt.Sprintf(`"metadata":{"turn":"%d"},"prompt_cache_key":"story %d",`, k, i)
				lists[i][0] = story(i, k)
			}
			replica, cached := r.turn(firsts[i], &lists[i])
			if k == 0 {
				home[i] = replica
				homes[replica]++
			}
			if replica != home[i] || k > 0 && cached == 0 {
				t.Errorf("turn %d of conversation %d: from %s with %d tokens in the cache; the first was from %s", k, i,
					replica, cached, home[i])
			}
		}
	}
	if len(homes) != len(r.names) {
		t.Fatalf("conversations by replica: %v", homes)
	}
	r.refuses(`{"messages":[` + strings.Repeat("{", 1<<20))
	r.end("two", syscall.SIGTERM)
	for i := range n {
		if replica, _ := r.turn(firsts[i], &lists[i]); (replica != home[i]) != (home[i] == "two") {
			t.Errorf("conversation %d went from %s to %s", i, home[i], replica)
		}
	}
}
