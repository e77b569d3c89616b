package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// folder writes scripts into a new folder .ci/steps/NAME, so that errors name the command as it is called.
func folder(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "some")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range scripts {
		err := os.WriteFile(filepath.Join(dir, name), []byte("#!/usr/bin/env bash\n# Tries.\n"+text), 0o777)
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// try runs the scripts, and returns what was printed, and the states by name.
func try(t *testing.T, c *check, dir string, resume bool) (string, map[string]string, error) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("the steps are scripts of bash: ", err)
	}
	steps, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	*c = check{w: &out, logs: c.logs, jobs: c.jobs, memory: c.memory, keep: true, interrupted: c.interrupted}
	if c.logs == "" {
		c.logs = t.TempDir()
	}
	err = c.run(steps, resume)
	states := map[string]string{}
	for _, r := range c.ended {
		states[r.name] = r.state
	}
	return out.String(), states, err
}

const header = "# budget: 9s\n# memory: 1G\n"

// TestSideBySide: two steps that wait for each other end only if both run.
func TestSideBySide(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	dir := folder(t, map[string]string{
		"one": header + "mkfifo " + pipe + " 2>/dev/null; echo x >" + pipe,
		"two": header + "mkfifo " + pipe + " 2>/dev/null; read x <" + pipe,
	})
	if out, _, err := try(t, &check{jobs: 2, memory: 2 << 30}, dir, false); err != nil {
		t.Error(out, err)
	}
}

// TestApart: steps that need more memory together than there is, and those that run alone, never meet; nor do more than
// jobs.
func TestApart(t *testing.T) {
	busy := filepath.Join(t.TempDir(), "busy")
	// mkdir is atomic: a step that meets another one fails
	meet := "mkdir " + busy + " && sleep 0.05 && rmdir " + busy
	for name, c := range map[string]struct {
		header string
		check  check
	}{
		"memory": {"# budget: 9s\n# memory: 2G\n", check{jobs: 8, memory: 3 << 30}},
		"alone":  {header + "# alone: yes\n", check{jobs: 8, memory: 99 << 30}},
		"jobs":   {header, check{jobs: 1, memory: 99 << 30}},
		"small":  {header, check{jobs: 8, memory: 1}},
	} {
		dir := folder(t, map[string]string{"a": c.header + meet, "b": c.header + meet, "c": c.header + meet})
		if out, _, err := try(t, &c.check, dir, false); err != nil {
			t.Error(name, out, err)
		}
	}
}

// TestOrder: a step begins when those before it have passed, and never when one has failed. The others run on, the log
// of the failed one is shown, and the error names both.
func TestOrder(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	dir := folder(t, map[string]string{
		"a-reads":  header + "# after: makes\ncat " + made,
		"makes":    header + "echo made >" + made,
		"fails":    header + "echo why it failed; exit 3",
		"behind":   header + "# after: fails\ntrue",
		"farther":  header + "# after: behind makes\ntrue",
		"at-rest":  header + "true",
		"over-one": "# budget: 1ns\n# memory: 1G\ntrue",
	})
	out, states, err := try(t, &check{jobs: 2, memory: 9 << 30}, dir, false)
	want := map[string]string{"a-reads": passed, "makes": passed, "fails": failed, "behind": notRun, "farther": notRun,
		"at-rest": passed, "over-one": passed}
	if fmt.Sprint(states) != fmt.Sprint(want) {
		t.Errorf("%v\n%v expected", states, want)
	}
	if err == nil || !strings.Contains(err.Error(), "fails") || !strings.Contains(err.Error(), "behind (not run)") {
		t.Error(err)
	}
	for _, part := range []string{"why it failed\n", "exit status 3\nto repeat the step: .ci/",
		"passed, over its budget"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in:\n%s", part, out)
		}
	}
}

// TestChains: a short step that a long one waits for begins before a longer one that nothing waits for.
func TestChains(t *testing.T) {
	dir := folder(t, map[string]string{
		"alone": "# budget: 8s\n# memory: 1G\ntrue",
		"first": "# budget: 1s\n# memory: 1G\ntrue",
		"next":  "# budget: 1s\n# memory: 1G\n# after: first\ntrue",
		"last":  "# budget: 9s\n# memory: 1G\n# after: next\ntrue",
	})
	out, _, err := try(t, &check{jobs: 1, memory: 9 << 30}, dir, false)
	var begun []string
	for _, m := range regexp.MustCompile(`begin +(\S+)`).FindAllStringSubmatch(out, -1) {
		begun = append(begun, m[1])
	}
	if want := []string{"first", "next", "last", "alone"}; err != nil || !slices.Equal(begun, want) {
		t.Errorf("%v; began %q, not %q:\n%s", err, begun, want, out)
	}
}

// TestInterrupted: what a step has started ends with it, and no other step begins.
func TestInterrupted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	dir := folder(t, map[string]string{
		"a": header + "(echo $BASHPID >" + pipe + "; exec sleep 1000) & wait",
		"b": "# budget: 8s\n# memory: 1G\ntrue",
	})
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Skip(err)
	}
	signals := make(chan os.Signal, 1)
	child := make(chan int, 1)
	go func() {
		text, _ := os.ReadFile(pipe)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		child <- pid
		signals <- os.Interrupt
	}()
	out, states, err := try(t, &check{jobs: 1, memory: 9 << 30, interrupted: signals}, dir, false)
	if err == nil || states["a"] != failed || states["b"] != notRun {
		t.Errorf("%v %v\n%s", err, states, out)
	}
	pid := <-child
	wait.For(t, fmt.Sprintf("process %d ends", pid), func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return err != nil || strings.Contains(string(status), "(zombie)")
	})
}

// TestResume: what has passed is left out, what has failed runs again.
func TestResume(t *testing.T) {
	work := t.TempDir()
	dir := folder(t, map[string]string{
		"once":  header + "mkdir " + work + "/once",
		"again": header + "mkdir " + work + "/again && exit 1; true",
		"after": header + "# after: once again\ntrue",
	})
	c := check{jobs: 2, memory: 9 << 30, logs: t.TempDir()}
	if _, _, err := try(t, &c, dir, true); err == nil {
		t.Error("passes")
	}
	_, states, err := try(t, &c, dir, true)
	if want := map[string]string{"once": resumed, "again": passed, "after": passed}; err != nil ||
		fmt.Sprint(states) != fmt.Sprint(want) {
		t.Errorf("%v %v, %v expected", err, states, want)
	}
}

// TestLast: the output of the last step comes after the table.
func TestLast(t *testing.T) {
	dir := folder(t, map[string]string{"a": header + "# last: yes\necho ok the package", "b": header + "echo hidden"})
	out, _, err := try(t, &check{jobs: 2, memory: 9 << 30}, dir, false)
	if err != nil || !strings.HasSuffix(out, "\nok the package\n") || strings.Contains(out, "hidden") {
		t.Error(out, err)
	}
}

// TestHeaders: headers that say too little, and orders that cannot be.
func TestHeaders(t *testing.T) {
	for name, text := range map[string]string{
		"no budget": "# memory: 1G\n",
		"no memory": "# budget: 1s\n",
		"no number": "# budget: soon\n# memory: 1G\n",
		"stranger":  header + "# after: nobody\n",
		"itself":    header + "# after: it\n",
	} {
		if _, err := read(folder(t, map[string]string{"it": text})); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	steps, err := read(folder(t, map[string]string{"a": header + "# for: x y/z\n# after: b\n", "b": header,
		"c": header}))
	if err != nil {
		t.Fatal(err)
	}
	if s := steps[0]; s.does != "Tries." || s.budget != 9*time.Second || s.memory != 1<<30 ||
		fmt.Sprint(s.paths) != "[x y/z]" {
		t.Errorf("%+v", s)
	}
	if chosen, err := choose(steps, []string{"a"}); err != nil || fmt.Sprint(namesOf(chosen)) != "[a b]" {
		t.Error(namesOf(chosen), err)
	}
	if _, err := choose(steps, []string{"nobody"}); err == nil {
		t.Error("an unknown name is accepted")
	}
	for file, want := range map[string]string{"x": "x", "y/z/file": "y/z/file", "xy": "", "y/zz": ""} {
		if got := firstOf(steps[0].paths, []string{"other", file}); got != want {
			t.Errorf("%s: %q", file, got)
		}
	}
}

// TestDescription: a description has all lines before the first key, also those with a colon; comments behind are none.
func TestDescription(t *testing.T) {
	dir := folder(t, map[string]string{
		"a": "# More of it: on a\n# third line.\n" + header + "# A reason.\n# alone: yes\n"})
	steps, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s := steps[0]; s.does != "Tries. More of it: on a third line." || !s.alone {
		t.Errorf("%+v", s)
	}
}

// TestContributing: the table of CONTRIBUTING.md matches the headers of .ci/steps/deep, and their paths exist.
func TestContributing(t *testing.T) {
	root := filepath.Dir(shared.Testdata(t, ""))
	steps, err := read(filepath.Join(root, ".ci", "steps", "deep"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		row := fmt.Sprintf("| `%s` | %s | %s |\n", s.name, s.does, "`"+strings.Join(s.paths, "`, `")+"`")
		if len(s.paths) > 0 && !strings.Contains(string(text), row) {
			t.Errorf("CONTRIBUTING.md lacks the row\n%s", row)
		}
		for _, p := range s.paths {
			if _, err := os.Stat(filepath.Join(root, p)); err != nil {
				t.Errorf("%s: %v", s.path, err)
			}
		}
	}
	names := namesOf(steps)
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "`"); strings.HasPrefix(line, "| `") && !slices.Contains(names, cells[1]) {
			t.Errorf("CONTRIBUTING.md has a row for %s, which is no step", cells[1])
		}
	}
}
