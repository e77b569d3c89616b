package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// longestLine of standard input in a conversation, in bytes.
const longestLine = 1 << 20

// chat holds a conversation: first, if there is one, and then each line of standard input is a message of the user. It
// ends with the input.
func (s *session) chat(c *cli.Context, r engine.Request, first string) error {
	if name := c.String("chat-template"); name != "" {
		if err := useTemplate(s.Tokenizer, name); err != nil {
			return err
		}
	}
	var messages []tokenizer.Message
	if text := c.String("system"); text != "" {
		messages = append(messages, tokenizer.Message{Role: "system", Content: text})
	}
	prompting := isTerminal(c.App.Reader)
	lines := bufio.NewScanner(c.App.Reader)
	lines.Buffer(nil, longestLine)
	var past []int // tokens of the sequence
	say := func(text string) error {
		messages = append(messages, tokenizer.Message{Role: "user", Content: text})
		answer, tokens, err := s.answer(c, r, messages, past)
		if err != nil {
			return filerr.Named(s.path, err)
		}
		messages = append(messages, tokenizer.Message{Role: "assistant", Content: answer})
		past = tokens
		return nil
	}
	if first != "" {
		if err := say(first); err != nil {
			return err
		}
	}
	for {
		if prompting {
			fmt.Fprint(c.App.ErrWriter, "> ")
		}
		if !lines.Scan() {
			break
		}
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := say(lines.Text()); err != nil {
			return err
		}
	}
	if prompting {
		fmt.Fprintln(c.App.ErrWriter)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return usagef("a line of standard input is longer than %d bytes", longestLine)
	} else {
		return filerr.Named("standard input", err)
	}
}

// answer renders the conversation, computes what the sequence does not hold yet and streams the reply.
func (s *session) answer(c *cli.Context, r engine.Request, messages []tokenizer.Message, past []int) (string, []int, error) {
	all, err := s.Tokenizer.ChatTokens(messages, tokenizer.ChatOptions{AddGenerationPrompt: true})
	if err != nil {
		return "", nil, err
	}
	keep := common(past[:min(len(past), s.seq.Len())], all)
	keep = min(keep, len(all)-1) // the last token must be computed, for its logits
	if keep < 0 {
		return "", nil, fmt.Errorf("%w: the chat template gives an empty text", pack.ErrUnsupported)
	}
	if limit := s.Engine.Options().Context; len(all) >= limit {
		return "", nil, fmt.Errorf("%w: the conversation has %d tokens, the context holds %d; begin a new one, or use a larger --context", pack.ErrLimit, len(all), limit)
	}
	s.seq.Truncate(keep)
	r.History, r.Prompt = all[:keep], all[keep:]
	r.Decoder = s.Tokenizer.NewStream(true)
	out := &writer{w: dataOf(c.App.Writer), ids: c.Bool("ids")}
	var reply strings.Builder
	result, err := s.generate(c, r, func(p engine.Piece) bool {
		reply.WriteString(p.Text)
		return out.piece(p)
	})
	out.end()
	if err == nil {
		err = out.err
	}
	if err == nil && isTerminal(c.App.ErrWriter) {
		paint(c.App.ErrWriter, dim, strings.Join(speeds(len(r.Prompt), result), "; ")+"\n")
	}
	return strings.TrimSpace(reply.String()), append(all, result.Tokens...), err
}

// useTemplate chooses a chat template: one of the model's own by its name, or the one in a file.
func useTemplate(t *tokenizer.Tokenizer, name string) error {
	if slices.Contains(t.ChatTemplates(), name) {
		return t.UseTemplate(name)
	}
	text, err := readSmall(name, maxWritten)
	if names := t.ChatTemplates(); errors.Is(err, fs.ErrNotExist) && len(names) > 0 {
		return fmt.Errorf("%w; the chat templates of the model are %s%s", err, strings.Join(names, ", "), didYouMean(name, names))
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
