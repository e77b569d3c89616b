package api

import (
	"encoding/json"
	"net/http"
	"time"
)

// WriteTimeout is the time that a client has to accept a write.
const WriteTimeout = 30 * time.Second

// LimitWrite starts that time; net/http resets the deadline after the response.
func LimitWrite(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WriteTimeout)) // not all writers support it
}

// Stream is a response of server-sent events.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	frame   []byte
	err     error
}

// NewStream starts the response.
func NewStream(w http.ResponseWriter) *Stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &Stream{w: w, control: http.NewResponseController(w)}
}

// Send appends a frame with a JSON value. Flush sends it.
func (s *Stream) Send(v any) { s.SendEvent("", v) }

// SendEvent is Send with an event name.
func (s *Stream) SendEvent(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil { // only a bug makes such a value
		panic(err)
	}
	if name != "" {
		s.frame = append(append(append(s.frame, "event: "...), name...), '\n')
	}
	s.frame = append(append(append(s.frame, "data: "...), text...), "\n\n"...)
}

// Done appends the final frame.
func (s *Stream) Done() { s.frame = append(s.frame, "data: [DONE]\n\n"...) }

// KeepAlive appends a comment, which clients ignore.
func (s *Stream) KeepAlive() { s.frame = append(s.frame, ": keep-alive\n\n"...) }

// Flush writes the appended frames. After an error, it returns the same error again.
func (s *Stream) Flush() error {
	if s.err != nil || len(s.frame) == 0 {
		return s.err
	}
	LimitWrite(s.w)
	if _, s.err = s.w.Write(s.frame); s.err == nil {
		s.err = s.control.Flush()
	}
	s.frame = s.frame[:0]
	return s.err
}
