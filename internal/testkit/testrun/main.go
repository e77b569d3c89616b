// Testrun runs go test with its arguments and prints what go test prints, package by package as they end, with how many
// have ended and about how long the others take. When nothing ends for
// some seconds, it says what runs. At the end stand the reasons of skipped tests in one line, and each failed test with
// its output and the command that repeats it.
package main

import (
	"fmt"
	"os"
	"os/exec"
)

func main() {
	path := record()
	packages, listing := listed(os.Args[1:])
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		v := newView(os.Stdout, os.Args[1:])
		if listing == nil { // else go test says what is wrong
			v.plan = newPlan(packages, readSeconds(path))
		}
		err = v.show(events)
		if v.plan != nil {
			_ = writeSeconds(path, v.plan.seconds) // the next run guesses without it
		}
	}
	if e := cmd.Wait(); err == nil {
		err = e
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "go test:", err)
		os.Exit(1)
	}
}
