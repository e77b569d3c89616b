// Package folder writes and verifies the directories of exports, one tensor at a time in memory.
package folder

import (
	"context"
	"io"
	"path"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
)

// File is one of a directory. Write writes the same bytes each time.
type File struct {
	Name  string // path in the directory, with slashes
	Write func(io.Writer) error
	Size  int64 // for progress, of files that take time to write; else 0
}

// Whole returns the Write function of a file whose bytes are in memory.
func Whole(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// texts lists the files of a packed file that runtimes read along with the model.
var texts = []string{
	"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json",
	"merges.txt",
	"special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "chat_template.json",
}

// Texts returns the texts that a packed file has.
func Texts(f *packed.File) (list []File) {
	for _, name := range texts {
		if data, ok := f.Embedded(name); ok {
			list = append(list, File{Name: name, Write: Whole(data)})
		}
	}
	return list
}

// Write writes a directory, which must not exist and appears whole or not at all, and returns the size of its files. It
// reports the bytes of files that take time.
func Write(ctx context.Context, dir string, files []File, p export.Progress) (size int64, err error) {
	out, err := atomicfile.CreateDir(atomicfile.OS, dir)
	if err != nil {
		return 0, err
	}
	defer out.Abort()
	total := int64(0)
	for _, file := range files {
		total += file.Size
	}
	report := p.Of(total)
	made := map[string]bool{".": true}
	for _, file := range files {
		if in := path.Dir(file.Name); !made[in] {
			if err := out.Mkdir(in); err != nil {
				return 0, err
			}
			made[in] = true
		}
		err := out.WriteFile(file.Name, func(w io.Writer) error {
			c := &Counting{To: stopping{ctx, w, file, report}}
			err := file.Write(c)
			size += c.N
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return size, out.Commit()
}

// stopping stops writing when its context ends, and reports progress.
type stopping struct {
	ctx    context.Context
	w      io.Writer
	file   File
	report func(n int, at string)
}

func (s stopping) Write(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	n, err := s.w.Write(p)
	if s.file.Size > 0 {
		s.report(n, s.file.Name)
	}
	return n, err
}

// Counting counts bytes.
type Counting struct {
	To io.Writer
	N  int64
}

func (c *Counting) Write(p []byte) (int, error) {
	n, err := c.To.Write(p)
	c.N += int64(n)
	return n, err
}
