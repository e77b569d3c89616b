package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// stub answers the requests of the page with texts that the user's last message names.
type stub struct {
	texts map[string]string

	mu      sync.Mutex
	changed *sync.Cond
	running int
	release chan struct{}
}

// serveStub serves the page beside answers: to a key of texts its value; "loop" does not end; "wait" after a request
// for /go; "think" with reasoning; "refused" and "broken" as they say.
func serveStub(t *testing.T, texts map[string]string) string {
	s := &stub{texts: texts, release: make(chan struct{})}
	s.changed = sync.NewCond(&s.mu)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", Serve)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data": [{"id": "small", "max_model_len": 4096}, {"id": "large", "max_model_len": 8192}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("GET /go", func(http.ResponseWriter, *http.Request) { s.release <- struct{}{} })
	mux.HandleFunc("GET /idle", func(http.ResponseWriter, *http.Request) { s.wait() })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// count changes the number of running requests.
func (s *stub) count(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += by
	s.changed.Broadcast()
}

// wait returns when no request runs.
func (s *stub) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 {
		s.changed.Wait()
	}
}

func (s *stub) chat(w http.ResponseWriter, r *http.Request) {
	s.count(1)
	defer s.count(-1)
	var request struct{ Messages []struct{ Content string } }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Messages) == 0 {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	said := request.Messages[len(request.Messages)-1].Content
	if said == "refused" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error": {"message": "the prompt has more tokens than the context: <b>9000</b>"}}`)
		return
	}
	w.Header().Set("X-Lowpack-Seed", "7")
	send := func(delta, rest string) {
		fmt.Fprintf(w, "data: {\"system_fingerprint\": \"f\", \"choices\": [{\"delta\": %s%s}]}\n\n", delta, rest)
		http.NewResponseController(w).Flush()
	}
	switch said {
	case "wait":
		send(`{"role": "assistant", "content": ""}`, "")
		<-s.release
	case "loop":
		for range 100 {
			send(`{"content": "again and again "}`, "")
		}
		<-r.Context().Done()
		return
	case "think":
		send(`{"reasoning_content": "The user wants *thought*."}`, "")
	case "broken":
		send(`{"content": "Half of"}`, "")
		return
	}
	text, known := s.texts[said]
	if !known {
		text = "You said: " + said
	}
	for piece := range strings.SplitSeq(text, " ") { // each with the space before it
		quoted, _ := json.Marshal(" " + piece)
		send(`{"content": `+string(quoted)+`}`, "")
	}
	send("{}", `, "finish_reason": "stop"`)
	fmt.Fprintf(w, "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 11, \"completion_tokens\": %d}}\n\ndata: "+
		"[DONE]\n\n",
		strings.Count(text, " ")+1)
}
