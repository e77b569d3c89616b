// Package api is what an OpenAI-compatible server and its clients say to each other: the fields of requests, errors,
// and frames of streams.
package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Error is an answer that is none. Clients choose their exception by the status.
type Error struct {
	Status     int
	Message    string
	Type       string
	Param      string        // the field; "" = none
	Code       string        // "" = none
	RetryAfter time.Duration // 0 = no hint
}

func (e *Error) Error() string { return e.Message }

// The types of errors.
const (
	InvalidRequest = "invalid_request_error"
	Unauthorized   = "authentication_error"
	Forbidden      = "permission_error"
	NotFound       = "not_found_error"
	RateLimit      = "rate_limit_exceeded"
	Unavailable    = "unavailable_error"
	NotSupported   = "not_supported_error"
	ServerError    = "server_error"
	TimedOut       = "timeout_error"
)

// The codes of errors about requests of the right form. All others of status 400 have no code.
const (
	TooLong              = "context_length_exceeded"
	UnsupportedParameter = "unsupported_parameter" // a field that the server does not have
	UnsupportedValue     = "unsupported_value"     // that the server, the model or the rest of the request excludes
)

// Invalid is an error about a field of a request.
func Invalid(param, format string, a ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: InvalidRequest, Param: param, Message: fmt.Sprintf(format, a...)}
}

// MarshalJSON writes {"error": {…}}.
func (e *Error) MarshalJSON() ([]byte, error) {
	type fields struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return json.Marshal(map[string]fields{"error": {e.Message, e.Type, optional(e.Param), optional(e.Code)}})
}

// Write answers with the error.
func (e *Error) Write(w http.ResponseWriter) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(e.RetryAfter.Milliseconds(), 10))
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	WriteJSON(w, e.Status, e)
}

// WriteJSON answers with a value as JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil { // of values that this module makes: a mistake of the program
		panic(err)
	}
	LimitWrite(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}
