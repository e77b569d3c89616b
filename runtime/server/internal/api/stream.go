package api

import (
	"encoding/json"
	"net/http"
	"time"
)

// WriteTimeout is how long a client may take to accept what is written to it.
const WriteTimeout = 30 * time.Second

// LimitWrite gives a client that time from now on; net/http ends the limit with the answer.
func LimitWrite(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WriteTimeout)) // not all writers have one
}

// Stream is an answer in server-sent events.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	frame   []byte
	err     error
}

// NewStream begins the answer.
func NewStream(w http.ResponseWriter) *Stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &Stream{w: w, control: http.NewResponseController(w)}
}

// Send adds a frame with a value as JSON. It reaches the client with Flush.
func (s *Stream) Send(v any) { s.SendEvent("", v) }

// SendEvent is Send for a frame with a name.
func (s *Stream) SendEvent(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil { // of values that this module makes: a mistake of the program
		panic(err)
	}
	if name != "" {
		s.frame = append(append(append(s.frame, "event: "...), name...), '\n')
	}
	s.frame = append(append(append(s.frame, "data: "...), text...), "\n\n"...)
}

// Done adds the frame that ends a stream.
func (s *Stream) Done() { s.frame = append(s.frame, "data: [DONE]\n\n"...) }

// KeepAlive adds a comment, which clients skip.
func (s *Stream) KeepAlive() { s.frame = append(s.frame, ": keep-alive\n\n"...) }

// Flush writes what was added. After an error, all further ones are the same.
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
