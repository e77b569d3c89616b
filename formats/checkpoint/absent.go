package checkpoint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// maxEntries bounds how much of a directory is listed.
const maxEntries = 10000

// part matches the name of one shard of two or more.
var part = regexp.MustCompile(`-\d+-of-0*([2-9]|1\d)\d*\.safetensors$`)

// onlyWeights returns the one safetensors file of a directory that has neither model.safetensors nor an index, or says
// what is there instead.
func (c *Checkpoint) onlyWeights() (string, error) {
	names, err := c.dir.names(maxEntries)
	if err != nil {
		return "", err
	}
	var found, others []string
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, suffix):
			found = append(found, name)
		case advice(name) != "":
			others = append(others, name)
		}
	}
	slices.Sort(found)
	slices.Sort(others)
	switch {
	case len(found) == 1 && !part.MatchString(found[0]):
		return found[0], nil
	case len(found) > 0:
		return "", fmt.Errorf("%w: %s is missing; without it nobody knows whether %s and its like are complete", pack.ErrCorrupt, indexFile, found[0])
	case len(others) > 0:
		return "", fmt.Errorf("%w: the weights are in %s only%s", pack.ErrUnsupported, others[0], advice(others[0]))
	case len(names) == 0:
		return "", fmt.Errorf("%w: the directory is empty; a checkpoint has config.json and %s", pack.ErrUnsupported, single)
	}
	return "", fmt.Errorf("%w: no safetensors file in the directory; a checkpoint has config.json and %s", pack.ErrUnsupported, single)
}

func isPickle(name string) bool {
	for _, s := range []string{".bin", ".pt", ".pth", ".ckpt", ".pkl"} {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

// advice says why weights in a format that its name tells are not read, and what to do. It is empty for other files.
func advice(name string) string {
	switch {
	case strings.HasSuffix(name, ".gguf"):
		return ", a GGUF file, which is not read: take the safetensors model that it was made from"
	case !isPickle(name):
		return ""
	}
	return ", a Python pickle, which runs code when it is loaded and is never read here: take a safetensors revision of the model, or save it with save_pretrained(safe_serialization=True)"
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
