package api

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBody: the first invalid field is the error, null means absent, and unread fields are listed.
func TestBody(t *testing.T) {
	b, e := ParseBody([]byte(`{"n": 3, "t": 1e-300, "none": null, "z": 1, "a": {}, "list": ["x", "y"], "text": "x", ` +
		`"off": false}`))
	if e != nil {
		t.Fatal(e)
	}
	n, x, list := 7, float32(9), []string(nil)
	if !b.Int("n", &n, 1, 3) || n != 3 || b.Int("none", &n, 5, 6) || n != 3 {
		t.Errorf("n = %d", n)
	}
	if !b.Float("t", &x, 0, 2) || x == 0 {
		t.Errorf("a temperature above 0 became %v", x)
	}
	if !b.Strings("list", &list, 2) || len(list) != 2 || !b.Strings("text", &list, 1) || len(list) != 1 {
		t.Errorf("%q", list)
	}
	b.Refuse("there is none", "off", "none", "missing")
	if got := strings.Join(b.Ignored(), " "); got != "a z" || b.Err() != nil {
		t.Errorf("ignored %q, %v", got, b.Err())
	}
	b.Int("n", &n, 5, 9)
	b.Bool("a", new(bool))
	if e := b.Err(); e == nil || e.Param != "n" || e.Status != http.StatusBadRequest ||
		!strings.Contains(e.Message, "between 5 and 9") {
		t.Errorf("%+v", e)
	}
	b.err = nil
	if b.Refuse("there is none", "list"); b.Err() == nil || b.Err().Param != "list" {
		t.Errorf("%+v", b.Err())
	}
	for _, text := range []string{"", "{", "null", "[]", "1", `{"a":1} x`} {
		if _, e := ParseBody([]byte(text)); e == nil || e.Status != http.StatusBadRequest {
			t.Errorf("%q: %v", text, e)
		}
	}
}

// TestInteger: all spellings of integers in JSON Schema, and nothing else.
func TestInteger(t *testing.T) {
	for text, want := range map[string]Integer{"0": 0, "-7": -7, "2.0": 2, "1e3": 1000,
		"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64, "9007199254740991.0": 1<<53 - 1,
		"1e18": 1e18, "9007199254740993.0": 1<<53 + 1, "0.00012e5": 12, "-1.50e1": -15, "-0.0e-5": 0,
		"0e99999999999999999999": 0, "1000e-3": 1, "9223372036854775807.0": math.MaxInt64} {
		var n []Integer
		if err := json.Unmarshal([]byte("["+text+"]"), &n); err != nil || n[0] != want {
			t.Errorf("%s: %v, %v", text, n, err)
		}
	}
	for _, text := range []string{"null", "1.5", `"1"`, "true", "9223372036854775808", "1e300", "1e999", "[]", "1e19",
		"1e-400", "1e-3", "1.00000000000000000001", "1e-99999999999999999999", "1e99999999999999999999",
		"9223372036854775807.5", "1e", `"1e1"`} {
		var n []Integer
		if err := json.Unmarshal([]byte("["+text+"]"), &n); err == nil {
			t.Errorf("%s is read as %v", text, n)
		}
	}
}

// TestUnmarshal: names are case-sensitive, in nested structs too; null leaves a value unchanged.
func TestUnmarshal(t *testing.T) {
	type inner struct {
		Name string `json:"name"`
	}
	var got struct {
		Name  string           `json:"name"`
		In    inner            `json:"in"`
		At    *inner           `json:"at"`
		None  *inner           `json:"none"`
		List  []inner          `json:"list"`
		Raw   json.RawMessage  `json:"raw"`
		Ints  []Integer        `json:"ints"`
		Map   map[string]inner `json:"map"`
		Plain []string         `json:"plain"`
	}
	err := Unmarshal([]byte(`{"Name": 5, "name": "a", "NAME": {}, "in": {"NaMe": "x", "name": "b"},
		"at": {"name": "c", "Name": 1}, "none": null, "list": [{"name": "d", "Name": "y"}, null], "raw": {"A": 1},
		"ints": [2.0], "map": {"k": {"name": "e"}}, "plain": ["f"]}`), &got)
	if err != nil || got.Name != "a" || got.In.Name != "b" || got.At.Name != "c" || got.None != nil ||
		len(got.List) != 2 || got.List[0].Name != "d" || string(got.Raw) != `{"A": 1}` || got.Ints[0] != 2 ||
		got.Map["k"].Name != "e" || got.Plain[0] != "f" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{`{"name": 5}`, `{"in": 5}`, `{"at": []}`, `{"list": {}}`, `{"list": [5]}`,
		`5`, `[]`} {
		if err := Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// TestIntegers: a list of integers in any of their forms.
func TestIntegers(t *testing.T) {
	for text, want := range map[string][]int{"[]": {}, " [ 1,-2 , 3]": {1, -2, 3}, "[1, 2.0, 1e3]": {1, 2, 1000},
		"[9223372036854775807]": {math.MaxInt64}} {
		var list Integers
		if err := json.Unmarshal([]byte(text), &list); err != nil || !slices.Equal(list, want) {
			t.Errorf("%s: %v, %v", text, list, err)
		}
	}
	for _, text := range []string{"1", "{}", `[1, "a"]`, "[null]", "[1, 2.5]", "[[1]]", "[true]",
		"[9223372036854775808]"} {
		var list Integers
		if err := json.Unmarshal([]byte(text), &list); err == nil {
			t.Errorf("%s is read as %v", text, list)
		}
	}
	few := testing.AllocsPerRun(1,
		func() { json.Unmarshal([]byte("["+strings.Repeat("12,", 10000)+"1]"), new(Integers)) })
	if few > 100 {
		t.Errorf("%v allocations for 10,001 integers", few)
	}
}

// TestError: an error in body and headers.
func TestError(t *testing.T) {
	w := httptest.NewRecorder()
	(&Error{Status: http.StatusTooManyRequests, Type: RateLimit, Code: "queue_full", Message: "later",
		RetryAfter: 1500 * time.Millisecond}).Write(w)
	want := `{"error":{"message":"later","type":"rate_limit_exceeded","param":null,"code":"queue_full"}}` + "\n"
	if got := w.Body.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if w.Header().Get("Retry-After") != "2" || w.Header().Get("Retry-After-Ms") != "1500" {
		t.Errorf("%v", w.Header())
	}
}

// failing is a client that disconnects after some bytes.
type failing struct {
	*httptest.ResponseRecorder
	left int
}

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errors.New("gone")
	}
	return f.ResponseRecorder.Write(b)
}

// timed records write deadlines.
type timed struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (w *timed) SetWriteDeadline(t time.Time) error { w.until = t; return nil }

// TestLimitWrite: no response waits forever for a client that does not read.
func TestLimitWrite(t *testing.T) {
	for name, write := range map[string]func(http.ResponseWriter){
		"JSON":   func(w http.ResponseWriter) { WriteJSON(w, http.StatusOK, 1) },
		"error":  func(w http.ResponseWriter) { Invalid("", "x").Write(w) },
		"stream": func(w http.ResponseWriter) { s := NewStream(w); s.Done(); s.Flush() },
	} {
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		if write(w); w.until.Before(time.Now()) || w.until.After(time.Now().Add(WriteTimeout)) {
			t.Errorf("%s: a limit of %v", name, w.until)
		}
	}
}

// TestStream: Flush writes all frames at once, and the first error sticks.
func TestStream(t *testing.T) {
	w := &failing{httptest.NewRecorder(), 100}
	s := NewStream(w)
	s.Send(map[string]int{"a": 1})
	s.KeepAlive()
	s.SendEvent("x", 2)
	if w.Body.Len() != 0 {
		t.Errorf("written before Flush: %q", w.Body)
	}
	if err := s.Flush(); err != nil || w.Body.String() != "data: {\"a\":1}\n\n: keep-alive\n\nevent: x\ndata: 2\n\n" {
		t.Errorf("%v: %q", err, w.Body)
	}
	s.Send(strings.Repeat("x", 200))
	if err := s.Flush(); err == nil {
		t.Error("a client that has gone is not noticed")
	}
	s.Done()
	if err := s.Flush(); err == nil || strings.Contains(w.Body.String(), "DONE") {
		t.Error("written after an error")
	}
}
