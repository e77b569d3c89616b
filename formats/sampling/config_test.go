package sampling

import (
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestParse: the settings of generation_config.json count only with do_sample, the penalty always.
func TestParse(t *testing.T) {
	for text, want := range map[string]Settings{
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
		if got, err := Parse(config); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// TestRefused: invalid values are rejected with the name of their key; wrong types even without do_sample.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		text  string
		class error
		says  string
	}{
		{`{`, pack.ErrCorrupt, ""},
		{`[]`, pack.ErrCorrupt, "where an object is expected"},
		{`{"temperature": NaN}`, pack.ErrCorrupt, ""},
		{`{"do_sample": "yes"}`, pack.ErrCorrupt, `do_sample is "yes", not true or false`},
		{`{"temperature": "1"}`, pack.ErrCorrupt, `temperature is "1", not a number`},
		{`{"top_k": 2.5}`, pack.ErrCorrupt, `top_k is "2.5", not an integer`},
		{`{"top_p": []}`, pack.ErrCorrupt, "top_p is an array, not a number"},
		{`{"do_sample": true, "temperature": -1}`, pack.ErrUnsupported, "temperature -1"},
		{`{"do_sample": true, "temperature": 1e300}`, pack.ErrUnsupported, "temperature +Inf"},
		{`{"do_sample": true, "top_k": -3}`, pack.ErrUnsupported, "top-k -3"},
		{`{"do_sample": true, "top_p": 2}`, pack.ErrUnsupported, "top-p 2"},
		{`{"do_sample": true, "min_p": 1.5}`, pack.ErrUnsupported, "min-p 1.5"},
		{`{"repetition_penalty": -2}`, pack.ErrUnsupported, "repetition penalty -2"},
	} {
		_, err := Parse([]byte(c.text))
		if !errors.Is(err, c.class) || !strings.HasPrefix(err.Error(), "generation_config.json: ") ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}
