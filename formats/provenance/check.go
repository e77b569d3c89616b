package provenance

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// MaxSize is the limit of a statement in bytes.
const MaxSize = 16 << 20

// Check compares a statement with a packed file, given the SHA-256 of its bytes and its manifest. The result joins one
// error per difference, each wrapping pack.ErrCorrupt. A signer may change the builder id and add fields that Statement
// does not write; the subject may have another name, since files are renamed.
//
// The digests of the sources are compared with the manifest. Whether the sources themselves match is up to the caller.
func Check(text []byte, sha256 string, m *packed.Manifest) error {
	got, err := jsonread.Parse(text, MaxSize)
	if err != nil {
		return fmt.Errorf("statement: %w", err)
	}
	if t, _ := got.Get("_type").Str(); t != StatementType {
		return fmt.Errorf("%w: statement: _type is %q, want %q; open an envelope with the tool that "+
			"checks its signature", pack.ErrCorrupt, t, StatementType)
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

// differences collects the errors.
type differences []error

// free lists the fields that may have any text.
var free = map[string]bool{"subject[0].name": true, "predicate.runDetails.builder.id": true}

// compare walks want: got must have every member of its objects, and lists of the same length.
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
