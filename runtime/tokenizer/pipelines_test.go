package tokenizer

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// pipelinesFile is testdata/pipelines.json; testdata/pipelines.mjs describes its contents.
type pipelinesFile struct {
	Models    map[string]map[string]json.RawMessage
	Pipelines []struct {
		Name, Model   string
		Options       map[string]json.RawMessage
		AddedTokens   json.RawMessage `json:"added_tokens"`
		Normalizer    json.RawMessage
		PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
		PostProcessor json.RawMessage `json:"post_processor"`
		Decoder       json.RawMessage
		Cases         []pipelineCase
	}
}

type pipelineCase struct {
	Text          string
	IDs, Special  []int
	Shown, Hidden string
}

func (c *pipelineCase) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&c.Text, &c.IDs, &c.Special, &c.Shown, &c.Hidden})
}

// tokenizerJSON assembles the tokenizer.json of a pipeline.
func (f *pipelinesFile) tokenizerJSON(t testing.TB, i int) []byte {
	t.Helper()
	p := f.Pipelines[i]
	model := maps.Clone(f.Models[p.Model])
	maps.Copy(model, p.Options)
	data, err := json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": p.AddedTokens, "normalizer": p.Normalizer, "pre_tokenizer": p.PreTokenizer,
		"post_processor": p.PostProcessor, "decoder": p.Decoder, "model": model,
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readPipelines(t testing.TB) *pipelinesFile {
	t.Helper()
	var f pipelinesFile
	unmarshal(t, "testdata/pipelines.json", &f)
	return &f
}

// TestPipelines: every part of tokenizer.json works as in the library that defines the format. (The keys of the
// assembled files are sorted, so the model precedes the parts that say how to read it, and merges precede vocab.)
func TestPipelines(t *testing.T) {
	f := readPipelines(t)
	for i, p := range f.Pipelines {
		t.Run(p.Name, func(t *testing.T) {
			tok := fromJSON(t, f.tokenizerJSON(t, i))
			for _, c := range p.Cases {
				if got := encode(t, tok, c.Text, false); !slices.Equal(got, c.IDs) {
					t.Errorf("%q\ngot  %v\nwant %v", c.Text, got, c.IDs)
				}
				if got := encode(t, tok, c.Text, true); !slices.Equal(got, c.Special) {
					t.Errorf("%q with special\ngot  %v\nwant %v", c.Text, got, c.Special)
				}
				if got := tok.Decode(c.IDs, true); got != c.Shown {
					t.Errorf("%v\ngot  %q\nwant %q", c.IDs, got, c.Shown)
				}
				if got := tok.Decode(c.Special, false); got != c.Hidden {
					t.Errorf("%v without special\ngot  %q\nwant %q", c.Special, got, c.Hidden)
				}
			}
		})
	}
}
