package server

import (
	"encoding/json"
	"strconv"
	"strings"
)

// callReader finds calls of functions in a text that comes in pieces. Arguments are handed on as they come; what is not
// a call of a function that there is, is content.
type callReader struct {
	form  *callForm
	known func(name string) bool
	most  int // calls that are wanted

	state   readState
	held    string // text that is not decided yet
	opening string // the text before held, which is content if no call follows
	calls   int
	depth   int // of the arguments: brackets that are open
	quoted  bool
	escaped bool
}

// readState is what a callReader expects next.
type readState int

const (
	readText      readState = iota // or an opening
	readHead                       // {"name": …, "arguments":
	readArguments                  // an object
	readTail                       // the brace that closes the call
	readClose                      // what closes the form
	readNothing                    // the rest is not wanted
)

// reading is what is new in a text.
type reading struct {
	text  string
	calls []callDelta
}

// callDelta is what is new of a call: its name, or a part of its arguments.
type callDelta struct {
	index           int
	id              string // with name
	name, arguments string
}

const (
	maxName = 128 // bytes of the name of a function
	blank   = " \t\r\n"
)

// add takes a piece in and returns what is certain now.
func (r *callReader) add(text string) (out reading) {
	r.held += text
	steps := [...]func(*reading) bool{r.takeText, r.takeHead, r.takeArguments, r.takeTail, r.takeClose, r.drop}
	for r.held != "" && steps[r.state](&out) {
	}
	return out
}

// end returns the text that is left when there is no more.
func (r *callReader) end() string {
	if left := r.opening + r.held; r.state == readHead ||
		r.state == readText && (r.calls == 0 || strings.Trim(left, blank) != "") {
		return left
	}
	return ""
}

// The steps take something from held; false = they wait for more.

func (r *callReader) drop(*reading) bool { r.held = ""; return false }

// takeText takes text up to an opening. White space before one goes with it.
func (r *callReader) takeText(out *reading) bool {
	open := r.form.open
	at := strings.Index(r.held, open)
	found := at >= 0 && open != ""
	if !found {
		at = len(r.held) - overlap(r.held, open)
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

// overlap is how many bytes at the end of text may be the beginning of word.
func overlap(text, word string) int {
	for n := min(len(text), len(word)-1); n > 0; n-- {
		if strings.HasSuffix(text, word[:n]) {
			return n
		}
	}
	return 0
}

// takeHead takes the beginning of a call up to its arguments.
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

// head finds the name in the beginning of a call, and how long that is; 0 = it is none. more: not all of it is there.
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

// stringEnd is the length of the JSON string that text begins with; −1 = it has no end.
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

// takeArguments takes an object, or what there is of it.
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

// argument takes a byte of an object.
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

// takeTail takes the rest of a call: some models add an id to it.
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

// takeClose takes what stands behind a call.
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
