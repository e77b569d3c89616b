package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/pack"
)

// readTexts reads all small files, when the checkpoint is opened.
func (c *Checkpoint) readTexts() error {
	for _, t := range slices.Concat(modelfile.All(), modelfile.Quantization(), modelfile.Sentence()) {
		there, err := c.dir.has(t.Name)
		if err != nil {
			return confined(t.Name, err)
		}
		if !there {
			continue
		}
		b, err := readText(c.dir, t)
		if err != nil {
			return err
		}
		c.texts[t.Name] = b
		c.sources = append(c.sources, Source{t.Name, int64(len(b))})
	}
	return nil
}

// ReadTexts reads the text files of a model directory, whatever its weights are, or rebuilds those of a GGUF.
func ReadTexts(path string) (map[string][]byte, error) {
	p, err := resolve(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{dir: p.dir, texts: map[string][]byte{}}
	switch {
	case p.bare == "":
		err = c.readTexts()
	case IsGGUF(p.bare):
		_, err = c.ggufTexts(p.dir, p.bare, p.bare)
	}
	return c.texts, errors.Join(err, c.Close())
}

// readText reads a whole file of at most t.Limit bytes.
func readText(d *dir, t modelfile.File) ([]byte, error) {
	f, err := openFile(d, t.Name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.size > t.Limit {
		return nil, fmt.Errorf("%w: %s has %d bytes; the limit is %d", pack.ErrLimit, t.Name, f.size, t.Limit)
	}
	b := make([]byte, f.size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	return b, nil
}

// Source is a file of the checkpoint.
type Source struct {
	Name string // relative to the checkpoint
	Size int64
}

// Sources returns the files that were read, sorted by name.
func (c *Checkpoint) Sources() []Source { return c.sources }

// OpenSource returns the bytes of a file of Sources, for hashing.
func (c *Checkpoint) OpenSource(name string) (*io.SectionReader, error) {
	if b, ok := c.texts[name]; ok {
		return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))), nil
	}
	for _, f := range c.shards {
		if f.name == name {
			return io.NewSectionReader(f, 0, f.size), nil
		}
	}
	return nil, fmt.Errorf("%s is not a file of this checkpoint", name)
}
