// Package textcolumns reads columns of texts from Parquet files, in bounded memory.
//
// The definitions of the format and the decoder of its headers are those of parquet-go. What allocates memory by what a
// file says of itself is checked first: every list of a header against the bytes that are left of it, every page
// against its limits before and after it is decompressed, every run of levels and codes against the number of values.
// The CRC of a page is compared where there is one; pyarrow writes none by default.
// Read are texts that are stored one after another or by a dictionary, with the codecs snappy, gzip and zstd or none;
// an error names whatever else there is.
package textcolumns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/lowpack/lowpack/pack"
)

// Extension ends the names of Parquet files.
const Extension = ".parquet"

// Named reports whether a file is a Parquet file by its name.
func Named(path string) bool { return strings.EqualFold(filepath.Ext(path), Extension) }

// Limits of a file.
const (
	maxFooter = 4 << 20  // bytes
	maxPage   = 32 << 20 // bytes of a page, as stored and decompressed
	maxValues = 1 << 21  // values of a page
)

// File is a Parquet file.
type File struct {
	Columns []Column // of texts and others, in file order

	r     io.ReaderAt
	size  int64
	most  int64 // bytes that may be read or decompressed besides those of texts
	spent int64 // of them

	unsummed bool // pages are read whatever their CRC: for fuzzing
	meta     format.FileMetaData
}

// Column is a leaf of the schema.
type Column struct {
	Path  []string // from the root; such as messages, list, element, role
	Texts bool     // its values are texts in UTF-8
	Lists int      // around each value
	depth int      // definition level of a value that is there
	index int
}

// Name is the path as text.
func (c *Column) Name() string { return strings.Join(c.Path, ".") }

// Value is a value of a column, or stands for what is null or empty.
type Value struct {
	First bool   // begins a row
	Null  bool   // the value, or a list around it, is null or empty
	Text  []byte // valid until the next one
}

// Open reads the footer of a file. At most so many bytes are read and decompressed after that besides those of texts:
// pages without values can be many in few bytes. Errors, of Each too, wrap pack.ErrCorrupt, pack.ErrUnsupported or
// pack.ErrLimit.
func Open(r io.ReaderAt, size, most int64) (*File, error) {
	const mark = "PAR1"
	f, tail := &File{r: r, size: size, most: most}, make([]byte, 8)
	if size < int64(len(mark)+len(tail)) {
		return nil, corrupt("%d bytes are no Parquet file", size)
	}
	if _, err := r.ReadAt(tail, size-8); err != nil {
		return nil, err
	}
	if string(tail[4:]) == "PARE" {
		return nil, unsupported("an encrypted file")
	}
	if string(tail[4:]) != mark {
		return nil, corrupt("a Parquet file ends with %s", mark)
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if n > size-int64(len(mark)+len(tail)) {
		return nil, corrupt("a footer of %d bytes in a file of %d", n, size)
	}
	if n > maxFooter {
		return nil, fmt.Errorf("%w: a footer of %d bytes; at most %d are read", pack.ErrLimit, n, maxFooter)
	}
	footer := make([]byte, n)
	if _, err := r.ReadAt(footer, size-8-n); err != nil {
		return nil, err
	}
	rest, err := decode(footer, &f.meta)
	if err != nil {
		return nil, badHeader("footer", err)
	}
	if len(rest) > 0 {
		return nil, unsupported("a footer with %d more bytes, such as a signature", len(rest))
	}
	return f, f.readSchema()
}

// decode reads a struct of a header and returns the bytes behind it.
func decode(b []byte, v any) (rest []byte, err error) {
	n, err := structure(b)
	if err != nil {
		return nil, err
	}
	return b[n:], thrift.Unmarshal(new(thrift.CompactProtocol), b[:n], v)
}

// readSchema lists the leaves.
func (f *File) readSchema() error {
	elements := f.meta.Schema
	if len(elements) == 0 {
		return corrupt("no schema")
	}
	rest, err := f.leaves(elements[1:], int(elements[0].NumChildren.V), Column{})
	if err == nil && len(rest) > 0 {
		err = corrupt("the schema has %d elements more than it says", len(rest))
	}
	return err
}

// leaves adds the leaves of n elements that are below above, and returns the elements behind them.
func (f *File) leaves(elements []format.SchemaElement, n int, above Column) ([]format.SchemaElement, error) {
	const deepest = 32
	if len(above.Path) > deepest {
		return nil, fmt.Errorf("%w: columns nested more than %d deep", pack.ErrLimit, deepest)
	}
	for range n {
		if len(elements) == 0 {
			return nil, corrupt("the schema has fewer elements than it says")
		}
		e, c := &elements[0], above
		elements = elements[1:]
		c.Path = append(slices.Clone(above.Path), e.Name)
		switch e.RepetitionType.V {
		case format.Required:
		case format.Repeated:
			c.Lists++
			c.depth++
		default:
			c.depth++
		}
		if e.NumChildren.V > 0 {
			var err error
			if elements, err = f.leaves(elements, int(e.NumChildren.V), c); err != nil {
				return nil, err
			}
			continue
		}
		_, text := e.LogicalType.Value.(*format.StringType)
		text = text || e.ConvertedType.Valid && e.ConvertedType.V == deprecated.UTF8
		c.Texts = text && e.Type.V == format.ByteArray
		c.index = len(f.Columns)
		f.Columns = append(f.Columns, c)
	}
	return elements, nil
}

// Below returns the leaves that are, or are part of, a column of the root.
func (f *File) Below(name string) (list []Column) {
	for _, c := range f.Columns {
		if c.Path[0] == name {
			list = append(list, c)
		}
	}
	return list
}

// Each calls do with all values of a column of texts, in order.
func (f *File) Each(c *Column, do func(Value) error) error {
	for g := range f.meta.RowGroups {
		group := &f.meta.RowGroups[g]
		if len(group.Columns) != len(f.Columns) {
			return corrupt("row group %d has %d columns of %d", g, len(group.Columns), len(f.Columns))
		}
		rows := int64(0)
		err := f.chunk(c, &group.Columns[c.index], func(v Value) error {
			if v.First {
				rows++
			}
			return do(v)
		})
		if err == nil && rows != group.NumRows {
			err = corrupt("%d rows, where the group has %d", rows, group.NumRows)
		}
		if err != nil {
			return fmt.Errorf("row group %d, column %s: %w", g, c.Name(), err)
		}
	}
	return nil
}

// spend counts bytes that are about to be read or decompressed.
func (f *File) spend(n int64) error {
	if f.spent += n; f.spent > f.most {
		return fmt.Errorf("%w: its columns have more than %d bytes that are no texts; write a file with fewer rows",
			pack.ErrLimit, f.most)
	}
	return nil
}

// badHeader is the error of a header that cannot be decoded.
func badHeader(what string, err error) error {
	if errors.Is(err, pack.ErrLimit) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return corrupt("%s: %v", what, err)
}

func corrupt(text string, a ...any) error {
	return fmt.Errorf("%w: %s", pack.ErrCorrupt, fmt.Sprintf(text, a...))
}

func unsupported(text string, a ...any) error {
	return fmt.Errorf("%w: %s", pack.ErrUnsupported, fmt.Sprintf(text, a...))
}
