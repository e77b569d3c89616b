// Command list prints, for each folder, a pattern for -test.run: of its tests that wait, without those that standard
// input names, a folder and a test a line.
//
//	go run ./internal/testkit/waiting/list FOLDER... <.ci/busy.once
package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/testkit/waiting"
)

func main() {
	if err := list(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "list:", err)
		os.Exit(1)
	}
}

func list(folders []string) error {
	without := map[string]bool{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		without[lines.Text()] = true
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for _, folder := range folders {
		tests, err := waiting.Tests(".", folder)
		if err != nil {
			return err
		}
		maps.DeleteFunc(tests, func(test string, waits bool) bool { return !waits || without[folder+" "+test] })
		fmt.Printf("%s ^(%s)$\n", folder, strings.Join(slices.Sorted(maps.Keys(tests)), "|"))
	}
	return nil
}
