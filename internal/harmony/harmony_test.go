package harmony

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// words is a vocabulary of the control tokens, which also counts bytes as tokens.
type words struct{ lacks string }

var names = []string{start, channel, message, constrain, end, call, done}

func (w words) ID(text string) (int, bool) {
	i := slices.Index(names, text)
	return 256 + i, i >= 0 && text != w.lacks
}

func (words) Special(id int) bool { return id >= 256 }

func (words) Next(token int) string { return string(rune(token)) }

func (words) Flush() string { return "" }

// tokens encodes a text in which {NAME} are control tokens.
func tokens(text string) (ids []int) {
	for text != "" {
		if name, rest, found := strings.Cut(text[1:], "}"); found && text[0] == '{' {
			if id, ok := (words{}).ID("<|" + name + "|>"); ok {
				ids, text = append(ids, id), rest
				continue
			}
		}
		ids, text = append(ids, int(text[0])), text[1:]
	}
	return ids
}

// read returns thoughts, the answer and calls. A thought or a call after the answer is shown in it.
func read(r *Reader, pieces []string) string {
	var out [3]string
	take := func(list []Delta) {
		for _, d := range list {
			if d.Name != "" {
				d.Text = d.Name + d.Text
			}
			out[d.Kind] += d.Text
		}
	}
	for _, p := range pieces {
		take(r.Add(p))
	}
	take(r.End())
	return fmt.Sprintf("%s|%s|%s", out[Thought], out[Answer], out[Call])
}

// TestReader: thoughts, answers and calls are told apart wherever pieces end, by control tokens alone, and whatever the
// prompt has begun. A model that does not keep to the format answers.
func TestReader(t *testing.T) {
	const asks = "{start}assistant"
	for _, c := range []struct{ prompt, output, want string }{
		{asks, "{channel}analysis{message}Hm.{end}{start}assistant{channel}final{message}Yes.", "Hm.|Yes.|"},
		{asks, "{channel}final{message}Yes.{return}", "|Yes.|"},
		{asks, "{channel}analysis{message}Hm. <|end|>{end}{start}assistant{channel}final{message}<|channel|>",
			"Hm. <|end|>|<|channel|>|"},
		{asks, "{channel}analysis{message}a{end}{start}assistant{channel}analysis{message}b{end}" +
			"{start}assistant{channel}commentary{message}I look.{end}{start}assistant{channel}final{message}It is.",
			"a\nb|I look.\nIt is.|"},
		{asks, "{channel}commentary to=functions.f {constrain}json{message}{\"a\": 1}{call}", `||f{"a": 1}`},
		{asks, "{channel}commentary to=functions.f{constrain}json{message}{}{call}", "||f{}"},
		{asks, " to=functions.f{channel}commentary json{message}{}{call}", "||f{}"},
		{asks, "{channel}analysis to=functions.f{message}{}", "||f{}"},
		{asks, "{channel}commentary to=functions.g {constrain}json{message}{}{call}", "|{}|"},
		{asks, "{channel}analysis to=browser.search code{message}{}{call}", "{}||"},
		{asks, "{channel}analysis{message}cut off", "cut off||"},
		{asks, "{channel}ana", "||"},
		{asks, "", "||"},
		{asks, "Yes.", "|Yes.|"},
		{asks, " to", "| to|"},
		{asks, " to-day{end}\nNo.", "| to-day\n\nNo.|"},
		{asks, "{channel}final{message}a{end} {end}b{call}", "|a\nb|"},
		{asks, "{channel}final{message}a {channel}b", "|a <|channel|>b|"},
		{asks, "{channel}final{message}a{start}assistant{channel}final{message}b", "|a\nb|"},
		{asks, "{channel}" + strings.Repeat("x", 600), "|<|channel|>" + strings.Repeat("x", 600) + "|"},
		{"{start}user{message}a{end}{start}assistant{channel}final{message}The", " end", "| end|"},
		{asks + "{channel}analysis{message}Hm", "{end}{start}assistant{channel}analysis{message}b", "b||"},
		{asks + "{channel}analysis{message}", "Hm.{end}{start}assistant{channel}final{message}Yes.", "Hm.|Yes.|"},
		{"{start}assistant{channel}ana", "lysis{message}Hm.", "Hm.||"},
		{"{start}assistant to=functions.f", "{channel}commentary json{message}{}", "||f{}"},
		{"{start}assistant{channel}commentary to=functions.f {constrain}json{message}", "{}", "||f{}"},
		{"Once", " upon a time", "| upon a time|"},
	} {
		f := Of(words{})
		marks, whole := f.Marked(words{}), ""
		for _, id := range tokens(c.output) {
			whole += marks.Next(id)
		}
		for size := 1; size <= len(whole)+1; size++ {
			r := f.Reader(tokens(c.prompt), words{}, func(name string) bool { return name == "f" })
			var pieces []string
			for piece := range slices.Chunk([]byte(whole), size) {
				pieces = append(pieces, string(piece))
			}
			if got := read(r, pieces); got != c.want {
				t.Errorf("%q after %q in pieces of %d: %q, want %q", c.output, c.prompt, size, got, c.want)
				break
			}
		}
	}
}

// TestThinking: a model thinks from the beginning of a message of thoughts to its end.
func TestThinking(t *testing.T) {
	f := Of(words{})
	r := f.Reader(tokens("{start}assistant"), words{}, nil)
	marks := f.Marked(words{})
	for i, step := range []struct {
		piece string
		want  bool
	}{{"{channel}analysis", false}, {"{message}", true}, {"Hm.", true}, {"{end}", false}, {"{start}assistant", false},
		{"{channel}final{message}Yes.", false}} {
		for _, id := range tokens(step.piece) {
			r.Add(marks.Next(id))
		}
		if r.Thinking() != step.want {
			t.Errorf("step %d: %v", i, !step.want)
		}
	}
}

// TestOf: a vocabulary that lacks one of the control tokens has another format.
func TestOf(t *testing.T) {
	for _, name := range names {
		if Of(words{lacks: name}) != nil {
			t.Errorf("without %s", name)
		}
	}
	f := Of(words{})
	if got := slices.Sorted(maps.Keys(f.names)); len(got) != 7 {
		t.Errorf("%v", got)
	}
	bytewise := func(text string) []int { return tokens(text) }
	opening := tokens("{channel}commentary to=functions.f {constrain}json{message}")
	if got := f.Calls("f", bytewise); !slices.Equal(got, opening) {
		t.Errorf("a call begins with %v", got)
	}
	if got := f.Stops([]int{7, f.ids[end], f.ids[call]}); !slices.Equal(got, []int{f.ids[done], f.ids[call], 7}) {
		t.Errorf("a turn ends with %v", got)
	}
	if got := f.Final(bytewise); !slices.Equal(got, tokens("{channel}final{message}")) {
		t.Errorf("an answer begins with %v", got)
	}
	if got := Plain(mark + start + "a"); got != start+"a" {
		t.Errorf("%q", got)
	}
}
