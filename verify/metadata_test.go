package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/sentence"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// uncovered are the fields of a manifest that no checkpoint determines; the report says so.
var uncovered = []string{"tool", "recipe"}

// derived are the parts of the recipe that are checked against the rest of the file, or against the checkpoint.
var derived = []string{"recipe.calibration", "recipe.golden"}

// alternatives are other values that a field may have.
var alternatives = map[string][]string{
	"dtype":      {"F32", "F16", "BF16", "E8M0", "F16I8/8", "U8"},
	"kind":       {"tensor", "row", "group", "token"},
	"quantizer":  append(slices.Sorted(maps.Keys(definitions)), importCodes, importU8),
	"alphabet":   {"ternary", "int1", "int2", "int4", "int6", "int8", "e2m1", "iq4nl"},
	"name":       {"vnni4i", "blocked", "i2"},
	"golden":     {"none", "full", "kernel"},
	"family":     {"", "llama", "qwen2", "bitnet"},
	"activation": {"token", "group:32", "group:64", "sigmoid", "identity"},
	"format":     {"flat", "structured"},
	"mode":       {"lasttoken", "mean"},
}

// omitted are fields that a manifest leaves out where they say nothing, with a value that says something, by the
// object they are of.
var omitted = map[string]map[string]any{
	"packed.#":       {"zero": true, "min": true, "order": true, "calibrated": true},
	"packed.#.scale": {"signed": true, "group": 64.0},
	"activation":     {"size": 64.0},
	"": {"pooling": map[string]any{"mode": "mean"},
		"scoring": map[string]any{"true_token": 5.0, "false_token": -1.0, "activation": "sigmoid", "format": "flat"}},
	"pooling": {"normalize": true, "max_tokens": 5.0},
	"scoring": {"add_generation_prompt": true, "max_tokens": 5.0},
	"recipe": {"calibration": map[string]any{"method": "mean-square", "text_sha256": sum(nil),
		"tokens": 4096.0}},
}

// onlyTaken takes over what a checkpoint holds.
var onlyTaken = packed.Recipe{Golden: "none"}

// TestMetadata: whatever a manifest says otherwise than the conversion wrote it, one field at a time and with all
// digests right, is refused by verify with the checkpoint, or is one of the fields that the report says are not
// covered. Two lies that go together, a calibration of imported codes, are refused too.
func TestMetadata(t *testing.T) {
	for like, recipe := range map[string]packed.Recipe{
		"qwen3-8b-gptq":     onlyTaken, // with embeddings
		"llama3-8b":         onlyTaken, // with scores
		"llama-3.2-1b":      {Golden: "none", Quant: "int4", Scale: "group:32", AllowLossy: true, Head: "int8"},
		"llama-3.2-1b.gguf": {Golden: "none", Quant: "int4", Scale: "group:32", AllowLossy: true},
	} {
		t.Run(like, func(t *testing.T) {
			t.Parallel()
			source := filepath.Join(t.TempDir(), "checkpoint")
			tinymodel.Miniature(t, strings.TrimSuffix(like, ".gguf"), source)
			switch like {
			case "llama3-8b":
				sentence.Score(t, source, scoring.Scoring{True: 5, False: 7, Activation: scoring.Sigmoid,
					Format: scoring.Flat, Prompt: "Which?"})
			case "qwen3-8b-gptq":
				sentence.Pool(t, source, pooling.Pooling{Mode: pooling.LastToken})
			}
			if strings.HasSuffix(like, ".gguf") {
				packed := tinymodel.Converted(t, source, recipe)
				source += ".gguf"
				if _, err := export.GGUF(t.Context(), packed, source, export.GGUFOptions{}); err != nil {
					t.Fatal(err)
				}
				recipe = onlyTaken
			}
			path := tinymodel.Converted(t, source, recipe)
			s := newSealer(t, path)
			var manifest map[string]any
			if err := json.Unmarshal(s.text, &manifest); err != nil {
				t.Fatal(err)
			}
			if bad := failed(run(t, path, Options{Source: source})); len(bad) > 0 {
				t.Fatal(bad)
			}
			l := &liar{t: t, s: s, source: source, root: manifest, forged: newScratch(t)}
			l.visit(manifest, "")
			l.lie("recipe.calibration and packed.calibrated", func() func() {
				entry := manifest["packed"].([]any)[0].(map[string]any)
				recipe := manifest["recipe"].(map[string]any)
				entry["calibrated"], recipe["calibration"] = true, omitted["recipe"]["calibration"]
				return func() { delete(entry, "calibrated"); delete(recipe, "calibration") }
			})
			if l.tried < 100 {
				t.Errorf("only %d lies", l.tried)
			}
		})
	}
}

// liar changes one field of a manifest after another.
type liar struct {
	t      *testing.T
	s      *sealer
	source string
	root   map[string]any
	forged scratch
	tried  int
}

// visit changes all fields below an object. Of lists it takes the first item, with LOWPACK_LONG the last one too.
func (l *liar) visit(object map[string]any, path string) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		l.field(object, key, strings.TrimPrefix(path+"."+key, "."))
	}
	for key, value := range omitted[path] {
		if _, there := object[key]; !there {
			l.lie(path+"."+key, func() func() {
				object[key] = value
				return func() { delete(object, key) }
			})
		}
	}
}

func (l *liar) field(object map[string]any, key, path string) {
	old := object[key]
	set := func(v any) {
		l.lie(fmt.Sprintf("%s = %v", path, v), func() func() {
			object[key] = v
			return func() { object[key] = old }
		})
	}
	switch v := old.(type) {
	case map[string]any:
		l.visit(v, path)
	case []any:
		if len(v) == 0 {
			return
		}
		set(v[1:])
		set(append(slices.Clone(v), v[0]))
		for i, item := range v {
			if o, is := item.(map[string]any); is && (i == 0 || i == len(v)-1 && long.All) {
				l.visit(o, path+".#")
			} else if n, is := item.(float64); is {
				changed := slices.Clone(v)
				changed[i] = n + 1
				set(changed)
			}
		}
	case bool:
		set(!v)
	case float64:
		set(v + 1)
		set(v - 1)
	case string:
		set(v + "x")
		if len(v) == 64 {
			set(sum([]byte(v)))
		}
		for _, other := range alternatives[key] {
			if other != v {
				set(other)
			}
		}
	}
}

// cheap runs the levels that find nearly all lies, without those that compute with the weights.
func (l *liar) cheap(o Options) *Report {
	s := begin(l.t.Context(), l.forged.Name(), o, Source)
	defer s.close()
	if err := s.openSource(); err != nil {
		l.t.Fatal(err)
	}
	for _, level := range []Level{File, Digest, Codes, Source} {
		if s.report.Failed() > 0 {
			break
		}
		if err := s.run(level); err != nil {
			l.t.Fatal(err)
		}
	}
	return s.report
}

// same are no lies: the rule makes of the weights of a GGUF, as floats, the codes and scales that it holds.
var same = []string{"packed.#.quantizer = int4"}

// lie verifies a file with a change, which it takes back.
func (l *liar) lie(what string, change func() (undo func())) {
	undo := change()
	defer undo()
	text, err := json.Marshal(l.root)
	if err != nil {
		l.t.Fatal(err)
	}
	var m packed.Manifest
	if json.Unmarshal(text, &m) != nil {
		return // a type that no manifest has
	}
	canonical, err := m.Canonical()
	if err != nil || slices.Equal(canonical, l.s.text) {
		return
	}
	l.tried++
	l.forged.put(l.t, sealHeader(l.s.good, canonical))
	o := Options{Source: l.source, Threads: 1}
	r := l.cheap(o)
	if len(failed(r)) == 0 {
		r = run(l.t, l.forged.Name(), o)
	}
	path, _, _ := strings.Cut(what, " ")
	covered := !slices.ContainsFunc(uncovered, func(p string) bool { return strings.HasPrefix(path, p) }) ||
		slices.ContainsFunc(derived, func(p string) bool { return strings.HasPrefix(path, p) })
	if covered && len(failed(r)) == 0 && !slices.Contains(same, what) {
		l.t.Errorf("%s passes", what)
	}
	if notes := strings.Join(r.Details, "\n"); !covered && !strings.Contains(notes, uncoveredNote) {
		l.t.Errorf("%s: the report does not say that it is not covered: %s", what, notes)
	}
}
