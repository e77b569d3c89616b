// Package plainerr words the errors of JSON and YAML decoders for people who wrote the document, not the program.
package plainerr

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
)

// JSON says which field holds what, and what is wanted, instead of naming types of Go. Other errors stay as they are,
// without the prefix of the decoder.
func JSON(err error) error {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		field := t.Field
		if field == "" {
			return fmt.Errorf("the document is %s; want %s", article(t.Value), want(t.Type))
		}
		return fmt.Errorf("%q is %s; want %s", field, article(t.Value), want(t.Type))
	}
	if ended(err) {
		return errEnded
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

var errEnded = errors.New("the document is empty, or ends early")

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// article puts a word of package json for a value ("string", "number 1.5") into a sentence.
func article(value string) string {
	if value == "bool" {
		value = "boolean"
	}
	if strings.HasPrefix(value, "a") || strings.HasPrefix(value, "o") {
		return "an " + value
	}
	return "a " + value
}

// want names what a field of a type can hold.
func want(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer in range"
	}
	return "a number"
}

var (
	yamlType  = regexp.MustCompile("cannot unmarshal !!(\\w+)( `[^`]*`)? into (\\S+)")
	yamlField = regexp.MustCompile(`field (\S+) not found in type \S+`)
	yamlWords = map[string]string{"seq": "a list", "map": "a mapping", "str": "a string", "int": "a number",
		"float": "a number", "bool": "a boolean", "null": "nothing"}
)

// YAML does the same for errors of gopkg.in/yaml.v3, which name lines.
func YAML(err error) error {
	if ended(err) {
		return errEnded
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.Join(strings.Fields(strings.TrimPrefix(text, "unmarshal errors:")), " ")
	text = yamlType.ReplaceAllStringFunc(text, func(s string) string {
		m := yamlType.FindStringSubmatch(s)
		found := yamlWords[m[1]] + m[2]
		switch {
		case strings.HasPrefix(m[3], "[]"):
			return found + " where a list is wanted"
		case m[3] == "bool":
			return found + " where true or false is wanted"
		case strings.HasPrefix(m[3], "int"):
			return found + " where a number is wanted"
		case m[3] == "string":
			return found + " where a string is wanted"
		}
		return found + " where a mapping is wanted"
	})
	return errors.New(yamlField.ReplaceAllString(text, "unknown key $1"))
}
