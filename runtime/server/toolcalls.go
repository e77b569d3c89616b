package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/runtime/server/grammar"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// toolCall is a function call in a message.
type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// readCalls reads the tool_calls of a message for the template. Many templates expect the arguments as an object, but
// clients send a string. The order of the keys is kept, since some templates print it.
func readCalls(b *api.Body) json.RawMessage {
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var calls []struct {
		ID       string    `json:"id,omitempty"`
		Type     string    `json:"type"`
		Function *function `json:"function"`
	}
	if !b.Decode("tool_calls", &calls, "a list of function calls") || len(calls) == 0 {
		return nil
	}
	for i := range calls {
		f := calls[i].Function
		if f == nil || f.Name == "" {
			b.Fail("tool_calls", "tool_calls[%d]: function.name is missing", i)
			return nil
		}
		calls[i].Type = "function"
		f.Arguments = argumentsOf(f.Arguments)
	}
	text, _ := json.Marshal(calls) // the values are valid JSON
	return text
}

// argumentsOf returns the arguments as an object if they are a string that contains one; otherwise as they are.
func argumentsOf(raw json.RawMessage) json.RawMessage {
	var (
		text   string
		object map[string]json.RawMessage
	)
	switch {
	case len(raw) == 0:
		return json.RawMessage("{}")
	case json.Unmarshal(raw, &text) != nil: // not a string
		return raw
	case text == "":
		return json.RawMessage("{}")
	case json.Unmarshal([]byte(text), &object) == nil:
		return json.RawMessage(text)
	}
	return raw
}

// maxTools is the limit of functions in a request, the same as OpenAI's.
const maxTools = 128

// tools holds the functions that a request offers.
type tools struct {
	raw    []byte // for the template
	form   *callForm
	names  map[string]bool
	most   int   // limit of calls
	forced bool  // the output consists of calls
	opener []int // tokens appended to the prompt that start the first call; nil = the model decides whether it calls
}

// function is an element of the tools field.
type function struct {
	Type     string `json:"type"`
	Function *struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Strict     bool            `json:"strict"`
	} `json:"function"`
}

// readTools reads tools, tool_choice and parallel_tool_calls; nil = no calls.
func (j *job) readTools(b *api.Body, raw json.RawMessage) *tools {
	b.Refuse("use tools and tool_choice", "functions", "function_call")
	list := readFunctions(b, raw)
	choice, name := readToolChoice(b)
	several := true
	b.Bool("parallel_tool_calls", &several)
	switch {
	case b.Err() != nil, choice == "none":
		return nil
	case len(list) == 0 && choice != "auto":
		b.Unsupported("tool_choice", "tool_choice needs tools")
		return nil
	case len(list) == 0:
		return nil
	}
	t := &tools{raw: slices.Clone(raw), form: j.model.callForm(), names: map[string]bool{}, most: 1}
	switch {
	case t.form == nil:
		b.Unsupported("tools", "tools is not supported: the model's chat template has no known form of function calls")
		return nil
	case j.format != nil:
		b.Unsupported("tools", "tools cannot be combined with an output format; set tool_choice to none")
		return nil
	}
	if several {
		t.most = math.MaxInt
	}
	for _, f := range list {
		t.names[f.Function.Name] = true
	}
	if choice != "auto" {
		j.force(b, t, list, name)
	} else if slices.ContainsFunc(list, func(f function) bool { return f.Function.Strict }) {
		j.holdStrict(b, t, list)
	}
	return t
}

// force constrains the output to calls, of the named function if name is not empty.
func (j *job) force(b *api.Body, t *tools, list []function, name string) {
	var allowed []grammar.Function
	for _, f := range list {
		if name == "" || name == f.Function.Name {
			allowed = append(allowed, grammar.Function{Name: f.Function.Name, Parameters: f.Function.Parameters})
		}
	}
	if len(allowed) == 0 {
		b.Unsupported("tool_choice", "tool_choice: tools has no function %.60q", name)
		return
	}
	t.forced = true
	if t.form.channels {
		j.forceChannel(b, t, allowed)
		return
	}
	if id, ok := j.model.Tokenizer.ID(t.form.open); ok && t.form.open != "" {
		t.opener = []int{id}
	}
	form := t.form.grammar(t.opener != nil, t.most > 1)
	j.use(b, j.model, "tools", fmt.Sprintf("calls %+v %+v", form, allowed),
		func() (*grammar.Grammar, error) { return grammar.Calls(form, allowed) })
}

// holdStrict lets the model decide whether to call, but constrains the arguments of strict functions to their schemas.
func (j *job) holdStrict(b *api.Body, t *tools, list []function) {
	if t.form.channels {
		b.Unsupported("tools", "strict is not supported for a function that the model may call on a channel: leave it "+
			"out, or name the function in tool_choice")
		return
	}
	offered := make([]grammar.Function, len(list))
	for i, f := range list {
		offered[i] = grammar.Function{Name: f.Function.Name, Parameters: f.Function.Parameters,
			Free: !f.Function.Strict}
	}
	if id, ok := j.model.Tokenizer.ID(t.form.open); ok && j.model.Tokenizer.Special(id) {
		j.words = j.model.vocabularyWith(id)
	}
	form := t.form.grammar(false, t.most > 1)
	j.use(b, j.model, "tools", fmt.Sprintf("mixed %+v %+v", form, offered),
		func() (*grammar.Grammar, error) { return grammar.Mixed(form, t.form.open, offered) })
}

// readFunctions reads the tools field.
func readFunctions(b *api.Body, raw json.RawMessage) (list []function) {
	if raw == nil {
		return nil
	}
	if api.Unmarshal(raw, &list) != nil || len(list) > maxTools {
		b.Fail("tools", "tools: want a list of at most %d functions", maxTools)
		return nil
	}
	names := map[string]bool{}
	for i, f := range list {
		switch {
		case f.Type != "function":
			b.Fail("tools", "tools[%d]: type %.40q is not supported: must be function", i, f.Type)
			return nil
		case f.Function == nil || f.Function.Name == "" || len(f.Function.Name) > maxName/2:
			b.Unsupported("tools", "tools[%d]: function.name must have 1 to %d bytes", i, maxName/2)
			return nil
		case names[f.Function.Name]:
			b.Unsupported("tools", "tools[%d]: another function is named %q", i, f.Function.Name)
			return nil
		}
		names[f.Function.Name] = true
	}
	return list
}

// readToolChoice returns none, auto or required. With required, name is the function to call; "" = any.
func readToolChoice(b *api.Body) (choice, name string) {
	const want = "tool_choice: want none, auto, required, or an object with the name of a function"
	raw := b.Raw("tool_choice")
	if raw == nil {
		return "auto", ""
	}
	if json.Unmarshal(raw, &choice) == nil {
		if choice != "none" && choice != "auto" && choice != "required" {
			b.Fail("tool_choice", want)
		}
		return choice, ""
	}
	var named struct {
		Type     string `json:"type"`
		Name     string `json:"name"` // in the responses API
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if api.Unmarshal(raw, &named) != nil || named.Type != "function" || named.Name+named.Function.Name == "" {
		b.Fail("tool_choice", want)
	}
	if named.Name != "" && named.Function.Name != "" && named.Name != named.Function.Name {
		b.Unsupported("tool_choice", "tool_choice names two functions, %.60q and %.60q", named.Name,
			named.Function.Name)
	}
	return "required", cmp.Or(named.Name, named.Function.Name)
}

// responseTools converts the tools of the responses API to those of chat completions.
func responseTools(b *api.Body) json.RawMessage {
	var list []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	}
	if !b.Decode("tools", &list, "a list of functions") || len(list) == 0 {
		return nil
	}
	type inner struct {
		Name        string          `json:"name"`
		Description *string         `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
		Strict      bool            `json:"strict,omitempty"`
	}
	type outer struct {
		Type     string `json:"type"`
		Function inner  `json:"function"`
	}
	out := make([]outer, len(list))
	for i, t := range list {
		out[i] = outer{t.Type, inner{t.Name, t.Description, t.Parameters, t.Strict}}
	}
	raw, _ := json.Marshal(out) // the values are valid JSON
	return raw
}

// offer sets the tools of a job. If the opening delimiter is a control token, the text must include it.
func (j *job) offer(t *tools) {
	if j.tools = t; t != nil {
		id, ok := j.model.Tokenizer.ID(t.form.open)
		j.showSpecial = ok && j.model.Tokenizer.Special(id)
	}
}

// free reports whether the model may write text besides calls.
func (t *tools) free() bool { return t != nil && !t.forced }

// shown returns the tools for the template.
func (t *tools) shown() []byte {
	if t == nil {
		return nil
	}
	return t.raw
}

// prompt appends the tokens that open a forced call, or a message with a format.
func (j *job) prompt(ids []int) []int {
	switch {
	case j.tools != nil:
		return append(ids, j.tools.opener...)
	case j.format != nil && j.model.harmony != nil:
		return append(ids, j.model.harmony.Final(j.model.encode)...)
	}
	return ids
}

// reader returns a reader for the calls in one output; nil = no tools.
func (t *tools) reader() *callReader {
	if t == nil || t.form.channels {
		return nil
	}
	r := &callReader{form: t.form, known: func(name string) bool { return t.names[name] }, most: t.most}
	if t.opener != nil || t.form.open == "" {
		r.state = readHead
	}
	return r
}

// callID returns the id of the next call: nine letters and digits, as the Mistral templates require.
func (c *choice) callID() string { return c.origin.ID("", c.index, len(c.calls))[:9] }
