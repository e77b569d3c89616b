package verify

import (
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// windowed is a small model of many positions whose layers see a window, longer than what workers share; head size 24.
func windowed(t testing.TB) *sample.Model {
	return modelOf(t, strings.NewReplacer(`"LlamaForCausalLM"`, `"MistralForCausalLM"`, `"model_type": "llama"`,
		`"model_type": "mistral", "head_dim": 24, "sliding_window": 900`,
		`"num_attention_heads": 3`, `"num_attention_heads": 2`, `"max_position_embeddings": 64`,
		`"max_position_embeddings": 4096`).Replace(tinyConfig))
}

// manyPositions is a small model of many positions without a window.
func manyPositions(t testing.TB) *sample.Model {
	return modelOf(t, strings.Replace(tinyConfig, `"max_position_embeddings": 64`,
		`"max_position_embeddings": 4096`, 1))
}

// trials returns the trials of a file.
func trials(t *testing.T, m *sample.Model) (list []*trial) {
	t.Helper()
	s := begin(t.Context(), file(t, m), Options{Threads: 3}, Logits)
	t.Cleanup(s.close)
	if err := s.checkFile(); err != nil || s.described == nil {
		t.Fatal(err)
	}
	for _, cache := range engine.CacheTypes() {
		list = append(list, s.newTrial(0, cache))
	}
	return list
}

// TestAttention: attention matches the reference after more than two pages of the cache, more positions than workers
// share, and more than a window, for every format of the cache; and the report says how far.
func TestAttention(t *testing.T) {
	for name, m := range map[string]*sample.Model{"global": manyPositions(t), "window": windowed(t)} {
		r := run(t, file(t, m), Options{Threads: 3})
		checks := map[string]int{}
		for _, c := range r.Checks {
			if c.Verdict == Pass && strings.HasPrefix(c.Group, "attention") {
				checks[c.Group]++
			}
		}
		if !r.OK || len(checks) != 4 || checks["attention, cache i4"] != 3 || r.Coverage.Context < 2*256+128 {
			t.Errorf("%s: %v, %v, to %d positions", name, failed(r), checks, r.Coverage.Context)
		}
		for _, trial := range trials(t, m) {
			w := trial.described.SlidingWindow
			if trial.n <= 640 || trial.n <= 2*pageOf(trial) || w > 0 && trial.n < w+pageOf(trial) {
				t.Errorf("%s: %s reaches %d positions", name, trial.group, trial.n)
			}
		}
	}
}

// TestAttentionCap: keys of a trial take bounded memory; wide models are compared at fewer positions, which the
// coverage says.
func TestAttentionCap(t *testing.T) {
	d := model.Description{Blocks: []model.Block{{Local: true}}}
	d.KVHeads, d.HeadDim, d.MaxPositions, d.SlidingWindow = 64, 1024, 1<<20, 4096
	s := &session{described: &d, report: &Report{}}
	trial := s.newTrial(0, engine.CacheF32)
	if want := cacheNumbers / (64 * 1024); trial.n != want || trial.ends[len(trial.ends)-1] != want {
		t.Errorf("%d positions to %v, want %d", trial.n, trial.ends, want)
	}
}

// TestWrongAttention: a window that is one position too long, and a last bit at the last position, are noticed in every
// way.
func TestWrongAttention(t *testing.T) {
	for _, trial := range trials(t, windowed(t)) {
		other := *trial.described
		other.SlidingWindow++
		trial.described = &other
		if err := trial.run(); err != nil {
			t.Fatal(err)
		}
		if bad := failed(trial.report); len(bad) != 3 || !strings.Contains(bad[2].Reason, "instead of") {
			t.Errorf("%s: %v", trial.group, bad)
		}
		trial.report.Checks = nil
	}
}

// TestShortContexts: a model of few positions is tried as far as it goes.
func TestShortContexts(t *testing.T) {
	m := modelOf(t, strings.Replace(tinyConfig, `"max_position_embeddings": 64`, `"max_position_embeddings": 1`, 1))
	if r := run(t, file(t, m), Options{}); !r.OK || r.Coverage.Context != 1 {
		t.Errorf("%v, to %d positions", failed(r), r.Coverage.Context)
	}
}

func pageOf(t *trial) int { return tensor.CacheType(t.cache).PageRows(t.described.HeadDim) }
