package api

import (
	"mime"
	"net/http"
	"strings"
)

// checkMedia rejects a body with a charset other than UTF-8 or with a Content-Encoding: parsed as plain JSON it could
// mean something else. The media type itself is not checked.
func checkMedia(h http.Header) *Error {
	for _, value := range h.Values("Content-Type") {
		_, params, err := mime.ParseMediaType(value)
		if err != nil && value != "" {
			return badMedia("the header Content-Type cannot be read")
		}
		switch charset := strings.ToLower(params["charset"]); charset {
		case "", "utf-8", "utf8", "us-ascii", "ascii":
		default:
			return badMedia("the charset of Content-Type must be UTF-8")
		}
	}
	for _, value := range h.Values("Content-Encoding") {
		if value != "" && !strings.EqualFold(value, "identity") {
			return badMedia("Content-Encoding is not supported")
		}
	}
	return nil
}

func badMedia(why string) *Error {
	return &Error{Status: http.StatusUnsupportedMediaType, Type: InvalidRequest, Message: why}
}
