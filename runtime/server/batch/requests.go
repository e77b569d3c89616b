package batch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/internal/textcolumns"
	"github.com/lowpack/lowpack/pack"
)

// mostRead bounds what is read and decompressed of a table besides its texts: dictionaries, and pages without rows.
func mostRead(size int64) int64 { return 1<<30 + 100*size }

// requestTable reads a Parquet file, whose columns are the keys of a line, all texts: body is a JSON object. It holds a
// page and a dictionary of each column.
type requestTable struct {
	cells [4]cells // of keys
	hash  hash.Hash
}

// cells are the values of a column.
type cells struct {
	next func() (textcolumns.Value, error, bool)
	stop func()
}

func newRequestTable(in *inputFile) (*requestTable, error) {
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	f, err := textcolumns.Open(in, info.Size(), mostRead(info.Size()))
	if err != nil {
		return nil, err
	}
	columns, err := columnsOf(f)
	if err != nil {
		return nil, err
	}
	r := &requestTable{hash: sha256.New()}
	for i, c := range columns {
		r.cells[i].next, r.cells[i].stop = iter.Pull2(values(f, c))
	}
	return r, nil
}

// columnsOf finds the columns of keys.
func columnsOf(f *textcolumns.File) (columns [4]*textcolumns.Column, err error) {
	for i := range f.Columns {
		c := &f.Columns[i]
		at := slices.Index(keys, c.Path[0])
		switch {
		case at < 0:
			return columns, fmt.Errorf("%w: column %s: a table of requests has %s", pack.ErrUnsupported, c.Name(),
				strings.Join(keys, ", "))
		case len(c.Path) > 1 || c.Lists > 0 || !c.Texts:
			return columns, fmt.Errorf("%w: column %s is not of strings", pack.ErrUnsupported, c.Name())
		case columns[at] != nil:
			return columns, fmt.Errorf("%w: two columns %s", pack.ErrCorrupt, c.Name())
		}
		columns[at] = c
	}
	if at := slices.Index(columns[:], nil); at >= 0 {
		return columns, fmt.Errorf("%w: column %s is missing", pack.ErrUnsupported, keys[at])
	}
	return columns, nil
}

// errLeft ends the reading of a column whose rest nobody wants.
var errLeft = errors.New("left")

// values are the values of a column; an error is the last one.
func values(f *textcolumns.File, c *textcolumns.Column) iter.Seq2[textcolumns.Value, error] {
	return func(yield func(textcolumns.Value, error) bool) {
		err := f.Each(c, func(v textcolumns.Value) error {
			if !yield(v, nil) {
				return errLeft
			}
			return nil
		})
		if err != nil && !errors.Is(err, errLeft) {
			yield(textcolumns.Value{}, err)
		}
	}
}

// next returns a row as the line of a request. A null is a key that is missing.
func (r *requestTable) next() ([]byte, error) {
	var row [4]textcolumns.Value
	ended := 0
	for i := range r.cells {
		v, err, ok := r.cells[i].next()
		if err != nil {
			return nil, err
		}
		if row[i] = v; !ok {
			ended++
		}
	}
	switch ended {
	case 0:
	case len(row):
		return nil, io.EOF
	default:
		return nil, fmt.Errorf("%w: its columns have different numbers of values", pack.ErrCorrupt)
	}
	line, err := lineOf(&row)
	r.hash.Write(line)
	r.hash.Write([]byte{'\n'})
	return line, err
}

// lineOf puts a line together.
func lineOf(row *[4]textcolumns.Value) ([]byte, error) {
	line := bytes.NewBufferString("{")
	for i, v := range row {
		switch {
		case v.Null:
			continue
		case line.Len()+len(v.Text) > maxLine:
			return nil, errLong
		case line.Len() > 1:
			line.WriteByte(',')
		}
		fmt.Fprintf(line, "%q:", keys[i])
		if keys[i] != "body" {
			quote(line, v.Text)
			continue
		}
		if _, err := jsonread.Fields(v.Text); err != nil {
			return nil, &Fault{Code: InvalidJSON, Param: "body", Message: "body: not a JSON object: " + place(err)}
		}
		line.Write(v.Text)
	}
	line.WriteByte('}')
	return line.Bytes(), nil
}

// quote writes a text as JSON, in which bytes that are not UTF-8 stay what they are and are refused later.
func quote(w *bytes.Buffer, text []byte) {
	w.WriteByte('"')
	for _, b := range text {
		switch {
		case b == '"' || b == '\\':
			w.Write([]byte{'\\', b})
		case b < ' ':
			fmt.Fprintf(w, `\u%04x`, b)
		default:
			w.WriteByte(b)
		}
	}
	w.WriteByte('"')
}

func (r *requestTable) digest() digest { return digest(r.hash.Sum(nil)) }

func (r *requestTable) close() {
	for i := range r.cells {
		r.cells[i].stop()
	}
}
