package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/runtime/device"
	"github.com/lowpack/lowpack/runtime/engine"
)

// servePooled starts a server of the bundled model that makes embeddings.
func servePooled(t *testing.T, o Options, template ...string) *httptest.Server {
	t.Helper()
	file := tinymodel.Pooled(t, pooling.Pooling{Mode: pooling.LastToken})
	_, web := serveOf(t, modelOf(t, file, "tiny", small, template...), o)
	return web
}

// embedded are texts to make embeddings of, some longer than a chunk of a prompt; the last ones have a common start.
var embedded = []string{"Hello", "The river ran down to the old mill.", strings.Repeat("A clock tells the time. ", 9),
	strings.Repeat("A clock tells the time. ", 8) + "It hangs on the wall."}

// vectorsOf returns the embeddings of an answer, exactly.
func vectorsOf(t testing.TB, text string) (all [][]float32) {
	t.Helper()
	var a struct {
		Data []struct {
			Index     int
			Embedding json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for i, item := range a.Data {
		var y []float32
		if item.Index != i {
			t.Fatalf("embedding %d has index %d", i, item.Index)
		}
		if item.Embedding[0] == '[' {
			if err := json.Unmarshal(item.Embedding, &y); err != nil {
				t.Fatal(err)
			}
		} else {
			var raw []byte
			if err := json.Unmarshal(item.Embedding, &raw); err != nil { // a []byte is base64 in JSON
				t.Fatal(err)
			}
			for ; len(raw) > 0; raw = raw[4:] {
				y = append(y, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			}
		}
		all = append(all, y)
	}
	return all
}

// wantVectors makes the embeddings of texts from the hidden states of the engine, each text alone.
func wantVectors(t *testing.T, m Model, p pooling.Pooling) (all [][]float32, ids [][]int) {
	t.Helper()
	tok, e, err := m.Load()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	size := e.Description().Hidden
	for _, text := range embedded {
		tokens, err := tok.Encode(text, true)
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		states := make([]float32, len(tokens)*size)
		batch := []engine.Chunk{{Seq: s, Tokens: tokens, Hidden: states}}
		if err := e.Forward(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
		s.Close()
		y := states[len(states)-size:]
		if p.Mode == pooling.Mean {
			for i := range y {
				sum := 0.0
				for j := i; j < len(states); j += size {
					sum += float64(states[j])
				}
				y[i] = float32(sum / float64(len(tokens)))
			}
		}
		all, ids = append(all, y), append(ids, tokens)
	}
	return all, ids
}

// unit returns the first n elements, divided by their length.
func unit(x []float32, n int) []float32 {
	sum := 0.0
	for _, v := range x[:n] {
		sum += float64(float64(v) * float64(v))
	}
	y := make([]float32, n)
	for i := range y {
		y[i] = float32(float64(x[i]) / math.Sqrt(sum))
	}
	return y
}

// TestEmbeddings: an embedding has the same bits alone, in a list, as text and as token ids, as numbers and as base64,
// in any batch, in chunks of a prompt and with any number of threads: those that are made of the hidden states of the
// text alone.
func TestEmbeddings(t *testing.T) {
	for _, p := range []pooling.Pooling{{Mode: pooling.LastToken, Normalize: true}, {Mode: pooling.Mean}} {
		file := tinymodel.Pooled(t, p)
		want, ids := wantVectors(t, modelOf(t, file, "tiny", small), p)
		cut := make([][]float32, len(want))
		for i, y := range want {
			cut[i] = y[:8]
			if p.Normalize {
				cut[i], want[i] = unit(y, 8), unit(y, len(y))
			}
		}
		whole := string(jsonOf(embedded))
		for _, eo := range []engine.Options{small, {Threads: 2, Context: 256, Sequences: 2, Batch: 7},
			{Threads: 3, Context: 256, Sequences: 1, Batch: 16, Cache: engine.CacheF32}} {
			_, web := serveOf(t, modelOf(t, file, "tiny", eo), Options{Queue: 10, PrefixCache: true})
			for range 2 { // what is remembered of a text, and of its start, changes nothing
				for i, text := range embedded {
					_, _, one := post(t, web, "/v1/embeddings", fmt.Sprintf(`{"input": %q}`, text))
					compareVectors(t, one, want[i:i+1])
				}
			}
			for body, want := range map[string][][]float32{
				`"input": ` + whole:                                              want,
				`"input": ` + string(jsonOf(ids)):                                want,
				`"input": ` + string(jsonOf(ids[2])):                             want[2:3],
				`"input": ` + whole + `, "encoding_format": "base64"`:            want,
				`"input": ` + whole + `, "dimensions": 8`:                        cut,
				`"dimensions": 8, "encoding_format": "base64", "input": "Hello"`: cut[:1],
			} {
				_, _, text := post(t, web, "/v1/embeddings", "{"+body+"}")
				compareVectors(t, text, want)
			}
			_, _, text := post(t, web, "/v1/embeddings", fmt.Sprintf(`{"input": %s}`, whole))
			tokens := len(slices.Concat(ids...))
			if got, want := fmt.Sprint(at(object(t, text), "usage")),
				fmt.Sprintf("map[prompt_tokens:%d total_tokens:%d]", tokens, tokens); got != want {
				t.Errorf("usage %s, want %s", got, want)
			}
		}
	}
}

func compareVectors(t testing.TB, text string, want [][]float32) {
	t.Helper()
	if got := vectorsOf(t, text); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%.300s\nwant %.300s", text, fmt.Sprint(want))
	}
}

// TestEmbeddingsUnderLoad: answers are those of the idle server while others generate, ask for embeddings, and leave.
func TestEmbeddingsUnderLoad(t *testing.T) {
	file := tinymodel.Pooled(t, pooling.Pooling{Mode: pooling.Mean, Normalize: true})
	s, web := serveOf(t, modelOf(t, file, "tiny", small), Options{Queue: 200, PrefixCache: true})
	ask := func(i int) string {
		body := fmt.Sprintf(`{"input": [%q, %q]}`, embedded[i%len(embedded)], embedded[(i+1)%len(embedded)])
		status, _, text := post(t, web, "/v1/embeddings", body)
		if status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
		return text
	}
	var want []string
	for i := range embedded {
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
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+"/v1/embeddings",
				strings.NewReader(fmt.Sprintf(`{"input": [%q, %q]}`, embedded[3], embedded[2])))
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

// TestEmbeddingsOfMany: a list that is longer than what the server computes and lets wait gets the embeddings of its
// texts.
func TestEmbeddingsOfMany(t *testing.T) {
	web := servePooled(t, Options{Queue: 2})
	var one [][]float32
	for _, text := range embedded {
		_, _, answer := post(t, web, "/v1/embeddings", fmt.Sprintf(`{"input": %q}`, text))
		one = append(one, vectorsOf(t, answer)...)
	}
	_, _, answer := post(t, web, "/v1/embeddings", fmt.Sprintf(`{"input": %s}`, jsonOf(slices.Repeat(embedded, 5))))
	compareVectors(t, answer, slices.Repeat(one, 5))
}

// TestEmbeddingMetrics: texts count as prompts, each once. The start that they have in common is computed once for
// clients of the same key if the last token makes the vector, and for each text if all tokens do.
func TestEmbeddingMetrics(t *testing.T) {
	body := func(end string) string {
		return fmt.Sprintf(`{"input": %q}`, "Instruct: "+strings.Repeat("find the passage that answers. ", 6)+end)
	}
	for _, mode := range []pooling.Mode{pooling.LastToken, pooling.Mean} {
		file := tinymodel.Pooled(t, pooling.Pooling{Mode: mode})
		_, web := serveOf(t, modelOf(t, file, "tiny", small), Options{Queue: 10, PrefixCache: true,
			Keys: []string{"a", "b"}})
		ask := func(path, key, body string) string {
			method := map[bool]string{true: http.MethodGet, false: http.MethodPost}[body == ""]
			_, _, text := do(t, web, method, path, body, "Authorization", "Bearer "+key)
			return text
		}
		hits := func() (n int64) {
			_, after, _ := strings.Cut(ask("/metrics", "a", ""),
				"\n"+`vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} `)
			if _, err := fmt.Sscan(after, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		tokens, err := at(object(t, ask("/v1/embeddings", "a", body("one"))), "usage", "prompt_tokens").(json.Number).
			Int64()
		if err != nil {
			t.Fatal(err)
		}
		ask("/v1/embeddings", "b", body("one"))
		if n := hits(); n != 0 {
			t.Errorf("%v: %d tokens from the text of another key", mode, n)
		}
		ask("/v1/embeddings", "a", body("one"))
		ask("/v1/embeddings", "a", body("two"))
		if n := hits(); n > 0 != (mode == pooling.LastToken) || n >= 2*tokens {
			t.Errorf("%v: %d tokens from the cache, of texts of %d", mode, n, tokens)
		}
		metrics := ask("/metrics", "a", "")
		for name, want := range map[string]int64{"prompt_tokens_total": 4 * tokens, "request_prompt_tokens_count": 4,
			"generation_tokens_total": 0} {
			line := fmt.Sprintf(`vllm:%s{engine="0",model_name="tiny"} %d`, name, want)
			if !strings.Contains(metrics, line+"\n") {
				t.Errorf("%v: no line %s", mode, line)
			}
		}
	}
}

// TestEmbeddingsRefused: what is refused, with field and code.
func TestEmbeddingsRefused(t *testing.T) {
	pooled := modelOf(t, tinymodel.Pooled(t, pooling.Pooling{Mode: pooling.LastToken, MaxTokens: 4}), "tiny", small)
	_, web := serveOf(t, pooled, Options{Queue: 2})
	plain := serve(t, small, Options{Queue: 2})
	long := strings.Repeat("a ", 300)
	for _, c := range []struct {
		body, param, code, message string
	}{
		{`{}`, "input", "", "input is missing"},
		{`{"input": null}`, "input", "", "input is missing"},
		{`{"input": 5}`, "input", "", "want a string"},
		{`{"input": []}`, "input", "", ""},
		{`{"input": [[]]}`, "input", "unsupported_value", "the text has no tokens"},
		{`{"input": ["a", 5]}`, "input", "", "want a list of strings"},
		{`{"input": ["a", null]}`, "input", "", "input[1] is null"},
		{`{"input": [5, 99999999]}`, "input", "unsupported_value", "the vocabulary has"},
		{`{"input": "a", "encoding_format": "int8"}`, "encoding_format", "", "must be float or base64"},
		{`{"input": "a", "dimensions": 0}`, "dimensions", "", "must be between"},
		{`{"input": "a", "dimensions": 4096}`, "dimensions", "unsupported_value", "the embeddings of the model have"},
		{`{"input": "a", "prompt_name": "query"}`, "prompt_name", "unsupported_parameter", "in front of the text"},
		{`{"input": "a", "input_type": "query"}`, "input_type", "unsupported_parameter", "in front of the text"},
		{`{"input": "a", "truncate_prompt_tokens": 2}`, "truncate_prompt_tokens", "unsupported_parameter", "not cut"},
		{`{"input": ["a", "a b c d e f"]}`, "input", "context_length_exceeded", "declares 4 as the longest text"},
		{fmt.Sprintf(`{"input": %q}`, long), "input", "context_length_exceeded", ""},
		{`{"input": [` + strings.Repeat(`"a",`, maxPrompts) + `"a"]}`, "input", "", "1025 inputs: at most 1024"},
		{`{"input": [` + strings.Repeat("5,", 300) + `5]}`, "input", "context_length_exceeded",
			"input[0] has 301 tokens: the context holds 256"},
		{`{"input": "a", "model": "other"}`, "model", "model_not_found", ""},
	} {
		status, _, text := post(t, web, "/v1/embeddings", c.body)
		e := at(object(t, text), "error")
		code, _ := at(e, "code").(string)
		if message, _ := at(e, "message").(string); status/100 != 4 || at(e, "param") != c.param ||
			code != c.code && (c.code != "" || code != "unsupported_value") || !strings.Contains(message, c.message) {
			t.Errorf("%s: %d %s; want %q about %s: %s", c.body, status, text, c.code, c.param, c.message)
		}
	}
	status, _, text := post(t, plain, "/v1/embeddings", `{"input": "a"}`)
	if e := at(object(t, text), "error"); status != http.StatusBadRequest || at(e, "param") != "model" ||
		at(e, "code") != "unsupported_value" || !strings.Contains(text, "modules.json") {
		t.Errorf("a model without pooling: %d %s", status, text)
	}
}

// TestEmbeddingsOnDevice: a model that a device computes makes the same embeddings, bit for bit.
func TestEmbeddingsOnDevice(t *testing.T) {
	if race.Enabled {
		t.Skip("the device computes in one goroutine, which takes minutes here")
	}
	device.Register(plaindevice.Driver("plain", plaindevice.Options{}))
	for _, p := range []pooling.Pooling{{Mode: pooling.LastToken}, {Mode: pooling.Mean, Normalize: true}} {
		file := tinymodel.Pooled(t, p)
		body, want := fmt.Sprintf(`{"input": %s}`, jsonOf(embedded)), ""
		for _, name := range []string{device.CPU, "plain"} {
			o := small
			o.Device = name
			_, web := serveOf(t, modelOf(t, file, "tiny", o), Options{Queue: 10})
			status, _, text := post(t, web, "/v1/embeddings", body)
			if want = cmp.Or(want, text); status != http.StatusOK || text != want {
				t.Errorf("%s: %d %.300s\nwant %.300s", name, status, text, want)
			}
		}
	}
}

// TestEmbeddingBase64: base64 is of little-endian float32.
func TestEmbeddingBase64(t *testing.T) {
	if got := base64.StdEncoding.EncodeToString(littleEndian([]float32{1, -2.5})); got != "AACAPwAAIMA=" {
		t.Error(got)
	}
}
