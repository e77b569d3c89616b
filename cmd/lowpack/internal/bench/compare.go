package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/internal/plainerr"
	"github.com/lowpack/lowpack/pack"
)

// ReadModel parses and checks a ModelReport in its JSON form.
func ReadModel(text []byte) (*ModelReport, error) {
	var r ModelReport
	if err := readJSON(text, &r, ModelSchema, ", which lowpack bench FILE --json writes"); err != nil {
		return nil, err
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Refused == "" && !(row.TokensPerSec > 0 && row.TokensPerSec < math.MaxFloat32) {
			return nil, fmt.Errorf("%w: %s, %s: %v tokens per second", pack.ErrCorrupt, row.Label(),
				Threads(row.Threads),
				row.TokensPerSec)
		}
	}
	return &r, nil
}

// readJSON parses the JSON form of a report. Errors: pack.ErrUnsupported for a schema other than schema, followed by
// where, which says what writes it; pack.ErrCorrupt for unknown fields.
func readJSON(text []byte, report any, schema, where string) error {
	var head struct{ Schema string }
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("%w: %v", pack.ErrCorrupt, plainerr.JSON(err))
	}
	if head.Schema != schema {
		return fmt.Errorf("%w: schema %q; want %q%s", pack.ErrUnsupported, head.Schema, schema, where)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(report); err != nil {
		return fmt.Errorf("%w: %v", pack.ErrCorrupt, plainerr.JSON(err))
	}
	return nil
}

// Same returns the row of a report that measures the same as another row; nil if there is none with figures.
func (r *ModelReport) Same(as *ModelRow) *ModelRow {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Refused == "" && row.What == as.What && row.Tokens == as.Tokens && row.Batch == as.Batch &&
			row.Threads == as.Threads {
			return row
		}
	}
	return nil
}
