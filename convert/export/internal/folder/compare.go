package folder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// Compare compares a file of a directory with what would be written.
func Compare(ctx context.Context, dir string, file File) error {
	return Opened(dir, file.Name, func(f *os.File, size int64) error {
		c := &Comparing{Ctx: ctx, From: f}
		if err := file.Write(c); err != nil {
			return err
		}
		return Size(size, c.At)
	})
}

// Added refuses a file that runtimes read along with a model but that the export does not write: it would change chats
// or tokens. others names more such files.
func Added(dir string, files []File, others ...string) error {
	for _, name := range append(others, texts...) {
		if slices.ContainsFunc(files, func(f File) bool { return f.Name == name }) {
			continue
		}
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			return filerr.Named(path, fmt.Errorf("%w: an export of the packed file has no such file; remove it",
				pack.ErrCorrupt))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Opened opens a file of a directory; errors name it.
func Opened(dir, name string, read func(f *os.File, size int64) error) error {
	path := filepath.Join(dir, name)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return filerr.Named(path, read(f, info.Size()))
}

// Small reads a file of up to a number of bytes.
func Small(dir, name string, most int64) (text []byte, err error) {
	err = Opened(dir, name, func(f *os.File, _ int64) (err error) {
		text, err = io.ReadAll(io.LimitReader(f, most+1))
		if err == nil && int64(len(text)) > most {
			err = fmt.Errorf("%w: more than %d bytes", pack.ErrCorrupt, most)
		}
		return err
	})
	return text, err
}

// Size refuses a size that differs from the packed file's.
func Size(got, want int64) error {
	if got != want {
		return fmt.Errorf("%w: %d bytes; of the packed file it would be %d", pack.ErrCorrupt, got, want)
	}
	return nil
}

// Comparing is a writer that compares what is written with a reader.
type Comparing struct {
	Ctx  context.Context
	From io.ReaderAt
	At   int64
}

func (c *Comparing) Write(p []byte) (int, error) {
	if c.Ctx.Err() != nil {
		return 0, context.Cause(c.Ctx)
	}
	buffer := make([]byte, min(len(p), 1<<20))
	for n := 0; n < len(p); {
		part := buffer[:min(len(buffer), len(p)-n)]
		if k, err := c.From.ReadAt(part, c.At); k < len(part) {
			return n, fmt.Errorf("%w: it ends at byte %d: %v", pack.ErrCorrupt, c.At+int64(k), err)
		}
		if !bytes.Equal(part, p[n:][:len(part)]) {
			return n, fmt.Errorf("%w: other bytes than of the packed file behind byte %d", pack.ErrCorrupt, c.At)
		}
		n, c.At = n+len(part), c.At+int64(len(part))
	}
	return len(p), nil
}
