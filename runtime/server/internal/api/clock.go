package api

import (
	"net/http"
	"time"
)

// TimeHeader is the header of an answer that names the time which the chat template wrote into the prompt. Sent with a
// request, it is the time that templates are told.
const TimeHeader = "X-Lowpack-Time"

// readTime notes the time of a request: the one that it names, or the present one.
func (b *Body) readTime(r *http.Request) *Error {
	b.now = time.Now().UTC().Truncate(time.Second)
	text := r.Header.Get(TimeHeader)
	if text == "" {
		return nil
	}
	now, err := time.Parse(time.RFC3339, text)
	if err != nil {
		e := Invalid("", "the header %s: want a time such as %s", TimeHeader, b.now.Format(time.RFC3339))
		e.Code = UnsupportedValue // the body is well
		return e
	}
	b.now = now.UTC().Truncate(time.Second)
	return nil
}

// Now is the clock of chat templates: the time of the request in UTC, in whole seconds.
func (b *Body) Now() time.Time {
	b.told = true
	return b.now
}

// Told is the time that a template was told; "" = none asked.
func (b *Body) Told() string {
	if !b.told {
		return ""
	}
	return b.now.Format(time.RFC3339)
}
