package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
)

// ReadList reads a JSON list; the error of one with more than most elements is many. Elements take more memory than
// their text.
func ReadList[T any](text []byte, most int, many error) (list []T, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, errors.New("not a list")
	}
	for d.More() {
		if len(list) == most {
			return nil, many
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}
