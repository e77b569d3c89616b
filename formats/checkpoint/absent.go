package checkpoint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/pack"
)

// maxEntries limits the directory entries that are listed.
const maxEntries = 10000

// part matches the name of a shard of a model with two or more.
var part = regexp.MustCompile(`-\d+-of-0*([2-9]|1\d)\d*\.safetensors$`)

// onlyWeights returns the only safetensors file of a directory without model.safetensors and index, or an error that
// says what is there instead.
func (c *Checkpoint) onlyWeights() (string, error) {
	names, err := c.dir.names(maxEntries)
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	var found, others []string
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, suffix):
			found = append(found, name)
		case foreign.MatchString(name):
			others = append(others, name)
		}
	}
	switch {
	case len(found) == 1 && !part.MatchString(found[0]):
		return found[0], nil
	case len(found) > 0:
		return "", fmt.Errorf("%w: %s is missing; without it the set of shards (%s …) may be incomplete",
			pack.ErrCorrupt, indexFile, found[0])
	case len(names) == 0:
		return "", fmt.Errorf("%w: the directory is empty; a checkpoint has config.json and %s",
			pack.ErrUnsupported, single)
	}
	return "", c.otherWeights(others)
}

// foreign matches names of weights in other formats.
var foreign = regexp.MustCompile(`\.(bin|pt|pth|ckpt|pkl|gguf|onnx|zip|gz|tgz)$`)

// otherWeights returns an error that names the format of the first file with a known one.
func (c *Checkpoint) otherWeights(names []string) error {
	for _, name := range names {
		f, err := openFile(c.dir, name)
		if err != nil {
			return err
		}
		head, err := filekind.Head(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := filekind.Weights(head); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	seen := ""
	if len(names) > 0 {
		seen = " (" + names[0] + " is of no known kind)"
	}
	return fmt.Errorf("%w: no safetensors file in the directory%s; a checkpoint has config.json and %s",
		pack.ErrUnsupported, seen, single)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
