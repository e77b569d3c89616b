package jsonread

import (
	"strings"
	"testing"
)

// TestParsePython: numbers that are not finite are read in both spellings, and only where a value is expected.
func TestParsePython(t *testing.T) {
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		for _, text := range []string{`{"a":[0.0, ` + word + ` ]}`, `{"a":[0.0,{"__float__":"` + word + `"}]}`} {
			v, err := ParsePython([]byte(text), 100)
			if err != nil {
				t.Fatal(err)
			}
			items := v.Get("a").Items
			if got, ok := items[1].NonFinite(); !ok || got != word {
				t.Errorf("%s: %q, %v", text, got, ok)
			}
			if _, ok := items[0].NonFinite(); ok {
				t.Errorf("%s: 0.0 is not finite", text)
			}
			if _, ok := items[1].Float(); ok {
				t.Errorf("%s: a number", text)
			}
		}
		if _, err := Parse([]byte(word), 100); err == nil {
			t.Errorf("%s is JSON", word)
		}
	}
	for _, text := range []string{`{NaN:1}`, `[Infinit]`, `[nan]`, `[+Infinity]`, `[InfinityNaN]`, `[-Inf]`} {
		if v, err := ParsePython([]byte(text), 100); err == nil {
			t.Errorf("%s: %+v", text, v)
		}
	}
	for _, text := range []string{`{"__float__":"1"}`, `{"__float__":1}`, `{"__float__":"NaN","b":1}`, `"NaN"`} {
		v, err := ParsePython([]byte(text), 100)
		if err != nil {
			t.Fatal(err)
		}
		if word, ok := v.NonFinite(); ok {
			t.Errorf("%s: %s", text, word)
		}
	}
	if _, err := ParsePython([]byte(strings.Repeat(" ", 101)), 100); err == nil {
		t.Error("the limit is not obeyed")
	}
}
