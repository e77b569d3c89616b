package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/sentence"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/runtime/device"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/verify/reference"
)

// aScoring is that of the tests.
var aScoring = scoring.Scoring{True: 300, False: 17, Activation: scoring.Sigmoid, Format: scoring.Flat,
	Generation: true, Prompt: "Does the document answer the query?"}

// serveScored starts a server of the bundled model that makes scores.
func serveScored(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	_, web := serveOf(t, modelOf(t, tinymodel.Scored(t, aScoring), "tiny", small), o)
	return web
}

// serveAll starts a server of the bundled model that makes embeddings, with an optional chat template, and one of the
// model that makes scores; the result is the one of them that answers a path.
func serveAll(t *testing.T, o Options, template ...string) func(path string) *httptest.Server {
	t.Helper()
	pooled, scored := servePooled(t, o, template...), serveScored(t, o)
	return func(path string) *httptest.Server {
		if strings.HasSuffix(path, "/rerank") || strings.HasSuffix(path, "/score") {
			return scored
		}
		return pooled
	}
}

// ranked are a query and its documents, some longer than a chunk of a prompt.
var (
	ranked     = "Where did the river run?"
	candidates = []string{"The river ran down to the old mill.", "Hello", strings.Repeat("A clock tells the time. ", 8),
		"", "The river ran down to the old mill."}
)

// wantScores are the scores of candidates by the reference, and the tokens of their conversations.
func wantScores(t *testing.T, path string, s scoring.Scoring, m Model) (scores []float64, tokens int) {
	t.Helper()
	v, d := tinymodel.Open(t, path)
	ref, err := reference.New(v, d)
	if err != nil {
		t.Fatal(err)
	}
	tok, e, err := m.Load()
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	for _, document := range candidates {
		text := "<system>" + s.Prompt + "<query>" + ranked + "<document>" + document
		if s.Generation {
			text += "<answer>"
		}
		ids, err := tok.Encode(text, false)
		if err != nil {
			t.Fatal(err)
		}
		score, err := ref.Score(t.Context(), &s, ids)
		if err != nil {
			t.Fatal(err)
		}
		scores, tokens = append(scores, score), tokens+len(ids)
	}
	return scores, tokens
}

// rankOf returns the results of an answer, as index=score.
func rankOf(t testing.TB, text string) (list []string) {
	t.Helper()
	results, _ := at(object(t, text), "results").([]any)
	for _, r := range results {
		list = append(list, fmt.Sprintf("%v=%v", at(r, "index"), at(r, "relevance_score")))
	}
	return list
}

// bestFirst are the scores in the order and form of rankOf.
func bestFirst(scores []float64) (list []string) {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
	for _, i := range order {
		list = append(list, fmt.Sprintf("%d=%s", i, jsonOf(scores[i])))
	}
	return list
}

// TestScores: a score has the same bits alone, in a list, in every form of request, in any batch, in chunks of a
// prompt, with and without a shared prefix, and with any number of threads: those of the reference.
func TestScores(t *testing.T) {
	structured := strings.ReplaceAll(sentence.Template, "m.content", "m.content[0].text")
	for _, c := range []struct {
		s        scoring.Scoring
		template []string
	}{
		{aScoring, nil},
		{scoring.Scoring{True: 17, False: scoring.None, Activation: scoring.Identity, Format: scoring.Structured,
			Prompt: "Find"}, []string{structured}},
	} {
		file := tinymodel.Scored(t, c.s, c.template...)
		want, tokens := wantScores(t, file, c.s, modelOf(t, file, "tiny", small))
		for _, eo := range []engine.Options{small, {Threads: 2, Context: 256, Sequences: 2, Batch: 7},
			{Threads: 3, Context: 256, Sequences: 1, Batch: 16, Cache: engine.CacheF32}} {
			_, web := serveOf(t, modelOf(t, file, "tiny", eo), Options{Queue: 10, PrefixCache: true})
			for range 2 { // what is remembered of a query changes nothing
				checkScores(t, web, want, tokens)
			}
		}
	}
}

// checkScores asks for the scores of candidates in every form.
func checkScores(t *testing.T, web *httptest.Server, want []float64, tokens int) {
	t.Helper()
	for i, document := range candidates {
		_, _, text := post(t, web, "/v1/score", fmt.Sprintf(`{"text_1": %q, "text_2": %q}`, ranked, document))
		if got := fmt.Sprint(at(object(t, text), "data")); got != fmt.Sprintf("[map[index:0 object:score score:%s]]",
			jsonOf(want[i])) {
			t.Errorf("%q: %s, want %v", document, got, want[i])
		}
	}
	list, all := jsonOf(candidates), jsonOf(slices.Repeat([]string{ranked}, len(candidates)))
	for _, body := range []string{fmt.Sprintf(`{"queries": %q, "documents": %s}`, ranked, list),
		fmt.Sprintf(`{"queries": [%q], "items": %s}`, ranked, list), fmt.Sprintf(`{"text_1": %s, "text_2": %s}`, all, list)} {
		_, _, text := post(t, web, "/v1/score", body)
		data, _ := at(object(t, text), "data").([]any)
		for i, score := range want {
			if len(data) != len(want) || fmt.Sprint(at(data[i], "score")) != string(jsonOf(score)) {
				t.Errorf("%s: %s, want %v", body, text, want)
				break
			}
		}
	}
	objects := make([]map[string]string, len(candidates))
	for i, text := range candidates {
		objects[i] = map[string]string{"text": text, "title": "none"}
	}
	for body, best := range map[string][]string{
		fmt.Sprintf(`{"query": %q, "documents": %s}`, ranked, list):                                      bestFirst(want),
		fmt.Sprintf(`{"query": %q, "documents": %s, "top_n": 0}`, ranked, list):                          bestFirst(want),
		fmt.Sprintf(`{"query": %q, "documents": %s, "top_n": 2}`, ranked, list):                          bestFirst(want)[:2],
		fmt.Sprintf(`{"query": %q, "documents": %s, "top_n": 9}`, ranked, jsonOf(objects)):               bestFirst(want),
		fmt.Sprintf(`{"query": %q, "documents": %s, "return_documents": false}`, ranked, list):           bestFirst(want),
		fmt.Sprintf(`{"query": %q, "documents": %s, "return_documents": true}`, ranked, jsonOf(objects)): bestFirst(want),
	} {
		_, _, text := post(t, web, "/v1/rerank", body)
		if got := rankOf(t, text); !slices.Equal(got, best) {
			t.Errorf("%s: %q, want %q", body, got, best)
		}
		if got, want := fmt.Sprint(at(object(t, text), "usage")),
			fmt.Sprintf("map[prompt_tokens:%d total_tokens:%d]", tokens, tokens); got != want {
			t.Errorf("usage %s, want %s", got, want)
		}
		if told := strings.Contains(text, `"document":`); told != strings.Contains(body, "true") {
			t.Errorf("%s: %s", body, text)
		}
	}
}

// TestScoresPinned: scores of the bundled model, which no change may move, the documents in the answer, and an
// instruction in place of the checkpoint's.
func TestScoresPinned(t *testing.T) {
	web := serveScored(t, Options{Queue: 10})
	for body, want := range map[string]string{
		`"query": "river", "documents": ["mill", "clock"], "return_documents": true`: pinnedRank,
		`"query": "river", "documents": ["mill"], "instruction": "Is it a place?"`:   pinnedInstruction,
		`"query": "river", "documents": ["mill"], "instruction": ""`:                 pinnedBare,
	} {
		for _, path := range []string{"/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking", "/reranking"} {
			_, _, text := post(t, web, path, "{"+body+"}")
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s\nwant %s", path, text, want)
			}
		}
	}
	for _, path := range []string{"/v1/score", "/score"} {
		if _, _, text := post(t, web, path, `{"text_1": "river", "text_2": ["mill", "clock"]}`); !strings.Contains(text,
			pinnedScores) {
			t.Errorf("%s: %s\nwant %s", path, text, pinnedScores)
		}
	}
}

const (
	pinnedRank = `{"index":1,"relevance_score":0.9493050315567413,"document":{"text":"clock"}},` +
		`{"index":0,"relevance_score":0.9080938907341927,"document":{"text":"mill"}}`
	pinnedInstruction = `"relevance_score":0.9567813359792188}`
	pinnedBare        = `"relevance_score":0.9905456284428455}`
	pinnedScores      = `"score":0.9080938907341927},{"index":1,"object":"score","score":0.9493050315567413}`
)

// TestScoresTogether: the pairs of a request have a bound of their tokens together, as each repeats the query; and
// nothing is made for a client that has left.
func TestScoresTogether(t *testing.T) {
	s, web := serveOf(t, modelOf(t, tinymodel.Scored(t, aScoring), "tiny", small), Options{Queue: 200})
	body := fmt.Sprintf(`{"query": %q, "documents": [%q, %q]}`, ranked, candidates[0], candidates[1])
	status, _, text := post(t, web, "/v1/rerank", body)
	if status != http.StatusOK {
		t.Fatal(text)
	}
	m := s.models.list[0].model
	tokens, err := strconv.Atoi(fmt.Sprint(at(object(t, text), "usage", "total_tokens")))
	if err != nil {
		t.Fatal(err)
	}
	for pairs, want := range map[int]int{tokens: http.StatusOK, tokens - 1: http.StatusBadRequest} {
		m.pairs = pairs
		if status, _, text := post(t, web, "/v1/rerank", body); status != want {
			t.Errorf("%d tokens: %d %s", pairs, status, text)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequest(http.MethodPost, "/v1/rerank", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	b, e := api.ReadBody(httptest.NewRecorder(), r, maxBody, s.bodies)
	if e != nil {
		t.Fatal(e)
	}
	defer b.Close()
	if made := m.readScores(ctx, b, "documents", []pair{{ranked, candidates[0]}}, ""); len(made) > 0 {
		t.Errorf("%d requests for a client that has left", len(made))
	}
}

// TestScoresUnderLoad: answers are those of the idle server while others generate, ask for scores, and leave.
func TestScoresUnderLoad(t *testing.T) {
	s, web := serveOf(t, modelOf(t, tinymodel.Scored(t, aScoring), "tiny", small),
		Options{Queue: 200, PrefixCache: true})
	body := func(i int) string {
		return fmt.Sprintf(`{"query": %q, "documents": [%q, %q]}`, ranked, candidates[i%len(candidates)],
			candidates[(i+1)%len(candidates)])
	}
	ask := func(i int) string {
		status, _, text := post(t, web, "/v1/rerank", body(i))
		if status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
		return text
	}
	var want []string
	for i := range candidates {
		want = append(want, ask(i))
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if got := ask(i); got != want[i%len(want)] {
				t.Errorf("%s\nwas %s", got, want[i%len(want)])
			}
		})
		all.Go(func() {
			post(t, web, "/v1/completions", fmt.Sprintf(`{"prompt": %q, "max_tokens": 9}`, embedded[i%len(embedded)]))
		})
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+"/v1/rerank", strings.NewReader(body(2)))
			if err != nil {
				t.Error(err)
			}
			go cancel()
			if answer, err := web.Client().Do(r); err == nil {
				answer.Body.Close()
			}
		})
	}
	all.Wait()
	wait.For(t, "idle", func() bool { return stats(s).Running == 0 && stats(s).Waiting == 0 })
}

// TestScoresOfMany: a list that is longer than what the server computes and lets wait gets the scores of its documents,
// and equal scores keep the order of the documents.
func TestScoresOfMany(t *testing.T) {
	web := serveScored(t, Options{Queue: 2, PrefixCache: true})
	_, _, one := post(t, web, "/v1/rerank", fmt.Sprintf(`{"query": %q, "documents": ["Hello"]}`, ranked))
	_, _, text := post(t, web, "/v1/rerank", fmt.Sprintf(`{"query": %q, "documents": %s}`, ranked,
		jsonOf(slices.Repeat([]string{"Hello"}, 30))))
	score := strings.TrimPrefix(rankOf(t, one)[0], "0=")
	for i, got := range rankOf(t, text) {
		if got != strconv.Itoa(i)+"="+score {
			t.Errorf("%d: %s, want the score %s", i, got, score)
		}
	}
}

// TestScoreMetrics: conversations count as prompts, each once, and what they have in common is computed once.
func TestScoreMetrics(t *testing.T) {
	web := serveScored(t, Options{Queue: 10, PrefixCache: true})
	body := fmt.Sprintf(`{"query": %q, "documents": ["a"]}`, strings.Repeat(ranked, 8))
	_, _, text := post(t, web, "/v1/rerank", body)
	post(t, web, "/v1/rerank", strings.Replace(body, `"a"`, `"another one"`, 1))
	_, _, metrics := do(t, web, http.MethodGet, "/metrics", "")
	if strings.Contains(metrics, `vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 0`+"\n") {
		t.Errorf("no prefix is shared: %s", text)
	}
	for name, want := range map[string]int{"request_prompt_tokens_count": 2, "generation_tokens_total": 0} {
		line := fmt.Sprintf(`vllm:%s{engine="0",model_name="tiny"} %d`, name, want)
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// TestScoresRefused: what is refused, with field and code.
func TestScoresRefused(t *testing.T) {
	short := aScoring
	short.MaxTokens = 40
	_, web := serveOf(t, modelOf(t, tinymodel.Scored(t, short), "tiny", small), Options{Queue: 2})
	const asked = `"query": "a", "documents": ["b"]`
	for _, c := range []struct {
		path, body, param, code, message string
	}{
		{"/v1/rerank", `{}`, "query", "", "query is missing"},
		{"/v1/rerank", `{"query": "a"}`, "documents", "", "documents is missing"},
		{"/v1/rerank", `{"query": ["a"], "documents": ["b"]}`, "query", "", "want a string"},
		{"/v1/rerank", `{"query": "a", "documents": "b"}`, "documents", "", "want a list of texts"},
		{"/v1/rerank", `{"query": "a", "documents": []}`, "documents", "", "must be between 1 and"},
		{"/v1/rerank", `{"query": "a", "documents": ["b", 5]}`, "documents", "", "documents[1]: want a text"},
		{"/v1/rerank", `{"query": "a", "documents": [null]}`, "documents", "", "documents[0]: want a text"},
		{"/v1/rerank", `{"query": "a", "documents": [{"text": null}]}`, "documents", "", "documents[0]: want a text"},
		{"/v1/rerank", `{"query": "a", "documents": [{"title": "b"}]}`, "documents", "", "documents[0]: want a text"},
		{"/v1/rerank", `{"query": "a", "documents": [` + strings.Repeat(`"b",`, maxPrompts) + `"b"]}`, "documents", "",
			"1025 documents: must be between 1 and 1024"},
		{"/v1/rerank", `{` + asked + `, "top_n": -1}`, "top_n", "", "must be between"},
		{"/v1/rerank", `{` + asked + `, "return_documents": 1}`, "return_documents", "", "want true or false"},
		{"/v1/rerank", `{` + asked + `, "instruction": 1}`, "instruction", "", "want a string"},
		{"/v1/rerank", `{` + asked + `, "rank_fields": ["title"]}`, "rank_fields", "unsupported_parameter", "are texts"},
		{"/v2/rerank", `{` + asked + `, "relevant_spans": {"top_k": 1}}`, "relevant_spans", "unsupported_parameter", "whole"},
		{"/v1/rerank", `{` + asked + `, "max_tokens_per_doc": 9}`, "max_tokens_per_doc", "unsupported_parameter", "not cut"},
		{"/v1/rerank", `{` + asked + `, "truncation": true}`, "truncation", "unsupported_parameter", "not cut"},
		{"/v1/rerank", `{` + asked + `, "prompt_name": "web"}`, "prompt_name", "unsupported_parameter", "field instruction"},
		{"/v1/rerank", `{` + asked + `, "model": "other"}`, "model", "model_not_found", ""},
		{"/v1/rerank", fmt.Sprintf(`{"query": "a", "documents": ["b", %q]}`, strings.Repeat("a ", 20)), "documents",
			"context_length_exceeded", "declares 40 as the longest text"},
		{"/v1/rerank", fmt.Sprintf(`{"query": "a", "documents": [%q]}`, strings.Repeat("a ", 300)), "documents",
			"context_length_exceeded", "documents[0] has"},
		{"/v1/score", `{}`, "text_2", "", "there are no text_1 and text_2"},
		{"/v1/score", `{"text_1": "a"}`, "text_2", "", "there are no text_1 and text_2"},
		{"/v1/score", `{"text_1": "a", "documents": "b"}`, "text_2", "", "there are no text_1 and text_2"},
		{"/v1/score", `{"text_1": "a", "text_2": "b", "items": "c"}`, "items", "unsupported_value", "beside text_2"},
		{"/v1/score", `{"text_1": ["a", "b"], "text_2": "c"}`, "text_2", "unsupported_value", "want as many"},
		{"/v1/score", `{"text_1": ["a", "b"], "text_2": ["c", "d", "e"]}`, "text_2", "unsupported_value", "want as many"},
		{"/v1/score", `{"text_1": [], "text_2": "c"}`, "text_1", "", "must be between 1 and"},
		{"/v1/score", `{"queries": "a", "items": ["b", null]}`, "items", "", "items[1] is null"},
		{"/v1/score", `{"queries": 5, "items": "b"}`, "queries", "", "want a text or a list"},
	} {
		status, _, text := post(t, web, c.path, c.body)
		e := at(object(t, text), "error")
		code, _ := at(e, "code").(string)
		if message, _ := at(e, "message").(string); status/100 != 4 || at(e, "param") != c.param || code != c.code ||
			!strings.Contains(message, c.message) {
			t.Errorf("%s %s: %d %s; want %q about %s: %s", c.path, c.body, status, text, c.code, c.param, c.message)
		}
	}
}

// TestNoScores: a model that declares no scores says what to do, and one whose template cannot carry a query and a
// document says so; its tokens count for nothing.
func TestNoScores(t *testing.T) {
	const usual = `{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}`
	for template, says := range map[string]string{
		"":                          "LogitScore",
		usual:                       "does not write the contents of the roles query and document",
		`{{ messages[0].content }}`: "does not write the contents of the roles query and document",
		`{{ messages[1].content }}`: "does not write the contents of the roles query and document",
		`{{ raise_exception('only user and assistant') }}`: "only user and assistant",
	} {
		file := tinymodel.Path(t)
		if template != "" {
			file = tinymodel.Scored(t, aScoring, template)
		}
		_, web := serveOf(t, modelOf(t, file, "tiny", small), Options{Queue: 2})
		for range 2 {
			status, _, text := post(t, web, "/v1/rerank", `{"query": "a", "documents": ["b"]}`)
			if e := at(object(t, text), "error"); status != http.StatusBadRequest || at(e, "param") != "model" ||
				at(e, "code") != "unsupported_value" || !strings.Contains(text, says) {
				t.Errorf("%s: %d %s", template, status, text)
			}
		}
	}
}

// TestScoresOnDevice: a model that a device computes makes the same scores, bit for bit.
func TestScoresOnDevice(t *testing.T) {
	if race.Enabled {
		t.Skip("the device computes in one goroutine, which takes minutes here")
	}
	device.Register(plaindevice.Driver("plain", plaindevice.Options{}))
	file := tinymodel.Scored(t, aScoring)
	body, want := fmt.Sprintf(`{"query": %q, "documents": %s}`, ranked, jsonOf(candidates)), ""
	for _, name := range []string{device.CPU, "plain"} {
		o := small
		o.Device = name
		_, web := serveOf(t, modelOf(t, file, "tiny", o), Options{Queue: 10})
		status, _, text := post(t, web, "/v1/rerank", body)
		if want = cmp.Or(want, text); status != http.StatusOK || text != want {
			t.Errorf("%s: %d %.300s\nwant %.300s", name, status, text, want)
		}
	}
}

// TestScoresOfOtherTokens: a packed file whose scores are of a token that the model has not is refused.
func TestScoresOfOtherTokens(t *testing.T) {
	f, err := packed.Open(tinymodel.Scored(t, aScoring))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Manifest().Scoring.True = 1 << 20
	if _, err := packed.Describe(f); err == nil || !strings.Contains(err.Error(), "F27") {
		t.Error(err)
	}
}

// TestBatchScores: a file of requests for scores gets those of a server, in the order of the requests.
func TestBatchScores(t *testing.T) {
	s, web := serveOf(t, modelOf(t, tinymodel.Scored(t, aScoring), "tiny", small), Options{Queue: BatchQueue})
	text, want := "", []string{}
	for i, document := range candidates {
		for path, body := range map[string]string{
			"/v1/rerank": fmt.Sprintf(`{"query": %q, "documents": [%q, "Hello"]}`, ranked, document),
			"/v1/score":  fmt.Sprintf(`{"text_1": %q, "text_2": %q}`, ranked, document),
		} {
			text += batchLine(fmt.Sprint(i, path), path, body)
			_, _, answer := post(t, web, path, body)
			want = append(want, strings.TrimSpace(answer))
		}
	}
	out, errs, err := batchOn(t, s, text, time.Time{})
	if err != nil || errs != "" {
		t.Fatal(err, errs)
	}
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if !strings.Contains(line, want[i]) {
			t.Errorf("line %d: %.300s\nwant %.300s", i, line, want[i])
		}
	}
}
