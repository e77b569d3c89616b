package schedule

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

// stagedPath is a packed file of a model whose rotations change after 48 tokens (NUMERICS N67).
func stagedPath(t *testing.T) string {
	return syntheticPath(t, `"sliding_window":null,"max_position_embeddings":256,"rope_scaling":{"rope_type":"longrope",
"original_max_position_embeddings":48,"short_factor":[1,1.1,1.2,1.3,1.4,1.5,1.6,1.7],"long_factor":[1,2,3,4,5,6,7,8]}`)
}

// dynamicPath is a packed file of a model whose rotations change with every token after 48.
func dynamicPath(t *testing.T) string {
	return syntheticPath(t, `"sliding_window":null,"max_position_embeddings":48,"rope_scaling":{"rope_type":"dynamic",
"factor":6.0}`)
}

// syntheticPath is a packed file of a small Mistral with random weights and more keys in its configuration.
func syntheticPath(t *testing.T, keys string) string {
	t.Helper()
	ck, err := synth.New(synth.Options{Seed: 7, Config: []byte(`{"architectures":["MistralForCausalLM"],
"model_type":"mistral","hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,"num_attention_heads":4,
"num_key_value_heads":2,"vocab_size":320,"rms_norm_eps":1e-5,"bos_token_id":1,"eos_token_id":2,"hidden_act":"silu",
"dtype":"float32",` + keys + `}`)})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "model")
	if err := ck.Write(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	return tinymodel.Converted(t, dir, packed.Recipe{Golden: "none"})
}

// TestLoadStaged is TestLoad for a model whose rotations change after 48 tokens: prompts and texts on both sides, and
// across.
func TestLoadStaged(t *testing.T) { testLoad(t, stagedPath(t), 32, 1) }

// TestLoadWindows is TestLoad for a model whose layers have a sliding window, with contexts in which they hold no more.
func TestLoadWindows(t *testing.T) {
	testLoad(t, syntheticPath(t, `"max_position_embeddings":2048,"sliding_window":40`), 32, 8)
}

// TestWindowBranches is TestBranches for a model with a sliding window, in an engine that holds no more than that.
func TestWindowBranches(t *testing.T) {
	o := engine.Options{Threads: 1, Context: 2048, Sequences: 2, Page: 32}
	e := openFile(t, syntheticPath(t, `"max_position_embeddings":2048,"sliding_window":40`), o)
	if all := engine.CacheBytesPerToken(e.Description(), engine.CacheF32) * 4096; 2*int64(e.MemoryBytes()) > all {
		t.Fatalf("%d bytes, all positions take %d", e.MemoryBytes(), all)
	}
	branches(t, start(t, e, Options{PrefixCache: true}))
}

// unending is a request for texts of n tokens each, which no token ends.
func unending(prompt []int, texts, n int) Request {
	r := Request{Prompt: prompt, Logprobs: -1, PromptLogprobs: -1}
	for i := range texts {
		r.Texts = append(r.Texts, engine.Request{MaxTokens: n,
			Adjust: func(generated []int, logits []float32) { logits[100+13*i+len(generated)] += 1000 }})
	}
	return r
}

// TestStagesNeedNoPages: texts that reach other rotations need no page but those of their length. The KV cache has room
// for these, and in the end for some that the prefix cache holds.
func TestStagesNeedNoPages(t *testing.T) {
	prompt := requests(1, 320)[0].Prompt[:60]
	for _, path := range []string{stagedPath(t), dynamicPath(t)} {
		for texts, lengths := range map[int][]int{1: {20, 30, 40, 60, 33, 48}, 3: {40, 31, 47, 40, 60}} {
			for more := range 4 {
				e := openFile(t, path, engine.Options{Threads: 1, Context: 64, Sequences: texts + 2, Page: 32,
					CacheTokens: 64*texts + 32*more})
				needsNoPages(t, start(t, e, Options{Queue: 1, PrefixCache: true}), prompt, texts, lengths)
			}
		}
	}
}

// needsNoPages asks for texts of all lengths after prompts of some; the later ones find the pages of the first one.
func needsNoPages(t *testing.T, s *Scheduler, prompt []int, texts int, lengths []int) {
	t.Helper()
	for _, n := range lengths {
		for _, count := range []int{1, 64 - n, 64 - n} {
			if _, _, err := collect(t.Context(), s, unending(prompt[:n], texts, count)); err != nil {
				t.Fatalf("%d texts of %d tokens after a prompt of %d, in %d pages: %v", texts, count, n, s.pages, err)
			}
		}
	}
}

// TestStageWithoutPages: where somebody else has taken the pages that a text needs for other rotations, it fails alone.
func TestStageWithoutPages(t *testing.T) {
	e := openFile(t, stagedPath(t), engine.Options{Threads: 1, Context: 64, Sequences: 2, Page: 32, CacheTokens: 128})
	s := start(t, e, Options{Queue: 1, PrefixCache: true})
	prompt := requests(1, 320)[0].Prompt[:40]
	if _, _, err := collect(t.Context(), s, unending(prompt, 1, 1)); err != nil {
		t.Fatal(err)
	}
	other, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	r := unending(prompt, 1, 20)
	force := r.Texts[0].Adjust
	r.Texts[0].Adjust = func(generated []int, logits []float32) {
		if force(generated, logits); len(generated) == 0 {
			if err := e.Forward(t.Context(), []engine.Chunk{{Seq: other, Tokens: prompt[:1]}}); err != nil {
				t.Error(err)
			}
		}
	}
	if _, _, err := collect(t.Context(), s, r); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("a text without the page that it needs: %v", err)
	}
	other.Close()
	if _, _, err := collect(t.Context(), s, unending(prompt, 1, 20)); err != nil || s.Stats().Failed != nil {
		t.Errorf("the next request: %v, %v", err, s.Stats().Failed)
	}
}

// TestConversationsAcrossStages: conversations that grow over the original length of the model get the same tokens and
// probabilities in any batch, with prompts in pieces of any size, any number of threads, with drafts, and where the
// prefix cache has their earlier turns: with longrope those with the same rotations, with dynamic scaling none beyond
// that length.
func TestConversationsAcrossStages(t *testing.T) {
	t.Run("longrope", func(t *testing.T) { conversations(t, stagedPath(t), true) })
	t.Run("dynamic", func(t *testing.T) { conversations(t, dynamicPath(t), false) })
}

func conversations(t *testing.T, path string, finds bool) {
	first := []int{17, 29, 36, 45, 48}
	var want []string
	for i, o := range []struct {
		engine.Options
		cache bool
		draft int
	}{
		{engine.Options{Threads: 1, Sequences: 1}, false, 0},
		{engine.Options{Threads: 2, Sequences: 5, Batch: 7}, false, 0},
		{engine.Options{Threads: 1, Sequences: 1}, true, 4},
		{engine.Options{Threads: 3, Sequences: 5, Batch: 19, CacheTokens: 384}, true, 4},
	} {
		o.Page, o.Context = 32, 128
		s := start(t, openFile(t, path, o.Options), Options{Queue: 10, PrefixCache: o.cache})
		got, found := make([]string, len(first)), make([]int, len(first))
		var all sync.WaitGroup
		for j, n := range first {
			if o.Sequences > 1 { // all at once
				all.Go(func() { got[j], found[j] = converse(t, s, n, o.draft) })
			} else {
				got[j], found[j] = converse(t, s, n, o.draft)
			}
		}
		all.Wait()
		if i == 0 {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v:\n%s\nwant\n%s", o, got, want)
		}
		if (o.cache && finds) != (slices.Max(found) > 48) {
			t.Errorf("%+v: %d cached tokens", o, found)
		}
	}
}

// converse has a conversation of five turns, whose first prompt has n tokens. It returns all answers, and the most
// prompt tokens that were cached.
func converse(t *testing.T, s *Scheduler, n, draft int) (transcript string, cached int) {
	text := slices.Repeat([]int{7, 31, 100, 64, 9, 200}, 8)[:n]
	for turn := range 5 {
		c, err := s.Submit(t.Context(), []Request{{Prompt: slices.Clone(text), Logprobs: 2, PromptLogprobs: -1,
			Texts: []engine.Request{{MaxTokens: 9, Speculate: draft}}}})
		if err != nil {
			t.Error(err)
			return transcript, cached
		}
		for {
			events, err := c.Next(t.Context())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Error(err)
				return transcript, cached
			}
			for _, e := range events {
				if e.Text < 0 {
					cached = max(cached, e.Cached)
				} else if e.Token >= 0 {
					text = append(text, e.Token)
					transcript += fmt.Sprintf("%d %+v ", e.Token, *e.Logprob)
				}
			}
		}
		text = append(text, 50+turn, 31, 100, 64)
	}
	return transcript, cached
}
