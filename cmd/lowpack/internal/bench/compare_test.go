package bench

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestReadModel: a report is read back as written, and its rows are found by what they measure; other documents, and
// invalid figures, are refused.
func TestReadModel(t *testing.T) {
	want := ModelReport{Schema: ModelSchema, Rows: []ModelRow{
		{What: Generate, Tokens: 8, Batch: 1, Threads: 1, Refused: "too long"},
		{What: Generate, Tokens: 8, Batch: 2, Threads: 1, TokensPerSec: 5},
		{What: Generate, Tokens: 8, Batch: 1, Threads: 1, TokensPerSec: 3},
	}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ReadModel(text)
	if err != nil {
		t.Fatal(err)
	}
	if row := r.Same(&ModelRow{What: Generate, Tokens: 8, Batch: 1, Threads: 1}); row == nil || row.TokensPerSec != 3 {
		t.Errorf("%+v", row)
	}
	for _, other := range []ModelRow{{What: Prompt, Tokens: 8, Batch: 1, Threads: 1},
		{What: Generate, Tokens: 9, Batch: 1, Threads: 1}, {What: Generate, Tokens: 8, Batch: 1, Threads: 2}} {
		if row := r.Same(&other); row != nil {
			t.Errorf("%+v is taken for %+v", row, other)
		}
	}
	for from, to := range map[string]string{"model/2": "model/1", `"rows"`: `"lines"`, `second":3`: `second":0`,
		`second":5`: `second":-5`, "]}": "]"} {
		if _, err := ReadModel([]byte(strings.Replace(string(text), from, to, 1))); !errors.Is(err, pack.ErrCorrupt) &&
			!errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s: %v", to, err)
		}
	}
}
