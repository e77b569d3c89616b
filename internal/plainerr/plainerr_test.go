package plainerr

import (
	"encoding/json"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

type rule struct {
	Match  string         `json:"match" yaml:"match"`
	Keep   bool           `json:"keep" yaml:"keep"`
	Group  int            `json:"group" yaml:"group"`
	Params map[string]int `json:"params" yaml:"params"`
	List   []string       `json:"list" yaml:"list"`
	Rate   float64        `json:"rate" yaml:"rate"`
}

// TestJSON: wrong types are reported without Go's terms.
func TestJSON(t *testing.T) {
	for text, says := range map[string]string{
		`{"match": 1}`:          `"match" is a number; want a string`,
		`{"keep": "yes"}`:       `"keep" is a string; want true or false`,
		`{"group": 1.5}`:        `"group" is a number 1.5; want an integer in range`,
		`{"params": []}`:        `"params" is an array; want an object`,
		`{"list": {}}`:          `"list" is an object; want a list`,
		`{"rate": true}`:        `"rate" is a boolean; want a number`,
		`{"params": {"a": ""}}`: `"params" is a string; want an integer in range`,
		`[]`:                    `the document is an array; want an object`,
		`{"match"`:              `unexpected end of JSON input`,
	} {
		err := json.Unmarshal([]byte(text), &rule{})
		if err == nil {
			t.Fatal(text)
		}
		if got := JSON(err).Error(); got != says {
			t.Errorf("%s: %s; want %s", text, got, says)
		}
	}
}

// TestYAML: the same, with lines.
func TestYAML(t *testing.T) {
	for text, says := range map[string]string{
		"match: [a]":      "line 1: a list where a string is wanted",
		"\nkeep: perhaps": "line 2: a string `perhaps` where true or false is wanted",
		"group: x":        "line 1: a string `x` where a number is wanted",
		"params: x":       "line 1: a string `x` where a mapping is wanted",
		"list: {a: b}":    "line 1: a mapping where a list is wanted",
		"- a":             "line 1: a list where a mapping is wanted",
		"keeps: true":     "line 1: unknown key keeps",
		"match: \"x":      "",
	} {
		d := yaml.NewDecoder(strings.NewReader(text))
		d.KnownFields(true)
		err := d.Decode(&rule{})
		if err == nil {
			t.Fatal(text)
		}
		got := YAML(err).Error()
		if says != "" && got != says || strings.Contains(got, "!!") || strings.Contains(got, "plainerr") ||
			strings.Contains(got, "unmarshal") {
			t.Errorf("%q: %s; want %s", text, got, says)
		}
	}
}
