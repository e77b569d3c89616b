package api

import (
	"mime"
	"net/http"
	"strings"
)

// checkMedia refuses a body that says of itself that it is not UTF-8, or that it is compressed: read as JSON it could
// be another text. What kind of text it is, it need not say.
func checkMedia(h http.Header) *Error {
	for _, value := range h.Values("Content-Type") {
		_, params, err := mime.ParseMediaType(value)
		if err != nil && value != "" {
			return badMedia("the header Content-Type cannot be read")
		}
		switch charset := strings.ToLower(params["charset"]); charset {
		case "", "utf-8", "utf8", "us-ascii", "ascii":
		default:
			return badMedia("a request in another charset than UTF-8 is not supported")
		}
	}
	for _, value := range h.Values("Content-Encoding") {
		if value != "" && !strings.EqualFold(value, "identity") {
			return badMedia("a request with a Content-Encoding is not supported")
		}
	}
	return nil
}

func badMedia(why string) *Error {
	return &Error{Status: http.StatusUnsupportedMediaType, Type: InvalidRequest, Message: why}
}
