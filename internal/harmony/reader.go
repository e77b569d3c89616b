package harmony

import (
	"strings"
)

const (
	blank     = " \t\r\n"
	to        = "to="        // precedes the recipient
	functions = "functions." // precedes the name of a function in a recipient
	analysis  = "analysis"
)

// longestHeader is the limit of what precedes a message, in bytes.
const longestHeader = 512

var (
	withoutMarks = strings.NewReplacer(mark, "")
	apart        = strings.NewReplacer(mark, " ")
)

// Kind says what a message is for.
type Kind int

// The kinds.
const (
	Answer  Kind = iota // for the user
	Thought             // for nobody, or for a tool of the model's own
	Call                // the arguments of a function
)

// Delta is new text of a message.
type Delta struct {
	Kind
	Name string // the function, where a call begins
	Text string
}

// Reader splits marked text as it arrives. Messages of one kind are a line apart. Text without a header is an answer.
type Reader struct {
	known  func(function string) bool
	held   string // undecided
	header bool   // a header has begun
	inside bool   // a message
	kind   Kind
	fresh  bool    // nothing of the message was returned
	seen   [2]bool // answers, thoughts
	begun  []Delta // the call that the prompt begins
}

// Reader reads what follows a prompt, which may end within a message or its header. Calls of functions that are not
// known are part of the answer.
func (f *Format) Reader(prompt []int, t Text, known func(function string) bool) *Reader {
	r := &Reader{known: known}
	from := len(prompt)
	for from > 0 && prompt[from-1] != f.ids[start] {
		from--
	}
	if from == 0 {
		return r
	}
	r.header = true
	m, call := f.Marked(t), []Delta(nil)
	for _, token := range prompt[from:] {
		for _, d := range r.Add(m.Next(token)) {
			if d.Name != "" {
				call = []Delta{d}
			}
		}
	}
	switch {
	case r.inside:
		r.begun = call
	case !strings.Contains(r.held, mark) && !strings.Contains(r.held, to): // the name of the assistant
		r.held, r.header = "", false
	}
	r.fresh, r.seen = false, [2]bool{}
	return r
}

// Thinking reports whether the text is within a thought.
func (r *Reader) Thinking() bool { return r.inside && r.kind == Thought }

// Add returns what a piece of marked text decides.
func (r *Reader) Add(text string) (list []Delta) {
	list, r.begun = r.begun, nil
	r.held += text
	for r.held != "" && r.step(&list) {
	}
	return list
}

// step reads a part of what is held; false = it needs more.
func (r *Reader) step(list *[]Delta) bool {
	switch {
	case r.inside:
		return r.content(list)
	case r.header:
		return r.head(list)
	}
	return r.between(list)
}

// content reads a message up to its end.
func (r *Reader) content(list *[]Delta) bool {
	at := strings.Index(r.held, mark)
	if at < 0 {
		at = len(r.held)
	}
	r.emit(list, r.held[:at])
	r.held = r.held[at:]
	name := control(r.held)
	switch name {
	case "":
		return false
	case end, call, done, start:
		r.inside, r.header = false, name == start
	default:
		r.emit(list, name)
	}
	r.held = r.held[len(mark)+len(name):]
	return true
}

// control returns the control token that a text begins with.
func control(text string) string {
	for _, name := range []string{start, channel, message, constrain, end, call, done} {
		if strings.HasPrefix(text, mark+name) {
			return name
		}
	}
	return ""
}

// between reads what follows the end of a message, or the name of the assistant in a prompt: a header, or, from a model
// that does not keep to the format, an answer.
func (r *Reader) between(list *[]Delta) bool {
	rest := strings.TrimLeft(r.held, blank)
	switch name := control(rest); {
	case name == start, name == end, name == call, name == done:
		r.held = rest[len(mark)+len(name):]
		r.header = name == start
	case strings.HasPrefix(rest, mark):
		r.header = name != ""
		return r.header
	case strings.HasPrefix(rest, to):
		r.header = true
	case strings.HasPrefix(to, rest):
		return false
	default:
		r.begin("", list)
	}
	return true
}

// head reads a header up to the message.
func (r *Reader) head(list *[]Delta) bool {
	header, rest, found := strings.Cut(r.held, mark+message)
	switch {
	case found:
		r.held = rest
		r.begin(header, list)
	case len(r.held) > longestHeader:
		r.held = Plain(r.held)
		r.begin("", list)
	}
	return r.inside
}

// begin begins a message. Channel and recipient stand in its header, in either order.
func (r *Reader) begin(header string, list *[]Delta) {
	recipient, thought := "", false
	for _, word := range strings.Fields(apart.Replace(header)) {
		if name, ok := strings.CutPrefix(word, to); ok {
			recipient = name
		}
		thought = thought || word == channel+analysis
	}
	function, ours := strings.CutPrefix(recipient, functions)
	r.inside, r.header, r.fresh = true, false, true
	switch {
	case ours && r.known(function):
		r.kind = Call
		*list = append(*list, Delta{Kind: Call, Name: function})
	case thought, recipient != "" && !ours:
		r.kind = Thought
	default:
		r.kind = Answer
	}
}

// emit returns text of the message.
func (r *Reader) emit(list *[]Delta, text string) {
	if text == "" {
		return
	}
	if r.kind != Call {
		if r.fresh && r.seen[r.kind] {
			text = "\n" + text
		}
		r.fresh, r.seen[r.kind] = false, true
	}
	*list = append(*list, Delta{Kind: r.kind, Text: text})
}

// End returns the rest at the end of the output: text that could have become a header.
func (r *Reader) End() (list []Delta) {
	if text := r.held; !r.header && !r.inside && !strings.Contains(text, mark) && strings.Trim(text, blank) != "" {
		r.begin("", &list)
		r.emit(&list, text)
	}
	r.held = ""
	return list
}

// Thoughts is a Reader for conversations without functions.
type Thoughts struct{ *Reader }

// Add returns what a piece of marked text decides: thoughts, and parts of the answer.
func (t Thoughts) Add(text string) (thought, answer string) { return split(t.Reader.Add(text)) }

// End returns the rest at the end of the output.
func (t Thoughts) End() (thought, answer string) { return split(t.Reader.End()) }

func split(list []Delta) (thought, answer string) {
	for _, d := range list {
		if d.Kind == Thought {
			thought += d.Text
		} else {
			answer += d.Text
		}
	}
	return thought, answer
}
