package filerr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
)

func TestNamed(t *testing.T) {
	plain := errors.New("bad header")
	for _, c := range []struct {
		path string
		err  error
		want string
	}{
		{"m", plain, "m: bad header"},
		{"a", plain, "a: bad header"}, // the text contains the letter, but not as a file name
		{"header", plain, "header: bad header"},
		{"m", Named("m", plain), "m: bad header"},
		{"dir", Named("dir/m", plain), "dir/m: bad header"},
		{"./dir/", Named("dir/m", plain), "dir/m: bad header"},
		{"m", fmt.Errorf("reading: %w", Named("m", plain)), "reading: m: bad header"},
		{"m", fmt.Errorf("reading: %w", about("m")), "reading: m has changed"},
		{"dir", about("dir/m"), "dir/m has changed"},
		{"m", about("other"), "m: other has changed"},
		{"m", about(""), " has changed"},
		{"m", Named("other", plain), "m: other: bad header"},
		{"m", &fs.PathError{Op: "open", Path: "m", Err: os.ErrNotExist}, "open m: file does not exist"},
		{"dir", &fs.PathError{Op: "open", Path: "dir/m", Err: os.ErrNotExist}, "open dir/m: file does not exist"},
		{"m", &fs.PathError{Op: "open", Path: "m2", Err: os.ErrNotExist}, "m: open m2: file does not exist"},
		{"m", &os.LinkError{Op: "rename", Old: "x", New: "m", Err: os.ErrNotExist}, "rename x m: file does not exist"},
	} {
		got := Named(c.path, c.err)
		if got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("%s, %v: %q, want %q", c.path, c.err, got, c.want)
		}
	}
	if Named("m", nil) != nil {
		t.Error("no error became one")
	}
}

// about is an error that reports its file.
type about string

func (a about) Error() string { return string(a) + " has changed" }
func (a about) File() string  { return string(a) }
