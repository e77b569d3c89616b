package api

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Unmarshal is json.Unmarshal, but that names of fields are as they are: encoding/json reads Name for name too, so that
// the last of both would count. Structs without embedded ones, what points to them and lists of them are read so.
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

// holdsStruct says whether values of a type have fields with names.
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
