package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// step is a script and what its header says.
type step struct {
	name   string
	path   string
	does   string // a sentence or more, in lines before the first key
	budget time.Duration
	memory int64 // bytes
	after  []string
	paths  []string // whose change calls for it
	alone  bool
	last   bool
}

// read reads the steps of a folder, by name.
func read(dir string) ([]step, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []step
	for _, e := range entries {
		s, err := readStep(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, ordered(list)
}

func readStep(path string) (step, error) {
	s := step{name: filepath.Base(path), path: path}
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	_, header, _ := strings.Cut(string(text), "\n") // without the line of the interpreter
	described := false
	for line := range strings.Lines(header) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if !ok {
			break
		}
		switch key, err := s.take(line); {
		case err != nil:
			return s, fmt.Errorf("%s: %w", path, err)
		case key:
			described = true
		case !described:
			s.does = strings.TrimSpace(s.does + " " + line)
		}
	}
	if s.budget <= 0 || s.memory <= 0 || s.does == "" {
		return s, fmt.Errorf("%s: the header must say what the step does, and its budget and memory", path)
	}
	return s, nil
}

// take reads a line of the header, and reports whether it begins with a key.
func (s *step) take(line string) (key bool, err error) {
	word, value, _ := strings.Cut(line, ": ")
	switch word {
	case "budget":
		s.budget, err = time.ParseDuration(value)
	case "memory":
		var n int64
		n, err = strconv.ParseInt(strings.TrimSuffix(value, "G"), 10, 32)
		s.memory = n << 30
	case "after":
		s.after = strings.Fields(value)
	case "for":
		s.paths = append(s.paths, strings.Fields(value)...)
	case "alone":
		s.alone = value == "yes"
	case "last":
		s.last = value == "yes"
	default:
		return false, nil
	}
	return true, err
}

// ordered reports a step that comes after one that is absent, or after itself.
func ordered(list []step) error {
	done := map[string]bool{}
	for range list {
		for _, s := range list {
			done[s.name] = done[s.name] || !slices.ContainsFunc(s.after, func(name string) bool { return !done[name] })
		}
	}
	for _, s := range list {
		if !done[s.name] {
			return fmt.Errorf("%s: can never begin: its header says after %s", s.path, strings.Join(s.after, " "))
		}
	}
	return nil
}

// choose returns the steps of these names and those that they come after; without names all.
func choose(all []step, names []string) ([]step, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []step
	wanted := slices.Clone(names)
	for i := 0; i < len(wanted); i++ { // grows
		at := slices.IndexFunc(all, func(s step) bool { return s.name == wanted[i] })
		if at < 0 {
			return nil, fmt.Errorf("no step %s; there are %s", wanted[i], strings.Join(namesOf(all), ", "))
		}
		if !slices.Contains(wanted[:i], wanted[i]) {
			chosen = append(chosen, all[at])
			wanted = append(wanted, all[at].after...)
		}
	}
	return chosen, nil
}

func namesOf(list []step) []string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.name
	}
	return names
}
