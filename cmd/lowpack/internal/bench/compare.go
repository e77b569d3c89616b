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
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var r ModelReport
	var head struct{ Schema string }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%w: %v", pack.ErrCorrupt, plainerr.JSON(err))
	}
	if head.Schema != ModelSchema {
		return nil, fmt.Errorf("%w: schema %q; want %q, which lowpack bench FILE --json writes", pack.ErrUnsupported, head.Schema, ModelSchema)
	}
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("%w: %v", pack.ErrCorrupt, plainerr.JSON(err))
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Refused == "" && !(row.TokensPerSec > 0 && row.TokensPerSec < math.MaxFloat32) {
			return nil, fmt.Errorf("%w: %s, %s: %v tokens per second", pack.ErrCorrupt, row.Label(), Threads(row.Threads), row.TokensPerSec)
		}
	}
	return &r, nil
}

// Same is the row of a report that measures the same as another row; nil = there is none with figures.
func (r *ModelReport) Same(as *ModelRow) *ModelRow {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Refused == "" && row.What == as.What && row.Tokens == as.Tokens && row.Batch == as.Batch && row.Threads == as.Threads {
			return row
		}
	}
	return nil
}
