package chat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHistory: messages of several lines are restored, repeated and very long ones are not kept, the oldest are
// dropped, only the owner can access the file, and invalid entries are skipped.
func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "history")
	h, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for range maxEntries {
		h.Add("old")
		h.Add("older")
	}
	for _, message := range []string{"one\ntwo", "one\ntwo", " ", strings.Repeat("x", maxEntry+1), "three"} {
		h.Add(message)
	}
	if err := h.Save(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "no JSON\n\"cut"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err = OpenHistory(path); err != nil || len(h.entries) != maxEntries || h.entries[maxEntries-1] != "three" ||
		h.entries[maxEntries-2] != "one\ntwo" {
		t.Fatalf("%d entries, %q, %v", len(h.entries), h.entries[max(0, len(h.entries)-2):], err)
	}
	if s := (shown{h}); s.At(1) != "one two" || s.Len() != maxEntries {
		t.Errorf("%q", s.At(1))
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// TestCompletion: the common prefix of all words is added, and a space after a single word.
func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"talk-one.json", "talk-two.json"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	complete := Completion([]string{"temperature", "top-k", "top-p"})
	for line, want := range map[string]string{
		"/he": "/help ", "/s": "/s", "/sy": "/system ", "/zzz": "/zzz", "hello": "hello", "": "",
		"/set te": "/set temperature ", "/set top": "/set top-", "/set te 1": "/set te 1",
		"/load ta": "/load talk-", "/save talk-t": "/save talk-two.json ", "/load [": "/load [",
	} {
		if got := complete(line); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}

// TestCutCommand: a command is one line that begins with a slash.
func TestCutCommand(t *testing.T) {
	for message, want := range map[string]string{"/set a 1": "/set|a 1", "/bye": "/bye|", "1/2": "", "/a\nb": ""} {
		name, args, is := CutCommand(message)
		if got := name + "|" + args; is != (want != "") || is && got != want {
			t.Errorf("%q: %q", message, got)
		}
	}
}
