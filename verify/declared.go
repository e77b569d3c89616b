package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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
func agree[T any, P interface {
	*T
	fmt.Stringer
}](
	o *origin, rule, what string, got P,
	parse func(file func(string) ([]byte, bool), d *model.Description) (P, error),
) error {
	return o.one(Source, "checkpoint", rule, "making of "+what, func() error {
		var want P
		if o.model != nil {
			var err error
			if want, err = parse(o.from.File, o.model); err != nil {
				return err
			}
		}
		switch {
		case got == nil && want == nil:
			return nil
		case got == nil:
			return broken(rule, "the file makes no %s, but the checkpoint declares them (%s)", what, want)
		case want == nil:
			return broken(rule, "the file makes %s (%s), but the checkpoint declares none", what, got)
		}
		in, from, err := differing(got, want)
		if in != "" {
			return broken(rule, "the file makes %s with %s, the checkpoint with %s", what, in, from)
		}
		return err
	})
}

// differing lists the fields of the manifest in which two values differ, each with the one value and with the other.
func differing(a, b any) (inA, inB string, err error) {
	one, err := fieldsOf(a)
	if err != nil {
		return "", "", err
	}
	other, err := fieldsOf(b)
	if err != nil {
		return "", "", err
	}
	all := maps.Clone(one)
	maps.Copy(all, other)
	var listA, listB []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if string(one[name]) != string(other[name]) {
			listA, listB = append(listA, shown(name, one[name])), append(listB, shown(name, other[name]))
		}
	}
	return strings.Join(listA, ", "), strings.Join(listB, ", "), nil
}

// fieldsOf returns the fields of a struct as the manifest has them. Those that are left out there are missing.
func fieldsOf(v any) (fields map[string]json.RawMessage, err error) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	return fields, err
}

// shown prints a field, of long values the start.
func shown(name string, value json.RawMessage) string {
	const most = 80 // bytes
	switch {
	case value == nil:
		return "no " + name
	case len(value) > most:
		return fmt.Sprintf("%s %s… of %d bytes", name, strings.ToValidUTF8(string(value[:most]), ""), len(value))
	}
	return name + " " + string(value)
}
