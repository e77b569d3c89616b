package main

import (
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// printFor prints the steps that the changes since a revision call for, those not yet committed among them.
func printFor(w io.Writer, all []step, since string) error {
	changed, err := git("diff", "--name-only", since)
	if err != nil {
		return err
	}
	added, err := git("ls-files", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for _, s := range all {
		if file := firstOf(s.paths, strings.Fields(changed+added)); file != "" {
			fmt.Fprintf(w, "%-16s %6s  %s\n", s.name, seconds(s.budget), file)
		}
	}
	return nil
}

// firstOf returns the first file that is one of the paths, or lies below it.
func firstOf(paths, files []string) string {
	for _, f := range files {
		if slices.ContainsFunc(paths, func(p string) bool {
			return p == "." || f == p || strings.HasPrefix(f, p+"/")
		}) {
			return f
		}
	}
	return ""
}

// revision names what is checked: the commit, and whether the files are unchanged since.
func revision() (name string, clean bool, err error) {
	commit, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", false, err
	}
	changes, err := git("status", "--porcelain")
	if changes != "" {
		return strings.TrimSpace(commit) + "+changes", false, err
	}
	return strings.TrimSpace(commit), true, err
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
