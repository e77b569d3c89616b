package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one change of one file that tests must notice.
type mutant struct {
	file     string   // that is changed, relative to the module
	test     []string // package whose tests must fail, and flags of its test binary
	what     string   // is wrong with the mutant
	old, new string   // text of the file, which stands there once
	at       string   // place in the list
}

// readList reads the lists of a folder. A list is lines:
//
//	# comment
//	file PATH             the file that the mutants below change
//	test PACKAGE [FLAGS]  the tests that must notice it: a folder, and flags such as -test.run=^TestPool$
//	mutant WHAT           begins a mutant
//	- OLD                 a line of the text that it replaces; the first and the last one may be parts of lines
//	+ NEW                 a line of the text in its place; none = the old text is removed
func readList(folder string) ([]mutant, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		list, err := parse(filepath.Base(name), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no mutants", folder)
	}
	return all, nil
}

func parse(name, text string) ([]mutant, error) {
	var list []mutant
	var next mutant // what holds for mutants to come
	for i, line := range strings.Split(text, "\n") {
		next.at = fmt.Sprintf("%s:%d", name, i+1)
		key, value, _ := strings.Cut(line, " ")
		switch {
		case key == "" || strings.HasPrefix(key, "#"):
		case key == "file":
			next.file, next.test = value, nil
		case key == "test":
			next.test = strings.Fields(value)
		case key == "mutant" && next.file != "" && len(next.test) > 0:
			list = append(list, next)
			list[len(list)-1].what = value
		case key == "-" && len(list) > 0:
			list[len(list)-1].old += value + "\n"
		case key == "+" && len(list) > 0:
			list[len(list)-1].new += value + "\n"
		default:
			return nil, fmt.Errorf("%s: %q: want file, test, mutant (after both), - or +", next.at, line)
		}
	}
	for i := range list {
		list[i].old = strings.TrimSuffix(list[i].old, "\n")
		list[i].new = strings.TrimSuffix(list[i].new, "\n")
	}
	return list, nil
}

// apply returns the text of the file with the change.
func (m *mutant) apply(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.at, err)
	}
	if n := strings.Count(string(b), m.old); m.old == "" || n != 1 {
		return "", fmt.Errorf("%s: %s holds the old text %d times, not once: %q", m.at, m.file, n, m.old)
	}
	if m.old == m.new {
		return "", fmt.Errorf("%s: nothing is changed", m.at)
	}
	return strings.Replace(string(b), m.old, m.new, 1), nil
}
