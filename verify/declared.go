package verify

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/scoring"
)

// checkDeclared compares how the file makes embeddings (F26) and scores (F27) with what the checkpoint declares.
func (o *origin) checkDeclared() error {
	m := o.file.Manifest()
	if err := agree(o, "F26", "embeddings", m.Pooling, pooling.Parse); err != nil {
		return err
	}
	return agree(o, "F27", "scores", m.Scoring, scoring.Parse)
}

// agree compares what the manifest has under a rule, nil for none, with what parse reads in the checkpoint.
func agree[T any](
	o *origin, rule, what string, got *T,
	parse func(file func(string) ([]byte, bool), d *model.Description) (*T, error),
) error {
	return o.one(Source, "checkpoint", rule, "making of "+what, func() error {
		var want *T
		if o.model != nil {
			var err error
			if want, err = parse(o.from.File, o.model); err != nil {
				return err
			}
		}
		if got, want := fieldsOf(got), fieldsOf(want); got != want {
			return broken(rule, "the file makes %s by %s, the checkpoint by %s", what, got, want)
		}
		return nil
	})
}

// fieldsOf has all fields of a struct.
func fieldsOf[T any](v *T) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *v)
}
