package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/chat"
	"github.com/lowpack/lowpack/pack"
	conversation "github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/engine"
)

// errBye ends a conversation.
var errBye = errors.New("bye")

// converse holds a conversation at a terminal. It reports the error of a message, and reads the next one.
func (t *talk) converse(first string) error {
	t.person = true
	if !t.c.IsSet("tokens") {
		t.request.MaxTokens = 0 // until the context is full
	}
	history, err := chat.OpenHistory(historyFile())
	if err != nil {
		t.tell("history: %v", err)
	}
	var names []string
	for _, s := range t.settings() {
		names = append(names, s.name)
	}
	editor := chat.NewEditor(fileOf(t.c.App.Reader), drawing(t.c.App.ErrWriter), history, chat.Completion(names))
	t.tell("/help lists commands; Ctrl-C stops an answer, Ctrl-D leaves")
	defer t.ownInterrupt()()
	err = t.turns(editor, first)
	if saved := history.Save(); saved != nil && err == nil {
		t.tell("history: %v", saved)
	}
	return err
}

// ownInterrupt lets Ctrl-C stop the answer that is being generated, until end is called. At the prompt Ctrl-C is a key;
// in between, it is a signal and is ignored.
func (t *talk) ownInterrupt() (end func()) {
	return onInterrupt(t.c.Context, func() {
		if cancel := t.cancel.Load(); cancel != nil {
			(*cancel)()
		}
	})
}

func (t *talk) turns(editor *chat.Editor, message string) error {
	leaving := false
	for {
		if strings.TrimSpace(message) != "" {
			switch err := t.turn(message); {
			case err == errBye:
				return nil
			case interrupted(t.c.Context) != nil:
				return err
			case err != nil:
				paint(t.c.App.ErrWriter, red, err.Error()+"\n")
			}
		}
		var err error
		switch message, err = editor.Message(); {
		case errors.Is(err, chat.ErrInterrupt) && leaving, errors.Is(err, io.EOF):
			fmt.Fprintln(t.c.App.ErrWriter)
			return nil
		case errors.Is(err, chat.ErrInterrupt):
			t.tell("Ctrl-C again, or Ctrl-D, leaves")
			leaving = true
		case err != nil:
			return err
		default:
			leaving = false
		}
	}
}

// turn executes a command, or answers a message. Ctrl-C stops the answer.
func (t *talk) turn(message string) error {
	if name, args, is := chat.CutCommand(message); is {
		return t.command(name, args)
	}
	return t.answering(func(ctx context.Context) error {
		if err := t.makeRoom(message); err != nil {
			return err
		}
		return t.say(ctx, message)
	})
}

// answering lets Ctrl-C stop do, and nothing else.
func (t *talk) answering(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(t.c.Context)
	defer cancel()
	t.cancel.Store(&cancel)
	defer t.cancel.Store(nil)
	err := do(ctx)
	switch {
	case errors.Is(err, context.Canceled):
		t.tell("stopped before the answer; the message is not part of the conversation")
		return nil
	case err == nil && t.last.Reason == engine.EndContext:
		t.tell("the context is full: the answer ends here, and the oldest turns leave with the next message")
	}
	return err
}

// roomPart is the part of the context that an answer finds free, at least.
const roomPart = 4

// makeRoom drops the oldest turns if the context has too little room for a message and its answer.
func (t *talk) makeRoom(message string) error {
	limit := t.Engine.Options().Context
	before := t.messages
	for {
		all, err := t.tokens(append(before[:len(before):len(before)],
			conversation.Message{Role: "user", Content: message}))
		if err != nil {
			return err
		}
		begin := 0
		for begin < len(before) && before[begin].Role == "system" {
			begin++
		}
		if len(all) <= limit-limit/roomPart || begin+2 > len(before) {
			break
		}
		before = append(before[:begin:begin], before[begin+2:]...)
	}
	if gone := (len(t.messages) - len(before)) / 2; gone > 0 {
		t.tell("the context holds %d tokens: the oldest %s left the conversation", limit, counted(gone, "turn"))
	}
	t.messages = before
	return nil
}

// tell prints a notice that is not part of the conversation.
func (t *talk) tell(format string, args ...any) {
	paint(t.c.App.ErrWriter, dim, fmt.Sprintf(format, args...)+"\n")
}

func (t *talk) command(name, args string) error {
	switch name {
	case "/help":
		t.help()
	case "/clear":
		t.begin(t.system())
	case "/system":
		if args == "" {
			t.tell("system message: %q", t.system())
			return nil
		}
		t.begin(args)
		t.tell("a new conversation begins")
	case "/set":
		return t.set(args)
	case "/regenerate":
		return t.regenerate()
	case "/save":
		return t.save(args)
	case "/load":
		return t.loadFrom(args)
	case "/stats":
		t.stats()
	case "/bye", "/exit", "/quit":
		return errBye
	default:
		var names []string
		for _, c := range chat.Commands() {
			names = append(names, c.Name)
		}
		return usagef("no command %s%s; /help lists them", name, didYouMean(name, names))
	}
	return nil
}

func (t *talk) help() {
	var rows [][]string
	for _, c := range chat.Commands() {
		rows = append(rows, []string{strings.TrimSpace(c.Name + " " + c.Args), c.Usage})
	}
	rows = append(rows, []string{`"""`, `begins and ends a message of several lines`},
		[]string{"Tab", "completes commands, settings and files"},
		[]string{"Ctrl-C", "stops an answer; twice at the prompt, leaves"})
	table(t.c.App.ErrWriter, nil, rows)
}

func (t *talk) system() string {
	if len(t.messages) > 0 && t.messages[0].Role == "system" {
		return t.messages[0].Content
	}
	return ""
}

// setting is a setting that /set changes.
type setting struct {
	name string
	show func() string
	set  func(value string) error
}

func (t *talk) settings() []setting {
	r := &t.request
	float := func(name string, v *float32) setting {
		return setting{name, func() string { return strconv.FormatFloat(float64(*v), 'g', -1, 32) },
			func(value string) error {
				f, err := strconv.ParseFloat(value, 32)
				*v = float32(f)
				return err
			}}
	}
	whole := func(name string, v *int) setting {
		return setting{name, func() string { return strconv.Itoa(*v) }, func(value string) (err error) {
			*v, err = strconv.Atoi(value)
			return err
		}}
	}
	return []setting{
		float("temperature", &r.Sampling.Temperature),
		whole("top-k", &r.Sampling.TopK),
		float("top-p", &r.Sampling.TopP),
		float("min-p", &r.Sampling.MinP),
		float("repetition-penalty", &r.Sampling.RepetitionPenalty),
		{"seed", func() string { return strconv.FormatUint(r.Sampling.Seed, 10) }, func(value string) (err error) {
			r.Sampling.Seed, err = strconv.ParseUint(value, 10, 64)
			return err
		}},
		whole("tokens", &r.MaxTokens),
		{"think", t.think, func(value string) error {
			if !slices.Contains(thinkWords, value) {
				return fmt.Errorf("must be one of %s", strings.Join(thinkWords, ", "))
			}
			return t.c.Set("think", value)
		}},
	}
}

// set changes a setting, or shows all. An invalid value changes nothing.
func (t *talk) set(args string) error {
	name, value, _ := strings.Cut(args, " ")
	name = strings.ReplaceAll(name, "_", "-")
	var names []string
	var rows [][]string
	for _, s := range t.settings() {
		names = append(names, s.name)
		rows = append(rows, []string{s.name, s.show()})
		if s.name != name {
			continue
		}
		before := t.request
		err := s.set(strings.TrimSpace(value))
		if err == nil {
			err = t.request.Sampling.Check()
		}
		if err == nil && t.request.MaxTokens < 0 {
			err = errors.New("must be 0 (until the context is full) or more")
		}
		if err != nil {
			t.request = before
			return usagef("/set %s %s: %v", name, value, err)
		}
		t.tell("%s is %s", s.name, s.show())
		return nil
	}
	if args != "" {
		return usagef("no setting %s%s; /set shows all", name, didYouMean(name, names))
	}
	table(t.c.App.ErrWriter, nil, rows)
	return nil
}

// regenerate answers the last message again, with another seed: the same one would give the same answer.
func (t *talk) regenerate() error {
	n := len(t.messages)
	if n < 2 || t.messages[n-1].Role != "assistant" {
		return usagef("there is no answer yet")
	}
	before, last := t.messages, t.messages[n-2].Content
	t.messages = t.messages[:n-2]
	if t.request.Sampling.Seed++; t.request.Sampling.Temperature == 0 {
		t.tell("the temperature is 0, which gives the same answer again; /set temperature 0.7 lets it vary")
	}
	err := t.answering(func(ctx context.Context) error { return t.say(ctx, last) })
	if len(t.messages) < n {
		t.messages = before
	}
	return err
}

func (t *talk) stats() {
	all, err := t.tokens(t.messages)
	if err != nil {
		all = t.past
	}
	t.tell("%s, %d of %d tokens of the context", counted(len(t.messages), "message"), len(all),
		t.Engine.Options().Context)
	if t.last.Reason != "" {
		t.tell("last answer: %s", strings.Join(speeds(t.prefilled, t.last), "; "))
	}
}

// saved is the file of a conversation.
type saved struct {
	Format   string     `json:"lowpack_chat"` // "1"
	Model    string     `json:"model"`
	Messages []turnText `json:"messages"`
}

type turnText struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

const savedFormat = "1"

// readSaved reads the file of a conversation.
func readSaved(path string) (*saved, error) {
	text, err := readSmall(path, maxText)
	if err != nil {
		return nil, err
	}
	s := &saved{}
	if err := json.Unmarshal(text, s); err != nil || s.Format != savedFormat {
		return nil, fmt.Errorf("%w: %s is not a conversation that /save wrote", pack.ErrUnsupported, path)
	}
	for _, m := range s.Messages {
		if m.Role != "system" && m.Role != "user" && m.Role != "assistant" {
			return nil, fmt.Errorf("%w: %s: a message of role %q", pack.ErrUnsupported, path, m.Role)
		}
	}
	return s, nil
}

// save writes the conversation. It replaces only a file that is a saved conversation.
func (t *talk) save(path string) error {
	if path == "" {
		return usagef("/save needs a FILE")
	}
	if _, err := os.Lstat(path); err == nil {
		if _, err := readSaved(path); err != nil {
			return fmt.Errorf("%w; it is not overwritten", err)
		}
	}
	s := saved{Format: savedFormat, Model: filepath.Base(t.path)}
	for _, m := range t.messages {
		s.Messages = append(s.Messages, turnText{m.Role, m.Content})
	}
	if err := writeFile(path, func(w io.Writer) error { return printJSON(w, s) }); err != nil {
		return err
	}
	t.tell("%s in %s", counted(len(s.Messages), "message"), path)
	return nil
}

func (t *talk) loadFrom(path string) error {
	if path == "" {
		return usagef("/load needs a FILE")
	}
	s, err := readSaved(path)
	if err != nil {
		return err
	}
	t.messages = nil
	for _, m := range s.Messages {
		t.messages = append(t.messages, conversation.Message{Role: m.Role, Content: m.Content})
	}
	t.tell("%s of %s", counted(len(t.messages), "message"), path)
	return nil
}

// historyFile returns the path of the message history, "" if there is no place for it.
func historyFile() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "lowpack", "chat-history")
}

// frames of the spinner.
var frames = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// spin shows that a model is working until stop is called. A long prefill has its own bar.
func (t *talk) spin(prompt int) (stop func()) {
	if !t.person || prompt > t.Engine.Options().Batch {
		return func() {}
	}
	screen := drawing(t.c.App.ErrWriter)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
				fmt.Fprintf(screen, "\r%s", frames[i%len(frames)])
			case <-end:
				fmt.Fprint(screen, "\r \r")
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}
