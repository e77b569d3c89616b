package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/harmony"
	"github.com/lowpack/lowpack/pack"
	conversation "github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// longestLine of standard input in a conversation, in bytes.
const longestLine = 1 << 20

// talk is a conversation with a model.
type talk struct {
	*session
	c        *cli.Context
	request  engine.Request
	messages []conversation.Message
	past     []int                              // tokens that the sequence holds, or held
	person   bool                               // a person reads and writes
	cancel   atomic.Pointer[context.CancelFunc] // ends the answer that is being generated

	last      engine.Result
	prefilled int // tokens before it

	harmony *harmony.Format // nil = the model does not write in channels
}

// chat holds a conversation: at a terminal by converse, elsewhere with each line of standard input as a user message.
// first is the first message, if any.
func (s *session) chat(c *cli.Context, r engine.Request, first string) error {
	if name := c.String("chat-template"); name != "" {
		if err := useTemplate(s.Tokenizer, name); err != nil {
			return err
		}
	}
	t := &talk{session: s, c: c, request: r, harmony: harmony.Of(s.Tokenizer)}
	if t.harmony != nil {
		t.request.StopTokens = t.harmony.Stops(r.StopTokens)
	}
	t.begin(c.String("system"))
	if isTerminal(c.App.Reader) && redraws(c.App.ErrWriter) {
		return t.converse(first)
	}
	return t.lines(first)
}

// stopped is the reason of an answer that Ctrl-C ended.
const stopped engine.Reason = "stopped"

// begin starts a new conversation.
func (t *talk) begin(system string) {
	t.messages = nil
	if system != "" {
		t.messages = append(t.messages, conversation.Message{Role: "system", Content: system})
	}
}

// lines answers each line of standard input, until its end.
func (t *talk) lines(first string) error {
	prompting := isTerminal(t.c.App.Reader)
	lines := bufio.NewScanner(t.c.App.Reader)
	lines.Buffer(nil, longestLine)
	if first != "" {
		if err := t.say(t.c.Context, first); err != nil {
			return err
		}
	}
	for {
		if prompting {
			fmt.Fprint(t.c.App.ErrWriter, "> ")
		}
		if !lines.Scan() {
			break
		}
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := t.say(t.c.Context, lines.Text()); err != nil {
			return err
		}
	}
	if prompting {
		fmt.Fprintln(t.c.App.ErrWriter)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return usagef("a line of standard input is longer than %d bytes", longestLine)
	} else {
		return filerr.Named("standard input", err)
	}
}

// say answers a user message. After an error the conversation is unchanged.
func (t *talk) say(ctx context.Context, text string) error {
	before := t.messages
	t.messages = append(slices.Clip(before), conversation.Message{Role: "user", Content: text})
	err := t.answer(ctx)
	if err != nil {
		t.messages = before
	}
	return filerr.Named(t.path, err)
}

// answer renders the conversation, computes the tokens that the sequence does not hold yet, and streams the reply.
func (t *talk) answer(ctx context.Context) error {
	all, err := t.tokens(t.messages)
	if err != nil {
		return err
	}
	keep := common(t.past[:min(len(t.past), t.seq.Len())], all)
	keep = min(keep, len(all)-1) // the last token must be computed, for its logits
	if keep < 0 {
		return fmt.Errorf("%w: the chat template gives an empty text", pack.ErrUnsupported)
	}
	if limit := t.Engine.Options().Context; len(all) >= limit {
		return fmt.Errorf("%w: the conversation has %d tokens, the context holds %d; "+
			"begin a new one, or use a larger --context", pack.ErrLimit, len(all), limit)
	}
	t.seq.Truncate(keep)
	t.past = all
	r := t.request
	r.History, r.Prompt = all[:keep], all[keep:]
	r.Decoder = t.decoder()
	reply, err := t.stream(ctx, r)
	if err != nil {
		return err
	}
	t.past, t.prefilled = append(all, t.last.Tokens...), len(r.Prompt)
	t.messages = append(t.messages, conversation.Message{Role: "assistant", Content: strings.TrimSpace(reply)})
	if isTerminal(besideResult(t.c)) && !t.c.Bool("no-stats") {
		paint(t.c.App.ErrWriter, dim, strings.Join(speeds(len(r.Prompt), t.last), "; ")+"\n")
	}
	return nil
}

// tokens returns the tokens of a conversation in which it is the model's turn.
func (t *talk) tokens(messages []conversation.Message) ([]int, error) {
	o := conversation.Options{AddGenerationPrompt: true}
	if t.think() == thinkOff {
		o.Vars = []byte(`{"enable_thinking": false}`)
	}
	return t.Tokenizer.ChatTokens(messages, o)
}

// stream generates a reply and shows it as it comes. A reply cut off by ctx counts as complete.
func (t *talk) stream(ctx context.Context, r engine.Request) (reply string, err error) {
	stop := t.spin(len(r.Prompt))
	defer stop()
	var said strings.Builder
	out := &writer{w: dataOf(t.c.App.Writer), ids: t.c.Bool("ids")}
	show := &parts{writer: out, thinking: t.splitter(), as: t.think(), screen: t.c.App.Writer, first: stop}
	t.last, err = t.generate(ctx, besideResult(t.c), r, func(p engine.Piece) bool {
		said.WriteString(p.Text)
		return show.piece(p) && ctx.Err() == nil
	})
	stop()
	show.end()
	if said.Len() > 0 && ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		t.last.Reason, err = stopped, nil
	}
	reply = said.String()
	if t.harmony != nil { // its chat template takes the answer alone
		s := t.splitter()
		_, reply = s.Add(said.String())
		_, rest := s.End()
		reply += rest
	}
	return reply, cmp.Or(err, out.err)
}

// useTemplate chooses a chat template: one of the model's own by its name, or the one in a file.
func useTemplate(t *tokenizer.Tokenizer, name string) error {
	if slices.Contains(t.ChatTemplates(), name) {
		return t.UseTemplate(name)
	}
	text, err := readSmall(name, maxWritten)
	if names := t.ChatTemplates(); errors.Is(err, fs.ErrNotExist) && len(names) > 0 {
		return fmt.Errorf("%w; the chat templates of the model are %s%s",
			err, strings.Join(names, ", "), didYouMean(name, names))
	}
	if err != nil {
		return err
	}
	return filerr.Named(name, t.SetTemplate(string(text)))
}

func common(a, b []int) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
