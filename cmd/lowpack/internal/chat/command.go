package chat

import (
	"path/filepath"
	"slices"
	"strings"
)

// Command is a word that begins with a slash.
type Command struct {
	Name  string
	Args  string // as in help
	Usage string
}

// Commands of a conversation, in the order of help.
func Commands() []Command {
	return []Command{
		{"/help", "", "show this list"},
		{"/clear", "", "forget the conversation"},
		{"/system", "[TEXT]", "begin anew with the system message TEXT; without TEXT, show it"},
		{"/set", "[NAME VALUE]", "change a setting; without one, show all"},
		{"/regenerate", "", "answer the last message again"},
		{"/save", "FILE", "write the conversation to FILE (JSON)"},
		{"/load", "FILE", "go on with the conversation in FILE"},
		{"/stats", "", "show how much of the context is used, and speeds"},
		{"/bye", "", "leave, as Ctrl-D does"},
	}
}

// CutCommand divides a message that is a command.
func CutCommand(message string) (name, args string, is bool) {
	if !strings.HasPrefix(message, "/") || strings.Contains(message, "\n") {
		return "", "", false
	}
	name, args, _ = strings.Cut(message, " ")
	return name, strings.TrimSpace(args), true
}

// Completion completes commands, the names of settings, and the names of files.
func Completion(settings []string) func(line string) string {
	var names []string
	for _, c := range Commands() {
		names = append(names, c.Name)
	}
	return func(line string) string {
		name, args, is := strings.Cut(line, " ")
		switch {
		case !strings.HasPrefix(line, "/"):
			return line
		case !is:
			return extend(line, names)
		case name == "/set" && !strings.Contains(args, " "):
			return name + " " + extend(args, settings)
		case name == "/load" || name == "/save":
			files, err := filepath.Glob(args + "*") // a pattern that is none has no files
			if err != nil {
				return line
			}
			return name + " " + extend(args, files)
		}
		return line
	}
}

// extend returns the longest common prefix of all words with this beginning, and a space after a single word.
func extend(begin string, words []string) string {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, begin) })
	if len(words) == 0 {
		return begin
	}
	if len(words) == 1 {
		return words[0] + " "
	}
	common := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, common) {
			common = common[:len(common)-1]
		}
	}
	return common
}
