package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/hub"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/internal/version"
)

func rmCommand() *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "remove models from the caches",
		ArgsUsage: "MODEL...",
		UsageText: "lowpack rm MODEL... [--yes]",
		Description: `MODEL is a name that lowpack list shows: a packed file in the cache, a model that was downloaded, or what an
interrupted download has left. Where both have the name, only the latter is removed, and the complete model stays. Other
files are not removed, and neither is what links lead to out of a cache. On Linux a model that a process of the same
user has open is refused. On a terminal rm asks first; scripts need --yes. The last line says how many bytes became
free.

  lowpack rm bitnet-b1.58-2B-4T
  lowpack rm microsoft/bitnet-b1.58-2B-4T --yes`,
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"}},
		Action: runRemove,
	}
}

func runRemove(c *cli.Context) error {
	if c.NArg() == 0 {
		return wantArgs(c, 1, "the names of models, which lowpack list shows")
	}
	chosen, err := chooseModels(c.Args().Slice())
	if err != nil {
		return err
	}
	for _, l := range chosen {
		if err := unused(l); err != nil {
			return err
		}
		if l.left != nil && l.left.beside {
			note(c, fmt.Sprintf("%s: this removes what an interrupted download has left; the complete model stays: "+
				"lowpack rm %s once more removes it", printable.Line(l.name), shellWord(l.name)))
		}
	}
	if !c.Bool("yes") {
		if yes, err := confirm(c, chosen); err != nil {
			return err
		} else if !yes {
			note(c, "nothing was removed")
			return nil
		}
	}
	var all int64
	for _, l := range chosen {
		freed, err := l.remove()
		all += freed
		if err != nil {
			return fmt.Errorf("%w (%s are free so far)", err, size(all))
		}
	}
	_, err = fmt.Fprintf(c.App.Writer, "removed %s: %d bytes (%s) are free\n",
		countChosen(chosen), all, size(all))
	return err
}

// chooseModels finds models of the caches by name, each once.
func chooseModels(names []string) (chosen []*local, err error) {
	list, err := modelsAtHand()
	if err != nil {
		return nil, err
	}
	left, err := unfinishedAtHand()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		found, err := chooseModel(list, left, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(chosen, found) {
			chosen = append(chosen, found)
		}
	}
	return chosen, nil
}

// chooseModel finds a model by name. What is unfinished goes before the complete model of the same name, which may be
// the only copy. A name that means an unfinished and a complete model of different names is refused.
func chooseModel(list, left []local, name string) (*local, error) {
	l, hint, err := named(list, name)
	if err != nil {
		return nil, err
	}
	rest, hintLeft, err := named(left, name)
	if err != nil {
		return nil, err
	}
	switch {
	case l != nil && rest != nil && l.name != rest.name:
		return nil, ambiguous(name, l.name, rest.name)
	case rest != nil:
		rest.left.beside = l != nil
		return rest, nil
	case l != nil:
		return l, nil
	}
	if _, err := os.Lstat(name); err == nil {
		return nil, usagef("%s is a file or folder; lowpack rm removes models of the caches, which lowpack list shows",
			name)
	}
	return nil, fmt.Errorf("there is no model %s in the caches%s; lowpack list shows them", name,
		cmp.Or(hint, hintLeft))
}

// countChosen counts complete models and what is unfinished.
func countChosen(chosen []*local) string {
	left := 0
	for _, l := range chosen {
		if l.left != nil {
			left++
		}
	}
	unfinished := counted(left, "unfinished download")
	switch whole := len(chosen) - left; {
	case left == 0:
		return counted(whole, "model")
	case whole == 0:
		return unfinished
	default:
		return counted(whole, "model") + " and " + unfinished
	}
}

// unused refuses a model that a process has open.
func unused(l *local) error {
	if pids := usersOf(l.files()); len(pids) > 0 {
		return fmt.Errorf("%s is in use by process %s; end it first", l.name, strings.Join(pids, ", "))
	}
	return nil
}

// confirm asks the user whether to remove models.
func confirm(c *cli.Context, chosen []*local) (bool, error) {
	if !isTerminal(c.App.Reader) {
		return false, usagef("rm asks on a terminal, which standard input is not; --yes removes without that")
	}
	for _, l := range chosen {
		row, _ := describe(l)
		fmt.Fprintf(c.App.ErrWriter, "%s  %s  %s\n", printable.Line(l.name), size(row.Bytes), printable.Line(l.path))
	}
	fmt.Fprintf(c.App.ErrWriter, "Remove %s? [y/N] ", countChosen(chosen))
	line, err := bufio.NewReader(io.LimitReader(c.App.Reader, longestLine)).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// remove removes a model and returns the number of bytes freed: 0 for a link.
func (l *local) remove() (freed int64, err error) {
	if l.left != nil {
		return l.left.remove()
	}
	if l.hub != nil {
		client, err := hub.FromEnvironment(version.Tool)
		if err != nil {
			return 0, err
		}
		return client.Remove(l.hub)
	}
	folder, err := os.OpenRoot(filepath.Dir(l.path))
	if err != nil {
		return 0, err
	}
	defer folder.Close()
	info, err := folder.Lstat(filepath.Base(l.path))
	if err != nil {
		return 0, err
	}
	if info.Mode().IsRegular() {
		freed = info.Size()
	}
	if err := folder.Remove(filepath.Base(l.path)); err != nil {
		return 0, err
	}
	beside := filepath.Base(signatureOf(l.path)) // that pull may have put there
	if info, err := folder.Lstat(beside); err == nil && info.Mode().IsRegular() && folder.Remove(beside) == nil {
		freed += info.Size()
	}
	return freed, nil
}
