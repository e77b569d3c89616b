package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// Body is the JSON object of a request. jsonread parses all of it strictly first, so that it has a single meaning. The
// fields are then read one by one; the first invalid one is the error. A null field counts as absent.
type Body struct {
	fields map[string][]byte // raw JSON
	seen   map[string]bool   // fields that were read
	err    *Error
	origin Origin
	now    time.Time // for templates
	told   bool      // a template has used now

	upload  *upload // nil = closed, or from ParseBody or NewBody
	size    int
	done    func() // releases the turn that Begin took
	ignored []string
}

// ReadBody reads a request body of at most limit bytes into the memory of a pool, which holds it until Close.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, pool *Pool) (*Body, *Error) {
	if e := checkMedia(r.Header); e != nil {
		return nil, e
	}
	u := pool.begin(func() { interruptRead(w) })
	b, e := readInto(u, w, r, limit)
	if e != nil {
		u.release()
		return nil, e
	}
	b.upload = u
	return b, nil
}

// interruptRead ends the reads of a request's body.
func interruptRead(w http.ResponseWriter) {
	http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // long ago
}

// WithinTime calls read, whose reads of the body of r end when the time of the request does, and reports whether that
// is over.
func WithinTime(w http.ResponseWriter, r *http.Request, read func()) (over bool) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(r.Context(), func() {
		defer close(interrupted)
		interruptRead(w)
	})
	read()
	if !stop() {
		<-interrupted // later it could hit another request of the connection
	}
	return errors.Is(r.Context().Err(), context.DeadlineExceeded)
}

func readInto(u *upload, w http.ResponseWriter, r *http.Request, limit int64) (*Body, *Error) {
	var text []byte
	var err error
	over := WithinTime(w, r, func() {
		text, err = u.read(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit)
	})
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Type: InvalidRequest,
			Message: "the request body is larger than " + strconv.FormatInt(limit, 10) + " bytes"}
	case errors.Is(err, errFull):
		w.Header().Set("Connection", "close") // the rest is not read
		return nil, fullError()
	case err != nil && over:
		w.Header().Set("Connection", "close") // the rest is not read
		return nil, TooLate()
	case err != nil:
		return nil, Invalid("", "the request body could not be read")
	}
	done, err := u.pool.turn(r.Context(), len(text))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, TooLate()
	}
	if err != nil {
		return nil, Invalid("", "the request was cancelled")
	}
	defer done()
	b, e := ParseBody(text)
	if e == nil {
		b.size = len(text)
		e = b.readTime(r)
	}
	return b, e
}

// NewBody parses the JSON of a request that was not received by HTTP.
func NewBody(text []byte, o Origin) (*Body, *Error) {
	b, e := ParseBody(text)
	if e == nil {
		b.origin, b.now = o, o.time
	}
	return b, e
}

// Origin provides ids, seed and time of the answer.
func (b *Body) Origin() Origin { return b.origin }

// Begin waits for permission to decode the fields: those of large bodies become larger slices, so that only a few
// bodies are decoded at once; those of NewBody need none. The error is that of ctx, which is done.
func (b *Body) Begin(ctx context.Context) error {
	if b.upload == nil {
		return nil
	}
	done, err := b.upload.pool.turn(ctx, b.size)
	b.done = done
	return err
}

// Close releases the memory of the body. Ignored and Told remain valid, the fields do not.
func (b *Body) Close() {
	if b.upload == nil {
		return
	}
	b.ignored = b.Ignored()
	b.fields = nil
	if b.done != nil {
		b.done()
	}
	b.upload.release()
	b.upload = nil
}

// ParseBody parses the JSON of a request.
func ParseBody(text []byte) (*Body, *Error) {
	fields, err := jsonread.Fields(text)
	if err != nil {
		return nil, notJSON(err)
	}
	maps.DeleteFunc(fields, func(_ string, v []byte) bool { return string(v) == "null" })
	return &Body{fields: fields, seen: map[string]bool{}}, nil
}

// notJSON reports why and where a request is not a JSON object.
func notJSON(err error) *Error {
	var f *jsonread.Fault
	if !errors.As(err, &f) {
		return Invalid("", "the request is not a JSON object: %v", err)
	}
	place := fmt.Sprintf("byte %d", f.Offset)
	if f.Path != "" {
		place += ", in " + f.Path
	}
	name := f.Path
	if i := strings.IndexAny(name, ".["); i >= 0 {
		name = name[:i]
	}
	return Invalid(name, "the request is not a JSON object: %s (%s)", f.Text, place)
}

// Err returns the first error of a field.
func (b *Body) Err() *Error { return b.err }

// Fail records an error of a field.
func (b *Body) Fail(name, format string, a ...any) { b.fail("", name, format, a...) }

// Unsupported records that a valid value is not supported by the server, the model or the rest of the request.
func (b *Body) Unsupported(name, format string, a ...any) {
	b.fail(UnsupportedValue, name, format, a...)
}

// TooLong records that a valid value has more tokens than the model takes.
func (b *Body) TooLong(name, format string, a ...any) { b.fail(TooLong, name, format, a...) }

func (b *Body) fail(code, name, format string, a ...any) {
	if b.err == nil {
		b.err = Invalid(name, format, a...)
		b.err.Code = code
	}
}

// Raw returns the JSON of a field; nil = absent.
func (b *Body) Raw(name string) json.RawMessage {
	b.seen[name] = true
	return b.fields[name]
}

// Ignored returns the names of all fields that were never read, sorted.
func (b *Body) Ignored() []string {
	if b.fields == nil {
		return b.ignored
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.fields)), func(name string) bool { return b.seen[name] })
}

// Decode unmarshals a field into v and reports whether it succeeded; want describes the type in the error message.
func (b *Body) Decode(name string, v any, want string) bool {
	raw := b.Raw(name)
	if raw == nil {
		return false
	}
	if err := Unmarshal(raw, v); err != nil {
		b.Fail(name, "%s: want %s", name, want)
		return false
	}
	return true
}

// Bool reads a boolean.
func (b *Body) Bool(name string, v *bool) bool { return b.Decode(name, v, "true or false") }

// String reads a string.
func (b *Body) String(name string, v *string) bool { return b.Decode(name, v, "a string") }

// Int reads an integer from least to most.
func (b *Body) Int(name string, v *int, least, most int) bool {
	n := Integer(0)
	if !b.Decode(name, &n, "an integer") {
		return false
	}
	if n < Integer(least) || n > Integer(most) {
		b.Fail(name, "%s is %d: must be between %d and %d", name, n, least, most)
		return false
	}
	*v = int(n)
	return true
}

// Float reads a number from least to most. A value above 0 never becomes 0.
func (b *Body) Float(name string, v *float32, least, most float64) bool {
	x := 0.0
	if !b.Decode(name, &x, "a number") {
		return false
	}
	if x == 0 && !isZero(b.Raw(name)) { // underflow of float64
		x = math.Copysign(math.SmallestNonzeroFloat64, x)
	}
	if !(x >= least && x <= most) {
		b.Fail(name, "%s is %v: must be between %v and %v", name, x, least, most)
		return false
	}
	if *v = float32(x); x > 0 && *v == 0 { // underflow of float32
		*v = math.SmallestNonzeroFloat32
	}
	return true
}

// isZero reports whether a JSON number is exactly 0.
func isZero(number []byte) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(string(number)), "e")
	return !strings.ContainsAny(mantissa, "123456789")
}

// Strings reads a string or a list of at most most strings, none of them empty.
func (b *Body) Strings(name string, v *[]string, most int) bool {
	raw := b.Raw(name)
	if raw == nil {
		return false
	}
	var list []string
	if bytes.HasPrefix(raw, []byte(`"`)) {
		list = make([]string, 1)
		b.Decode(name, &list[0], "a string")
	} else if !b.Decode(name, &list, "a string or a list of strings") {
		return false
	}
	switch {
	case len(list) > most:
		b.Fail(name, "%s has %d strings: at most %d are allowed", name, len(list), most)
	case slices.Contains(list, ""):
		b.Fail(name, "%s contains an empty string", name)
	}
	*v = list
	return true
}

// Refuse rejects fields that the server does not support, unless their value requests nothing: false, 0 or empty.
func (b *Body) Refuse(why string, names ...string) {
	for _, name := range names {
		switch raw := b.Raw(name); string(raw) {
		case "", "false", "0", "0.0", `""`, "[]", "{}":
		default:
			b.fail(UnsupportedParameter, name, "%s is not supported: %s", name, why)
		}
	}
}

// Accept marks fields as known that have no effect.
func (b *Body) Accept(names ...string) {
	for _, name := range names {
		b.seen[name] = true
	}
}
