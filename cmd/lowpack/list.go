package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/pack"
)

func listCommand() *cli.Command {
	return &cli.Command{
		Name:      "list",
		Usage:     "list the models at hand",
		ArgsUsage: "[DIR]",
		UsageText: "lowpack list [DIR] [--json]",
		Description: `The models of the caches: packed files that run and serve made, and checkpoints that were downloaded from the
hub. Every command that takes a packed file takes the name of one too, also without the key of 16 characters at its end;
run, serve, eval, convert, inspect and tokenize take those of checkpoints. A file or folder of the same name goes first.
With DIR, the models in that folder. Headers and small files are read, no weights.

Models of the hub that lowpack cannot use are left out; --verbose lists them with the reason. Below the table stands
what interrupted downloads and conversions have left, with its size, what continues it and what removes it.

  lowpack list
  lowpack list ~/models --json
  lowpack run bitnet-b1.58-2B-4T       # a name of the list`,
		Flags:  []cli.Flag{jsonFlag()},
		Action: runList,
	}
}

// listed is an element of the output of lowpack list --json.
type listed struct {
	Name       string    `json:"name"`
	Kind       string    `json:"kind,omitempty"` // "packed file" or "checkpoint"
	Path       string    `json:"path"`
	Family     string    `json:"family,omitempty"`
	Parameters int64     `json:"parameters,omitempty"`
	Weights    string    `json:"weights,omitempty"` // predominant storage format
	Bits       float64   `json:"bits_per_weight,omitempty"`
	Bytes      int64     `json:"bytes"`
	Modified   time.Time `json:"modified"`
	Error      string    `json:"error,omitempty"`
	Unfinished string    `json:"unfinished,omitempty"` // what continues and what removes it
}

func runList(c *cli.Context) error {
	if c.NArg() > 1 {
		return wantArgs(c, 1, "DIR")
	}
	find, findLeft := modelsAtHand, unfinishedAtHand
	if dir := c.Args().First(); dir != "" {
		find = func() ([]local, error) { return modelsIn(dir) }
		findLeft = func() ([]local, error) { return unfinishedIn(dir) }
	}
	models, err := find()
	if err != nil {
		return err
	}
	left, err := findLeft()
	if err != nil {
		return err
	}
	models = append(models, left...)
	list := []listed{}
	for i := range models {
		row, err := describe(&models[i])
		foreign := models[i].hub != nil && errors.Is(err, pack.ErrUnsupported)
		if !foreign || c.Bool(verboseName) {
			list = append(list, row)
		}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, list)
	}
	if len(list) == 0 && c.NArg() == 0 {
		note(c, "there are no models yet; lowpack pull ORG/NAME downloads one")
	}
	printList(c, list)
	return nil
}

// modelsAtHand returns the models of all caches.
func modelsAtHand() ([]local, error) {
	list, err := packedModels()
	if err != nil {
		return nil, err
	}
	more, err := hubModels()
	list = append(list, more...)
	slices.SortStableFunc(list, func(a, b local) int { return cmp.Compare(a.name, b.name) })
	return list, err
}

// modelsIn returns the models in a folder, which may be a checkpoint itself: files, and folders with a config.json.
func modelsIn(dir string) (list []local, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if isCheckpoint(dir) {
		return []local{{name: dir, path: dir}}, nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		_, notFirst := gguf.SplitNames(e.Name()) // of the parts of a GGUF
		switch ext := filepath.Ext(path); {
		case ext == ".safetensors", ext == ".gguf" && notFirst == nil, isCheckpoint(path):
			list = append(list, local{name: path, path: path})
		}
	}
	return list, nil
}

// isCheckpoint reports whether a folder holds a model.
func isCheckpoint(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "config.json"))
	return err == nil
}

// describe reads the headers of a model. For a broken model the row holds the error, which is also returned.
func describe(l *local) (row listed, err error) {
	row = listed{Name: l.name, Path: l.path}
	for _, file := range filesBelow(l) {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			row.Bytes += info.Size()
			if info.ModTime().After(row.Modified) {
				row.Modified = info.ModTime()
			}
		}
	}
	if l.left != nil {
		row.Unfinished = l.left.then
		return row, nil
	}
	v, err := headOf(l.path)
	if err != nil {
		row.Error = strings.TrimPrefix(err.Error(), l.path+": ")
		return row, err
	}
	s := &v.Summary
	row.Kind, row.Family, row.Parameters, row.Bits = v.Kind, s.Family, s.Parameters, s.FileBits
	row.Weights = v.mostly()
	return row, nil
}

// filesBelow returns the files of a model, including the files of a folder.
func filesBelow(l *local) []string {
	if l.hub != nil || l.left != nil {
		return l.files()
	}
	if info, err := os.Stat(l.path); err != nil || !info.IsDir() && !checkpoint.IsGGUF(l.path) {
		return []string{l.path}
	}
	files, err := filesOf(l.path)
	if err != nil {
		return []string{l.path}
	}
	return files
}

// mostly returns the storage format of most weights.
func (v *inspection) mostly() string {
	count := map[string]int64{}
	for _, t := range v.Tensors {
		count[t.Kind] += weights(t.Shape)
	}
	var kinds []string
	for kind := range count {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	return strings.Join(kinds[:min(1, len(kinds))], "")
}

// printList prints a table, and below it why models are broken and what is unfinished.
func printList(c *cli.Context, list []listed) {
	rows := [][]string{{"name", "family", "parameters", "weights", "bits/weight", "size", "modified"}}
	for _, l := range list {
		if l.Unfinished != "" {
			continue
		}
		row := []string{l.Name, "none: see below", "", "", "", size(l.Bytes), l.Modified.Format("2006-01-02 15:04")}
		if l.Error == "" {
			bits := fmt.Sprintf("%.2f", l.Bits)
			row[1], row[2], row[3], row[4] = cmp.Or(l.Family, "weights alone"), count(l.Parameters), l.Weights, bits
		}
		rows = append(rows, row)
	}
	if isTerminal(c.App.Writer) {
		rows = narrow(rows, width(c.App.Writer))
	}
	if len(rows) > 1 {
		table(c.App.Writer, map[int]bool{2: true, 4: true, 5: true}, rows)
	}
	for _, l := range list {
		switch {
		case l.Error != "":
			fmt.Fprintf(c.App.Writer, "%s: %s\n", printable.Line(l.Name), printable.Line(l.Error))
		case l.Unfinished != "":
			fmt.Fprintf(c.App.Writer, "%s: unfinished, %s: %s\n", printable.Line(l.Name), size(l.Bytes),
				printable.Line(l.Unfinished))
		}
	}
}
