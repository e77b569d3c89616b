// Package api implements the protocol of an OpenAI-compatible server: request fields, errors, and server-sent events.
package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Error is an error response. Clients choose their exception by its status.
type Error struct {
	Status     int
	Message    string
	Type       string
	Param      string        // the field; "" = none
	Code       string        // "" = none
	RetryAfter time.Duration // 0 = no hint
}

func (e *Error) Error() string { return e.Message }

// Values of Error.Type.
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

// Values of Error.Code for well-formed requests. Other errors of status 400 have no code.
const (
	TooLong              = "context_length_exceeded"
	UnsupportedParameter = "unsupported_parameter" // the server does not support the field
	// the server, the model or the rest of the request rules the value out
	UnsupportedValue = "unsupported_value"
)

// Invalid returns an error about a field, with status 400.
func Invalid(param, format string, a ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: InvalidRequest, Param: param, Message: fmt.Sprintf(format, a...)}
}

// TooLate returns the error of a request that exceeds the server's time limit.
func TooLate() *Error {
	return &Error{Status: http.StatusGatewayTimeout, Type: TimedOut,
		Message: "the request took longer than the server's time limit"}
}

// MarshalJSON returns {"error": {…}}.
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

// Write sends the error as the response.
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

// WriteJSON sends a value as the response.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil { // only a bug makes such a value
		panic(err)
	}
	LimitWrite(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}
