package grammar

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// samples maps each keyword to a schema in which it excludes values that the rest allows. For a keyword that excludes
// nothing, it is any use.
var samples = map[string]string{
	"$schema":               `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "integer"}`,
	"$id":                   `{"$id": "http://a.test/b", "type": "integer"}`,
	"$vocabulary":           `{"$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/core": true}}`,
	"$comment":              `{"$comment": "a"}`,
	"$anchor":               `{"$anchor": "a"}`,
	"$dynamicAnchor":        `{"$dynamicAnchor": "a"}`,
	"$defs":                 `{"$defs": {"a": {}}}`,
	"$ref":                  `{"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}`,
	"$dynamicRef":           `{"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", "type": "null"}}}`,
	"allOf":                 `{"allOf": [{"type": "null"}]}`,
	"anyOf":                 `{"anyOf": [{"type": "null"}]}`,
	"oneOf":                 `{"oneOf": [{"type": "integer"}, {"type": "number"}]}`,
	"not":                   `{"not": {"type": "object"}}`,
	"if":                    `{"if": {"type": "integer"}, "then": false}`,
	"then":                  `{"then": {"type": "null"}}`,
	"else":                  `{"else": {"type": "null"}}`,
	"dependentSchemas":      `{"type": "object", "dependentSchemas": {"": false}}`,
	"dependentRequired":     `{"type": "object", "dependentRequired": {"": ["a"]}}`,
	"prefixItems":           `{"type": "array", "prefixItems": [false]}`,
	"items":                 `{"type": "array", "items": {"type": "null"}, "maxItems": 2}`,
	"contains":              `{"type": "array", "contains": {"const": 7}, "maxItems": 2}`,
	"maxContains":           `{"type": "array", "maxContains": 1, "contains": {}}`,
	"minContains":           `{"type": "array", "minContains": 2, "contains": {}}`,
	"uniqueItems":           `{"type": "array", "items": {"type": "null"}, "uniqueItems": true}`,
	"maxItems":              `{"type": "array", "items": {"type": "null"}, "maxItems": 1}`,
	"minItems":              `{"type": "array", "items": {"type": "null"}, "minItems": 2}`,
	"unevaluatedItems":      `{"type": "array", "unevaluatedItems": false}`,
	"unevaluatedProperties": `{"type": "object", "unevaluatedProperties": false}`,
	"properties":            `{"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}`,
	"patternProperties":     `{"type": "object", "patternProperties": {".": false}}`,
	"additionalProperties":  `{"type": "object", "additionalProperties": false}`,
	"propertyNames":         `{"type": "object", "propertyNames": {"maxLength": 0}}`,
	"required": `{"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
		"required": ["b"]}`,
	"maxProperties":    `{"type": "object", "maxProperties": 0}`,
	"minProperties":    `{"type": "object", "minProperties": 1}`,
	"type":             `{"type": "null"}`,
	"const":            `{"const": 5}`,
	"enum":             `{"enum": [5, "a"]}`,
	"multipleOf":       `{"type": "integer", "multipleOf": 100}`,
	"maximum":          `{"type": "integer", "maximum": 0}`,
	"exclusiveMaximum": `{"type": "integer", "exclusiveMaximum": 0}`,
	"minimum":          `{"type": "integer", "minimum": 1}`,
	"exclusiveMinimum": `{"type": "integer", "exclusiveMinimum": 1}`,
	"maxLength":        `{"type": "string", "maxLength": 1}`,
	"minLength":        `{"type": "string", "minLength": 3}`,
	"pattern":          `{"type": "string", "pattern": "^a{3}$"}`,
	"format":           `{"type": "string", "format": "date"}`,
	"contentEncoding":  `{"type": "string", "contentEncoding": "base64"}`,
	"contentMediaType": `{"type": "string", "contentMediaType": "application/json"}`,
	"contentSchema":    `{"type": "string", "contentSchema": false, "contentMediaType": "application/json"}`,
	"title":            `{"title": "a"}`,
	"description":      `{"description": "a"}`,
	"default":          `{"default": 1}`,
	"deprecated":       `{"deprecated": true}`,
	"readOnly":         `{"readOnly": true}`,
	"writeOnly":        `{"writeOnly": true}`,
	"examples":         `{"examples": [1]}`,
	"definitions":      `{"definitions": {}}`,
	"dependencies":     `{"type": "object", "dependencies": {"": false}}`,
	"$recursiveAnchor": `{"$recursiveAnchor": "a"}`,
	"$recursiveRef":    `{"$recursiveRef": "#"}`,
}

// vocabulariesOf2020 are the vocabularies of JSON Schema 2020-12.
var vocabulariesOf2020 = []string{"schema", "meta/core", "meta/applicator", "meta/unevaluated", "meta/validation",
	"meta/meta-data", "meta/format-annotation", "meta/content"}

// TestKeywords: every keyword of JSON Schema 2020-12 is enforced, or rejected by name. None is ignored.
func TestKeywords(t *testing.T) {
	keywords := map[string]bool{}
	for _, name := range vocabulariesOf2020 {
		s, err := jsonschema.NewCompiler().Compile("https://json-schema.org/draft/2020-12/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for key := range s.Properties {
			keywords[key] = true
		}
	}
	if len(keywords) < 55 {
		t.Fatalf("only %d keywords", len(keywords))
	}
	r, v := rand.New(rand.NewPCG(5, 5)), vocabulary()
	kept := 0
	for _, key := range slices.Sorted(maps.Keys(keywords)) {
		schema := samples[key]
		if schema == "" {
			t.Errorf("keyword %q has no sample", key)
			continue
		}
		g, err := Schema([]byte(schema))
		if err != nil {
			if !strings.Contains(err.Error(), `"`+key+`"`) {
				t.Errorf("%s: %v, which does not name %q", schema, err, key)
			}
			continue
		}
		kept++
		judge := compile(t, []byte(schema))
		ended := 0
		for range 60 {
			text, ok := walk(r, g, v)
			if !ok {
				continue
			}
			ended++
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err == nil {
				err = judge.Validate(value)
			}
			if err != nil {
				t.Fatalf("keyword %q is ignored: %s allows %s: %v", key, schema, text, err)
			}
		}
		if ended < 10 {
			t.Errorf("%s: %d texts", schema, ended)
		}
	}
	if kept < 25 {
		t.Errorf("%d keywords are kept", kept)
	}
}

// TestSameError: of several unsupported keywords, the same one is reported every time.
func TestSameError(t *testing.T) {
	for _, schema := range []string{
		`{"items": {}, "minItems": 1, "properties": {}, "pattern": "a"}`,
		`{"type": "null", "items": {}, "properties": {}, "pattern": "a"}`,
		`{"type": "string", "minLength": -1, "maxLength": -1}`,
	} {
		_, first := Schema([]byte(schema))
		for range 100 {
			if _, err := Schema([]byte(schema)); err == nil || err.Error() != first.Error() {
				t.Fatalf("%s: %v, then %v", schema, first, err)
			}
		}
	}
}
