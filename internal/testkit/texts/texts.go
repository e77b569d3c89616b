// Package texts holds tests of tokenizers, chat templates and tool calls against what is recorded of them by family.
package texts

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// Record is what a test compares of the published files of a model: each number is of cases that are all equal.
type Record struct {
	Family        string `json:"family,omitempty"`        // as in model.Families; "" = none of them
	Texts         int    `json:"texts,omitempty"`         // encoded and decoded as by its tokenizer in tokenizers
	Conversations int    `json:"conversations,omitempty"` // rendered, or refused, as by transformers with its template
	Tools         string `json:"tools,omitempty"`         // form of tool calls that its template is recognized by, or none
}

// Read returns the records of a file, by test and model.
func Read(path string) (map[string]map[string]Record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all map[string]map[string]Record
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// Hold fails a test unless what it has compared, by model, is what testdata/transformers/texts.json records of it.
func Hold(t testing.TB, got map[string]Record) {
	t.Helper()
	if t.Failed() {
		return
	}
	path := shared.Testdata(t, "transformers/texts.json")
	all, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(all[t.Name()], got) {
		return
	}
	text, err := json.MarshalIndent(map[string]any{t.Name(): got}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s records something else than this (then make generate):\n%s", path, text)
}
