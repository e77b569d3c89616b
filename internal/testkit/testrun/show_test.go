package main

import (
	"os"
	"strings"
	"testing"
)

// TestShow shows what go test told of packages that pass, skip, fail, panic, exit, do not compile and have no tests.
func TestShow(t *testing.T) {
	events, err := os.Open("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	want, err := os.ReadFile("testdata/want.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := show(events, &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("printed:\n%s\nwant:\n%s", got.String(), want)
	}
}
