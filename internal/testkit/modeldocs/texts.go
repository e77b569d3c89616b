package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/internal/testkit/texts"
)

// reading is what tests have compared of the published tokenizers and chat templates of a family.
type reading struct {
	texts, conversations int
	tools                []string // forms of calls, sorted
}

// readings adds up what is recorded of all tests, by family.
func readings(path string) (map[string]reading, error) {
	tests, err := texts.Read(path)
	if err != nil {
		return nil, err
	}
	all := map[string]reading{}
	for _, test := range slices.Sorted(maps.Keys(tests)) {
		for _, r := range tests[test] {
			sum := all[r.Family]
			sum.texts, sum.conversations = sum.texts+r.Texts, sum.conversations+r.Conversations
			if r.Tools != "" {
				sum.tools = append(sum.tools, r.Tools)
			}
			all[r.Family] = sum
		}
	}
	for family, r := range all {
		slices.Sort(r.tools)
		r.tools = slices.Compact(r.tools)
		all[family] = r
	}
	return all, nil
}

// cells are those of the table: numbers of texts and of conversations, and forms of calls.
func (r reading) cells() string {
	tools := "–"
	for i, form := range r.tools {
		if form != "none" {
			form = code([]string{form})
		}
		if i == 0 {
			tools = form
		} else {
			tools += ", " + form
		}
	}
	return strings.Join([]string{count(r.texts), count(r.conversations), tools}, " | ")
}

// count is a number, – for none.
func count(n int) string {
	if n == 0 {
		return "–"
	}
	return strconv.Itoa(n)
}
