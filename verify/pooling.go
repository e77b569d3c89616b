package verify

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/pooling"
)

// checkPooling compares how the file makes embeddings with what the checkpoint declares (F26).
func (o *origin) checkPooling() error {
	return o.one(Source, "checkpoint", "F26", "pooling of embeddings", func() error {
		var want *pooling.Pooling
		if o.model != nil {
			var err error
			if want, err = pooling.Parse(o.from.File, o.model); err != nil {
				return err
			}
		}
		if got, want := poolingText(o.file.Manifest().Pooling), poolingText(want); got != want {
			return broken("F26", "the file makes embeddings by %s, the checkpoint by %s", got, want)
		}
		return nil
	})
}

// poolingText has all fields of a pooling.
func poolingText(p *pooling.Pooling) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *p)
}
