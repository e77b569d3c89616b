package api

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Unmarshal is json.Unmarshal with case-sensitive field names: encoding/json accepts Name for name, so that the last of
// both would win. It applies to structs without embedding and to pointers and slices of them.
func Unmarshal(raw []byte, v any) error { return decode(raw, reflect.ValueOf(v).Elem()) }

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func decode(raw []byte, v reflect.Value) error {
	null := string(raw) == "null"
	switch t := v.Type(); {
	case reflect.PointerTo(t).Implements(unmarshaler) || null:
	case t.Kind() == reflect.Struct:
		return decodeFields(raw, v)
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		return decode(raw, v.Elem())
	case t.Kind() == reflect.Slice && holdsStruct(t.Elem()):
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return err
		}
		v.Set(reflect.MakeSlice(t, len(items), len(items)))
		for i, item := range items {
			if err := decode(item, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	return json.Unmarshal(raw, v.Addr().Interface())
}

// holdsStruct reports whether values of a type contain structs.
func holdsStruct(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

func decodeFields(raw []byte, v reflect.Value) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if field, ok := fields[name]; ok {
			if err := decode(field, v.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
