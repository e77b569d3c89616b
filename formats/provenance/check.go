package provenance

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// MaxSize bounds the text of a statement.
const MaxSize = 16 << 20

// Check compares a statement with a packed file: its digest, computed from its bytes, and its manifest. Every
// difference is one error of the joined result, and wraps pack.ErrCorrupt. Two things may differ, because those who
// sign statements fill them in: the id of the builder, and fields that Statement does not write. The name of the
// subject may differ too: files are renamed.
//
// Digests of the sources are compared with those in the manifest; whether the sources themselves still have them is for
// the caller to check, who has them at hand.
func Check(text []byte, sha256 string, m *packed.Manifest) error {
	got, err := jsonread.Parse(text, MaxSize)
	if err != nil {
		return fmt.Errorf("statement: %w", err)
	}
	if t, _ := got.Get("_type").Str(); t != StatementType {
		return fmt.Errorf("%w: statement: _type is %q, not %q; an envelope must be opened by the tool that checks its "+
			"signature", pack.ErrCorrupt, t, StatementType)
	}
	expected, err := Statement("file", sha256, m)
	if err != nil {
		return err
	}
	want, err := jsonread.Parse(expected, MaxSize)
	if err != nil {
		return err
	}
	var d differences
	d.compare("", want, got)
	return errors.Join(d...)
}

// differences are what a statement says otherwise.
type differences []error

// free may have any text.
var free = map[string]bool{"subject[0].name": true, "predicate.runDetails.builder.id": true}

// compare walks want: every member of its objects must be in got, lists must be of the same length.
func (d *differences) compare(path string, want, got *jsonread.Value) {
	switch {
	case got == nil:
		d.add(path, want, "is missing")
	case got.Kind != want.Kind:
		d.add(path, want, "is "+got.Kind.String())
	case want.Kind == jsonread.Object:
		for i := range want.Members {
			m := &want.Members[i]
			d.compare(join(path, m.Key), &m.Value, got.Get(m.Key))
		}
	case want.Kind == jsonread.Array && len(want.Items) != len(got.Items):
		d.add(path, want, fmt.Sprintf("has %d entries", len(got.Items)))
	case want.Kind == jsonread.Array:
		for i := range want.Items {
			d.compare(path+"["+strconv.Itoa(i)+"]", &want.Items[i], &got.Items[i])
		}
	case !free[path] && (want.Text != got.Text || want.Bool != got.Bool):
		d.add(path, want, fmt.Sprintf("is %.100q", got.Text))
	}
}

func (d *differences) add(path string, want *jsonread.Value, is string) {
	*d = append(*d, fmt.Errorf("%w: statement: %s %s; the packed file says %s", pack.ErrCorrupt, path, is, show(want)))
}

func show(v *jsonread.Value) string {
	switch v.Kind {
	case jsonread.String:
		return strconv.Quote(v.Text)
	case jsonread.Number:
		return v.Text
	case jsonread.Bool:
		return strconv.FormatBool(v.Bool)
	case jsonread.Array:
		return fmt.Sprintf("%d entries", len(v.Items))
	}
	return v.Kind.String()
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
