// Package checkpoint opens published models: a Hugging Face directory with one or more safetensors files, a snapshot of
// the download cache, a bare safetensors file, or a GGUF, which is presented as the directory it was converted from
// (gguf.go).
//
// Names from the checkpoint (the shards of an index) and symbolic links cannot leave the directory, and only regular
// files are opened. Weights are read with pread instead of a memory map: if another process truncates a file, the
// result is an error, not a signal.
package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// Limits over all shards of a checkpoint.
const (
	MaxShards  = 1024
	MaxTensors = 2 * safetensors.MaxTensors
	maxHeaders = 2 * safetensors.MaxHeader // bytes of JSON
)

// Tensor is a tensor of a checkpoint.
type Tensor struct {
	Name  string
	DType safetensors.DType
	Shape []int
	File  string // name of the file, relative to the checkpoint
	Size  int64  // bytes
	Begin int64  // offset in the file

	file   *file
	view   *view   // nil = the bytes are stored in file
	values *values // nil likewise
	joined *joined // nil likewise
	made   []byte  // nil likewise; all bytes
}

// Checkpoint is an open model. Its methods are safe for concurrent use.
type Checkpoint struct {
	dir     *dir
	bare    bool // a single file, opened by its name
	shards  []*file
	texts   map[string][]byte
	meta    map[string][]string // see Metadata
	tensors []Tensor            // by name
	index   map[string]int
	sources []Source
	gguf    bool
	views   []Source // virtual files of tensors that are computed

	stored      []Tensor // by name, as in the files; nil = tensors
	storedIndex map[string]int
	warnings    []string
	details     []string
}

// Open opens the model at path. It reads the headers of all weight files and the text files, and checks that the index
// and the shards agree. Errors name the file. The caller must close the checkpoint.
func Open(path string) (*Checkpoint, error) {
	c := &Checkpoint{texts: map[string][]byte{}, meta: map[string][]string{}, index: map[string]int{}}
	if err := c.open(path); err != nil {
		return nil, filerr.Named(path, errors.Join(err, c.Close()))
	}
	return c, nil
}

func (c *Checkpoint) open(path string) error {
	p, err := resolve(path)
	if err != nil {
		return err
	}
	c.dir, c.bare = p.dir, p.bare != ""
	if IsGGUF(p.bare) {
		return c.openGGUF(p.dir, p.bare, filepath.Base(path))
	}
	if p.bare != "" {
		f, err := openFile(p.dir, p.bare)
		if err != nil {
			return err
		}
		f.name = filepath.Base(path)
		return c.addShards([]*file{f})
	}
	if err := c.readTexts(); err != nil {
		return err
	}
	if err := c.openWeights(); err != nil {
		return err
	}
	return c.dequantize()
}

// about adds the file name to an error, except for a single bare file, to which Open adds the path as typed.
func (c *Checkpoint) about(f *file, err error) error {
	if err == nil || c.bare && len(c.shards) == 1 {
		return err
	}
	return fmt.Errorf("%s: %w", f.name, err)
}

// addShards takes ownership of the files and adds their tensors.
func (c *Checkpoint) addShards(files []*file) error {
	c.shards = append(c.shards, files...)
	headers := int64(0)
	for _, f := range files {
		h, err := safetensors.Parse(f, f.size)
		if err != nil {
			return c.about(f, err)
		}
		if format, _ := h.Meta("format"); format == "lowpack" {
			return fmt.Errorf("%w: %s is a packed file, not a checkpoint: use lowpack repack to change its layout, or "+
				"lowpack unpack to convert it back", pack.ErrUnsupported, f.name)
		}
		if headers += h.DataStart; headers > maxHeaders || len(c.tensors)+len(h.Tensors) > MaxTensors {
			return fmt.Errorf("%w: %s: the shards hold more than %d tensors or %d bytes of headers",
				pack.ErrLimit, f.name,
				MaxTensors, maxHeaders)
		}
		c.addMetadata(h)
		if err := c.addTensors(f, h); err != nil {
			return err
		}
		c.sources = append(c.sources, Source{f.name, f.size})
	}
	c.sortTensors()
	sort.Slice(c.sources, func(i, j int) bool { return c.sources[i].Name < c.sources[j].Name })
	return nil
}

func (c *Checkpoint) sortTensors() {
	sort.Slice(c.tensors, func(i, j int) bool { return c.tensors[i].Name < c.tensors[j].Name })
	for i := range c.tensors {
		c.index[c.tensors[i].Name] = i
	}
}

func (c *Checkpoint) addTensors(f *file, h *safetensors.Header) error {
	for _, t := range h.Tensors {
		if other, ok := c.index[t.Name]; ok {
			return fmt.Errorf("%w: tensor %q is in %s and in %s", pack.ErrCorrupt, t.Name,
				c.tensors[other].File, f.name)
		}
		shape := make([]int, len(t.Shape))
		for i, d := range t.Shape {
			if shape[i] = int(d); int64(shape[i]) != d {
				return fmt.Errorf("%w: %s: tensor %q: dimension %d is too large", pack.ErrLimit, f.name, t.Name, d)
			}
		}
		c.index[t.Name] = len(c.tensors)
		c.tensors = append(c.tensors, Tensor{
			Name: t.Name, DType: t.DType, Shape: shape, File: f.name, Size: t.Size(),
			file: f, Begin: h.DataStart + t.Begin,
		})
	}
	return nil
}

// Config returns config.json; nil for a bare file.
func (c *Checkpoint) Config() []byte { return c.texts["config.json"] }

// File returns the bytes of one of the small files of a model (package modelfile), if the checkpoint has it.
func (c *Checkpoint) File(name string) ([]byte, bool) {
	b, ok := c.texts[name]
	return b, ok
}

// Metadata returns all different values of a key of __metadata__ in the safetensors files.
func (c *Checkpoint) Metadata(key string) []string { return c.meta[key] }

func (c *Checkpoint) addMetadata(h *safetensors.Header) {
	for _, kv := range h.Metadata {
		if !slices.Contains(c.meta[kv.Key], kv.Value) {
			c.meta[kv.Key] = append(c.meta[kv.Key], kv.Value)
		}
	}
}

// IsDir reports whether the checkpoint is a directory rather than a bare file.
func (c *Checkpoint) IsDir() bool { return !c.bare }

// Views returns the virtual files that Tensor.File names for tensors that are computed: those of a GGUF, and weights
// that become floats. ReadAt returns their bytes. Sources lists the real files.
func (c *Checkpoint) Views() []Source { return c.views }

// Tensors returns all tensors, sorted by name. The caller must not modify the slice.
func (c *Checkpoint) Tensors() []Tensor { return c.tensors }

// Lookup returns a tensor by name.
func (c *Checkpoint) Lookup(name string) (Tensor, bool) {
	i, ok := c.index[name]
	if !ok {
		return Tensor{}, false
	}
	return c.tensors[i], true
}

// ReadAt fills p with the bytes of the tensor starting at off.
func (c *Checkpoint) ReadAt(t Tensor, p []byte, off int64) error {
	if off < 0 || off > t.Size || int64(len(p)) > t.Size-off {
		return fmt.Errorf("tensor %q: bytes %d to %d of %d were asked for", t.Name, off, off+int64(len(p)), t.Size)
	}
	if t.view != nil || t.values != nil || t.joined != nil || t.made != nil {
		if err := t.compute(p, off); err != nil {
			return fmt.Errorf("%s: tensor %q: %w", t.File, t.Name, err)
		}
		return nil
	}
	n, err := t.file.ReadAt(p, t.Begin+off)
	if n == len(p) {
		return nil
	}
	return readFailed(t.File, t.Name, err)
}

// compute fills p with bytes of a tensor that is not stored as it is.
func (t Tensor) compute(p []byte, off int64) error {
	switch {
	case t.values != nil:
		return t.values.of.ReadAt(p, off, t.values.read)
	case t.joined != nil:
		return t.joined.readAt(p, off)
	case t.made != nil:
		copy(p, t.made[off:])
		return nil
	}
	return t.view.readAt(p, off)
}

func readFailed(file, tensor string, err error) error {
	if err == io.EOF {
		return fmt.Errorf("%w: %s: tensor %q: the file became shorter while it was read", pack.ErrCorrupt, file, tensor)
	}
	return fmt.Errorf("%s: tensor %q: %w", file, tensor, err)
}

// Shard is an open weight file. Closing the checkpoint closes it.
type Shard struct {
	Name string // relative to the checkpoint
	File *os.File
	Size int64 // bytes
}

// Shards returns the safetensors files in the order of opening; nil for a GGUF.
func (c *Checkpoint) Shards() []Shard {
	if c.gguf {
		return nil
	}
	list := make([]Shard, len(c.shards))
	for i, f := range c.shards {
		list[i] = Shard{f.name, f.File, f.size}
	}
	return list
}

// Warnings lists oddities of the checkpoint that may make it a different model than was meant.
func (c *Checkpoint) Warnings() []string { return c.warnings }

// Details lists oddities of the checkpoint that have no effect.
func (c *Checkpoint) Details() []string { return c.details }

func (c *Checkpoint) warn(format string, a ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, a...))
}

func (c *Checkpoint) detail(format string, a ...any) {
	c.details = append(c.details, fmt.Sprintf(format, a...))
}

// Unchanged reports an error if a weight file was changed or replaced since Open. Call it when everything is read: what
// was read before and after such a change would not belong together.
func (c *Checkpoint) Unchanged() error {
	for _, f := range c.shards {
		if err := f.unchanged(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all files.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range c.shards {
		errs = append(errs, f.Close())
	}
	if c.dir != nil { // nil if Open failed early
		errs = append(errs, c.dir.root.Close())
	}
	return errors.Join(errs...)
}
