package server

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/internal/overlap"
)

// callReader extracts tool calls from streamed text. It passes arguments on as they arrive. Whatever is not a call of a
// known function is content.
type callReader struct {
	form  *callForm
	known func(name string) bool
	most  int // limit of calls; the text after them is dropped

	state   readState
	held    string // text that may still become a call
	opening string // delimiter before held; it is content if no call follows
	calls   int
	depth   int // open brackets in the arguments
	quoted  bool
	escaped bool
}

// readState is what a callReader expects next.
type readState int

const (
	readText      readState = iota // text, or an opening delimiter
	readHead                       // {"name": …, "arguments":
	readArguments                  // an object
	readTail                       // the closing brace of the call
	readClose                      // the closing delimiter
	readNothing                    // nothing: the rest is dropped
)

// reading is the content and the call deltas found in new text.
type reading struct {
	text  string
	calls []callDelta
}

// callDelta is an increment of a call: its id and name, or a part of its arguments.
type callDelta struct {
	index           int
	id              string // set together with name
	name, arguments string
}

const (
	maxName = 128 // length limit of a quoted function name in bytes
	blank   = " \t\r\n"
)

// add reads more text and returns what is decided now.
func (r *callReader) add(text string) (out reading) {
	r.held += text
	steps := [...]func(*reading) bool{r.takeText, r.takeHead, r.takeArguments, r.takeTail, r.takeClose, r.drop}
	for r.held != "" && steps[r.state](&out) {
	}
	return out
}

// end returns the held text that is content after all, at the end of the output.
func (r *callReader) end() string {
	if left := r.opening + r.held; r.state == readHead ||
		r.state == readText && (r.calls == 0 || strings.Trim(left, blank) != "") {
		return left
	}
	return ""
}

// The steps consume held; false = they need more text.

func (r *callReader) drop(*reading) bool { r.held = ""; return false }

// takeText consumes text up to an opening delimiter. White space before the delimiter belongs to the call.
func (r *callReader) takeText(out *reading) bool {
	open := r.form.open
	at := strings.Index(r.held, open)
	found := at >= 0 && open != ""
	if !found {
		at = len(r.held) - overlap.Of(r.held, open)
	}
	if open != "" {
		at = len(strings.TrimRight(r.held[:at], blank))
	}
	out.text += r.held[:at]
	r.held = r.held[at:]
	if found {
		n := strings.Index(r.held, open) + len(open)
		r.opening, r.held, r.state = r.held[:n], r.held[n:], readHead
	}
	return found
}

// takeHead consumes the start of a call up to its arguments.
func (r *callReader) takeHead(out *reading) bool {
	if r.form.list {
		rest := strings.TrimLeft(r.held, blank+"[,")
		r.opening, r.held = r.opening+r.held[:len(r.held)-len(rest)], rest
	}
	name, n, more := r.head()
	switch {
	case more:
		return false
	case n == 0 || !r.known(name):
		out.text += r.opening
		r.opening, r.state = "", readText
		return true
	}
	out.calls = append(out.calls, callDelta{index: r.calls, name: name})
	r.calls++
	r.opening, r.held, r.state = "", r.held[n:], readArguments
	return true
}

// head parses the start of a call and returns the name and the length n up to the arguments; n = 0 = not a call. more =
// the text ends too early to decide.
func (r *callReader) head() (name string, n int, more bool) {
	for _, want := range []string{"{", `"name"`, ":", "", ",", strconv.Quote(r.form.key), ":", "{"} {
		rest := strings.TrimLeft(r.held[n:], blank)
		n = len(r.held) - len(rest)
		if rest == "" || len(rest) < len(want) && strings.HasPrefix(want, rest) {
			return "", 0, true
		}
		if want == "" {
			size := stringEnd(rest)
			if size < 0 && len(rest) <= maxName {
				return "", 0, true
			}
			if size < 0 || json.Unmarshal([]byte(rest[:size]), &name) != nil {
				return "", 0, false
			}
			n += size
			continue
		}
		if !strings.HasPrefix(rest, want) {
			return "", 0, false
		}
		n += len(want)
	}
	return name, n - 1, false
}

// stringEnd returns the length of the JSON string that text starts with; −1 = unterminated.
func stringEnd(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// takeArguments consumes the arguments object, or the part of it that has arrived.
func (r *callReader) takeArguments(out *reading) bool {
	n := 0
	for n < len(r.held) && r.state == readArguments {
		r.argument(r.held[n])
		n++
	}
	out.calls = append(out.calls, callDelta{index: r.calls - 1, arguments: r.held[:n]})
	r.held = r.held[n:]
	return true
}

// argument advances the state by one byte of the arguments.
func (r *callReader) argument(c byte) {
	switch {
	case r.escaped:
		r.escaped = false
	case r.quoted:
		r.escaped, r.quoted = c == '\\', c != '"'
	case c == '"':
		r.quoted = true
	case c == '{' || c == '[':
		r.depth++
	case c == '}' || c == ']':
		if r.depth--; r.depth == 0 {
			r.state = readTail
		}
	}
}

// takeTail consumes the rest of a call after the arguments: some models append an id.
func (r *callReader) takeTail(*reading) bool {
	at := strings.IndexByte(r.held, '}')
	if at < 0 {
		r.held = ""
		return false
	}
	r.held = r.held[at+1:]
	if r.state = readClose; r.calls == r.most {
		r.state = readNothing
	}
	return true
}

// takeClose consumes the closing delimiter, or the comma before the next call of a list.
func (r *callReader) takeClose(*reading) bool {
	rest := strings.TrimLeft(r.held, blank)
	if rest == "" {
		return false
	}
	after, closed := strings.CutPrefix(rest, r.form.close)
	switch {
	case r.form.list && rest[0] == ',':
		r.state = readHead
	case closed && r.form.close != "":
		r.held, r.state = after, readText
	case strings.HasPrefix(r.form.close, rest):
		return false
	default:
		r.state = readText
	}
	return true
}
