package engine

import (
	"errors"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestSamplingOf: the settings of generation_config.json count only with do_sample, the penalty always.
func TestSamplingOf(t *testing.T) {
	for text, want := range map[string]Sampling{
		``:   {},
		`{}`: {},
		`{"do_sample": false, "temperature": 0.6, "top_k": 40, "repetition_penalty": 1.1}`: {RepetitionPenalty: 1.1},
		`{"do_sample": true}`: {Temperature: 1, TopK: 50},
		`{"do_sample": true, "temperature": 0.6, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.1}`: {
			Temperature: 0.6, TopK: 40, TopP: 0.9, MinP: 0.05, RepetitionPenalty: 1.1},
	} {
		var config []byte
		if text != "" {
			config = []byte(text)
		}
		if got, err := SamplingOf(config); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		`{`: pack.ErrCorrupt, `{"do_sample": "yes"}`: pack.ErrCorrupt, `{"do_sample": true, "temperature": -1}`: pack.ErrUnsupported,
	} {
		if _, err := SamplingOf([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
