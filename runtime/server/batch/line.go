package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// Limits of a line.
const (
	maxLine = 8<<20 + 1<<16 // bytes: the server's limit of a body, and what is around it
	maxID   = 512           // bytes of a custom_id
)

// Fault is an error of the input in OpenAI's form.
type Fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"` // the key of the line
	Line    int    `json:"line,omitempty"`  // from 1; 0 = the whole file
}

// Error says what is wrong and where.
func (f *Fault) Error() string {
	if f.Line == 0 {
		return f.Message
	}
	return fmt.Sprintf("line %d: %s", f.Line, f.Message)
}

// Values of Fault.Code.
const (
	InvalidJSON     = "invalid_json_line"
	LongLine        = "line_too_long"
	MissingKey      = "missing_required_parameter"
	UnknownKey      = "unknown_parameter"
	InvalidValue    = "invalid_value"
	InvalidMethod   = "invalid_method"
	InvalidURL      = "invalid_url"
	DuplicateID     = "duplicate_custom_id"
	EmptyFile       = "empty_file"
	TooManyRequests = "too_many_tasks"
)

// keys are the keys of a line; each is required.
var keys = []string{"custom_id", "method", "url", "body"}

// parse reads a line, without its number.
func (o *Options) parse(text []byte) (*Request, *Fault) {
	fields, err := jsonread.Fields(text)
	if err != nil {
		return nil, &Fault{Code: InvalidJSON, Message: "not a JSON object: " + place(err)}
	}
	for _, name := range keys {
		if fields[name] == nil {
			return nil, &Fault{Code: MissingKey, Param: name, Message: name + " is missing"}
		}
	}
	if len(fields) > len(keys) {
		name := unknown(fields)
		return nil, &Fault{Code: UnknownKey, Param: name, Message: fmt.Sprintf("unknown key %.40q: a request has %s",
			name, strings.Join(keys, ", "))}
	}
	q, method := &Request{Body: fields["body"]}, ""
	for _, s := range []struct {
		name string
		to   *string
	}{{"custom_id", &q.CustomID}, {"method", &method}, {"url", &q.URL}} {
		if raw := fields[s.name]; raw[0] != '"' || json.Unmarshal(raw, s.to) != nil {
			return nil, &Fault{Code: InvalidValue, Param: s.name, Message: s.name + ": want a string"}
		}
	}
	switch {
	case q.CustomID == "" || len(q.CustomID) > maxID:
		return nil, &Fault{Code: InvalidValue, Param: "custom_id",
			Message: fmt.Sprintf("custom_id has %d bytes: must be between 1 and %d", len(q.CustomID), maxID)}
	case method != "POST":
		return nil, &Fault{Code: InvalidMethod, Param: "method",
			Message: fmt.Sprintf("method %.40q: must be POST", method)}
	case !slices.Contains(o.URLs, q.URL):
		return nil, &Fault{Code: InvalidURL, Param: "url", Message: fmt.Sprintf("url %.80q: must be one of %s", q.URL,
			strings.Join(o.URLs, ", "))}
	case q.Body[0] != '{':
		return nil, &Fault{Code: InvalidValue, Param: "body", Message: "body: want an object"}
	}
	return q, nil
}

// unknown returns the first unknown key of a line.
func unknown(fields map[string][]byte) string {
	names := slices.Sorted(maps.Keys(fields))
	return names[slices.IndexFunc(names, func(name string) bool { return !slices.Contains(keys, name) })]
}

// place describes an error of a JSON text by byte and path.
func place(err error) string {
	var f *jsonread.Fault
	if !errors.As(err, &f) {
		return err.Error()
	}
	if f.Path != "" {
		return fmt.Sprintf("%s (byte %d, in %s)", f.Text, f.Offset, f.Path)
	}
	return fmt.Sprintf("%s (byte %d)", f.Text, f.Offset)
}
