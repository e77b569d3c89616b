// Package manifest reads the manifests of docs/examples in tests, and values in them. The schemas that its own test
// holds them against are apart from package main: compiling their patterns takes longer than all else that a program
// does when it starts, and the tests of main start it again and again.
package manifest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"gopkg.in/yaml.v3"
)

// Objects reads the objects of a YAML file.
func Objects(t testing.TB, path string) (list []any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
}

// Find follows keys and indexes.
func Find(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			v = l[p]
		}
	}
	return v
}
