package api

import (
	"net/http"
	"time"
)

// TimeHeader names the time that the chat template wrote into the prompt. A request with this header sets the time of
// templates.
const TimeHeader = "X-Lowpack-Time"

// readTime sets the time of a request: the one in its header, or now.
func (b *Body) readTime(r *http.Request) *Error {
	b.now = time.Now().UTC().Truncate(time.Second)
	text := r.Header.Get(TimeHeader)
	if text == "" {
		return nil
	}
	now, err := time.Parse(time.RFC3339, text)
	if err != nil {
		e := Invalid("", "the header %s: want a time such as %s", TimeHeader, b.now.Format(time.RFC3339))
		e.Code = UnsupportedValue // the body is valid
		return e
	}
	b.now = now.UTC().Truncate(time.Second)
	return nil
}

// Now returns the time of the request for chat templates, in UTC and whole seconds.
func (b *Body) Now() time.Time {
	b.told = true
	return b.now
}

// Untimed reports whether a template used the time of a request that has none.
func (b *Body) Untimed() bool { return b.told && b.now.IsZero() }

// Told returns the time that a template used; "" = none did.
func (b *Body) Told() string {
	if !b.told {
		return ""
	}
	return b.now.Format(time.RFC3339)
}
