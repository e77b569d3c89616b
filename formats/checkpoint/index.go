package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

const (
	single    = "model.safetensors"
	indexFile = "model.safetensors.index.json"
	maxIndex  = 16 << 20 // bytes
	suffix    = ".safetensors"
	notGiven  = -1 // total_size is absent
)

// index is a parsed model.safetensors.index.json.
type index struct {
	totalSize int64
	files     map[string]string
}

// openWeights opens the weights of the directory: model.safetensors, else the shards of the index, else the only
// safetensors file.
func (c *Checkpoint) openWeights() error {
	one, err := c.dir.has(single)
	if err != nil {
		return err
	}
	many, err := c.dir.has(indexFile)
	if err != nil {
		return err
	}
	switch {
	case one && many:
		c.warn("both %s and %s exist: the first is read, and the index is ignored, as other loaders do; "+
			"remove the first if the shards of the index are the model", single, indexFile)
		return c.openShards([]string{single})
	case one:
		return c.openShards([]string{single})
	case many:
		return c.openIndexed()
	}
	name, err := c.onlyWeights()
	if err != nil {
		return err
	}
	return c.openShards([]string{name})
}

func (c *Checkpoint) openShards(names []string) error {
	files := make([]*file, 0, len(names))
	for _, name := range names {
		f, err := openFile(c.dir, name)
		if err != nil {
			c.shards = append(c.shards, files...) // for Close
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: %s is missing, but %s names it", pack.ErrCorrupt, name, indexFile)
			}
			return err
		}
		files = append(files, f)
	}
	return c.addShards(files)
}

// openIndexed opens the shards of the index and compares them with it.
func (c *Checkpoint) openIndexed() error {
	text, err := readText(c.dir, modelfile.File{Name: indexFile, Limit: maxIndex})
	if err != nil {
		return err
	}
	c.texts[indexFile] = text
	c.sources = append(c.sources, Source{indexFile, int64(len(text))})
	x, err := parseIndex(text)
	if err != nil {
		return fmt.Errorf("%s: %w", indexFile, filekind.Explain(err, text))
	}
	names, err := c.shardNames(x)
	if err != nil {
		return fmt.Errorf("%s: %w", indexFile, err)
	}
	if err := c.openShards(names); err != nil {
		return err
	}
	return c.compare(x)
}

// shardNames returns the files of the index, sorted.
func (c *Checkpoint) shardNames(x *index) ([]string, error) {
	seen, folded := map[string]bool{}, map[string]string{}
	var names []string
	for _, tensor := range sortedKeys(x.files) {
		name := x.files[tensor]
		if seen[name] {
			continue
		}
		if err := plainName(name); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", tensor, err)
		}
		if len(names) == MaxShards {
			return nil, fmt.Errorf("%w: more than %d shards", pack.ErrLimit, MaxShards)
		}
		seen[name] = true
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fold := strings.ToLower(name)
		if other, ok := folded[fold]; ok {
			c.detail("%s: the shards %s and %s differ in case only; some file systems cannot hold both", indexFile,
				other, name)
		}
		folded[fold] = name
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: weight_map is empty", pack.ErrCorrupt)
	}
	return names, nil
}

// compare checks that index and shards have the same tensors, each in the file that the index names.
func (c *Checkpoint) compare(x *index) error {
	total := int64(0)
	for i := range c.tensors {
		t := &c.tensors[i]
		total += t.Size
		switch want, ok := x.files[t.Name]; {
		case !ok:
			return fmt.Errorf("%w: tensor %q is in %s but not in %s", pack.ErrCorrupt, t.Name, t.File, indexFile)
		case want != t.File:
			return fmt.Errorf("%w: tensor %q is in %s; %s says %s", pack.ErrCorrupt, t.Name, t.File, indexFile, want)
		}
	}
	if len(x.files) != len(c.tensors) {
		for _, name := range sortedKeys(x.files) {
			if _, ok := c.index[name]; !ok {
				return fmt.Errorf("%w: tensor %q: %s says %s, which does not hold it", pack.ErrCorrupt, name, indexFile,
					x.files[name])
			}
		}
	}
	if x.totalSize != notGiven && x.totalSize != total {
		c.detail("%s: total_size is %d, the tensors have %d bytes", indexFile, x.totalSize, total)
	}
	return nil
}

// parseIndex reads {"metadata": {…}, "weight_map": {tensor: file}}.
func parseIndex(text []byte) (*index, error) {
	x := &index{totalSize: notGiven, files: map[string]string{}}
	r := jsonread.NewReader(text)
	err := r.Object(func(key string) error {
		switch key {
		case "metadata":
			return x.readMetadata(r)
		case "weight_map":
			return x.readWeightMap(r)
		}
		return r.Skip()
	})
	if err != nil {
		return nil, err
	}
	return x, r.End()
}

func (x *index) readMetadata(r *jsonread.Reader) error {
	return r.Object(func(key string) error {
		if key != "total_size" {
			return r.Skip()
		}
		n, err := r.Number()
		x.totalSize = parseSize(n)
		return err
	})
}

// readWeightMap reads weight_map. jsonread's limit of keys per object bounds it to MaxTensors entries.
func (x *index) readWeightMap(r *jsonread.Reader) error {
	const maxFile = 8192 // bytes; plainName reports names above its own limit
	return r.Object(func(tensor string) (err error) {
		if len(tensor) > safetensors.MaxName {
			return r.Limitf("a tensor name of more than %d bytes", safetensors.MaxName)
		}
		x.files[tensor], err = r.StringUpTo(maxFile)
		return err
	})
}

// parseSize parses a size, which some writers spell as a float; −2 = not a whole number of bytes.
func parseSize(text string) int64 {
	f, err := strconv.ParseFloat(text, 64)
	if n := int64(f); err == nil && f >= 0 && f < 1<<53 && float64(n) == f {
		return n
	}
	return -2
}

// reserved matches the names of Windows devices, which denote the device with any suffix.
var reserved = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?$`)

// plainName checks that a name is valid on every system for a safetensors file in the same directory.
func plainName(name string) error {
	bad := func(why string) error {
		if len(name) > 80 {
			name = name[:80] + "…"
		}
		return fmt.Errorf("%w: shard name %q: %s", pack.ErrCorrupt, name, why)
	}
	switch {
	case len(name) > 255:
		return bad("longer than 255 bytes")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return bad("control characters")
	case strings.ContainsAny(name, `/\:`) || !filepath.IsLocal(name):
		return bad("not a plain file name; shards must be next to the index")
	case reserved.MatchString(name):
		return bad("the name of a device on Windows")
	case !strings.HasSuffix(name, suffix) || name == suffix:
		return bad("not a " + suffix + " file")
	}
	return nil
}
