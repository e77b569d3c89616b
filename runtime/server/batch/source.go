package batch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/lowpack/lowpack/internal/textcolumns"
)

// source hands out the requests of an input, as lines of JSON.
type source interface {
	// next returns the next line without its end, in memory of its own; io.EOF follows the last one. An error that is a
	// *Fault stands for a line; the next one follows it.
	next() ([]byte, error)

	digest() digest // of what was read
	close()
}

// isFault reports whether an error stands for a line.
func isFault(err error) bool {
	var f *Fault
	return errors.As(err, &f)
}

// inputFile is the file of the requests. Reading ends with the error of the context, or with ErrStopped, so that who
// cancels a batch does not wait for a slow file.
type inputFile struct {
	*os.File
	ctx  context.Context
	stop <-chan struct{}
}

// ended returns why reading has ended, or nil.
func (f *inputFile) ended() error {
	select {
	case <-f.stop:
		return ErrStopped
	default:
		return f.ctx.Err()
	}
}

func (f *inputFile) Read(p []byte) (int, error) {
	if err := f.ended(); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *inputFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ended(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// newSource reads an input from the beginning.
func newSource(in *inputFile) (source, error) {
	if textcolumns.Named(in.Name()) {
		return newRequestTable(in)
	}
	_, err := in.Seek(0, io.SeekStart)
	return newLines(in), err
}

// errLong stands for a line that is longer than maxLine.
var errLong = &Fault{Code: LongLine, Message: fmt.Sprintf("more than %d bytes", maxLine)}

// lines reads a file line by line and digests all of it.
type lines struct {
	r    *bufio.Reader
	hash hash.Hash
}

func newLines(r io.Reader) *lines {
	h := sha256.New()
	return &lines{bufio.NewReaderSize(io.TeeReader(r, h), 1<<16), h}
}

func (l *lines) digest() digest { return digest(l.hash.Sum(nil)) }

func (l *lines) close() {}

// next reads to the end of the line; one that is too long is skipped.
func (l *lines) next() (line []byte, err error) {
	long, begun := false, false
	for {
		part, err := l.r.ReadSlice('\n')
		begun = begun || len(part) > 0
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && !begun, err != nil && err != io.EOF:
			return nil, err
		case long:
			return nil, errLong
		}
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		}
		return line, nil
	}
}
