package openvino

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
)

// Is reports whether path is a directory with the models of an export.
func Is(path string) bool { return has(path, modelFile) || has(path, firstStatic) }

func has(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular()
}

// Verify reads the directory of an export back and compares it with a packed file: the graph element by element, the
// codes of every quantized tensor by their digest, all other data and files byte by byte. The first difference is an
// error that names it.
func Verify(ctx context.Context, dir, source string) (*export.Verified, error) {
	f, err := packed.Open(source)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	want, err := planOf(f, source, dir)
	if err != nil {
		return nil, err
	}
	files := want.files()
	if err := folder.Added(dir, files, others...); err != nil {
		return nil, err
	}
	v := &comparison{ctx: ctx, dir: dir}
	v.Absent = []string{"golden outputs", "digests"}
	data := want.data()
	for _, file := range files {
		if err := v.file(file, data[file.Name]); err != nil {
			return nil, err
		}
	}
	return &v.Verified, nil
}

// others lists files that OpenVINO GenAI, or tools of OpenVINO, would read if present: a tokenizer for a model exported
// without tokenizer graphs, and a chat template for a tokenizer without one.
var others = []string{tokenizerFile, dataOf(tokenizerFile), detokenizerFile, dataOf(detokenizerFile), configFile,
	"processor_config.json"}

// planOf returns the export plan of a packed file with the choices that the models of a directory declare.
func planOf(f *packed.File, source, dir string) (*exported, error) {
	if has(dir, modelFile) {
		n, err := readXML(dir, modelFile)
		if err != nil {
			return nil, err
		}
		m, err := plan(f, n.arithmetic(), nil)
		return m, filerr.Named(source, err)
	}
	n, err := readXML(dir, firstStatic)
	if err != nil {
		return nil, err
	}
	s, err := n.static()
	if err != nil {
		return nil, filerr.Named(filepath.Join(dir, firstStatic), err)
	}
	m, err := plan(f, n.arithmetic(), s)
	return m, filerr.Named(source, err)
}

// data returns the graphs' data by file.
func (m *exported) data() map[string]*data {
	files := map[string]*data{}
	for _, g := range m.graphs {
		if !g.shares {
			files[dataOf(g.name)] = g.data
		}
	}
	return files
}

// readXML reads an .xml file of a directory.
func readXML(dir, name string) (*node, error) {
	text, err := folder.Small(dir, name, maxXML)
	if err != nil {
		return nil, err
	}
	n, err := parse(text)
	return n, filerr.Named(filepath.Join(dir, name), err)
}

// arithmetic returns the arithmetic that the model declares.
func (n *node) arithmetic() export.Arithmetic {
	if a := n.find("rt_info", "lowpack", arithmeticKey); a != nil && a.value("value") == string(export.Plain) {
		return export.Plain
	}
	return export.Exact
}

// comparison of files.
type comparison struct {
	export.Verified
	ctx context.Context
	dir string
}

// file compares a file with what would be written, which may be the data of a graph. Graphs are compared by element:
// white space may differ.
func (v *comparison) file(file folder.File, data *data) error {
	switch {
	case strings.HasSuffix(file.Name, ".xml"):
		return v.graph(file)
	case data != nil:
		return folder.Opened(v.dir, file.Name, func(f *os.File, size int64) error { return v.data(f, size, data) })
	}
	return folder.Compare(v.ctx, v.dir, file)
}

func (v *comparison) graph(file folder.File) error {
	got, err := readXML(v.dir, file.Name)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := file.Write(&text); err != nil {
		return err
	}
	want, err := parse(text.Bytes())
	if err != nil {
		return err
	}
	return filerr.Named(filepath.Join(v.dir, file.Name), got.equals(want, ""))
}

// data compares a data file, which ends with its last constant.
func (v *comparison) data(f io.ReaderAt, size int64, want *data) error {
	if err := folder.Size(size, want.end); err != nil {
		return err
	}
	at := int64(0)
	for _, c := range want.constants {
		v.Tensors++
		if _, err := (&folder.Comparing{Ctx: v.ctx, From: f, At: at}).Write(make([]byte, c.offset-at)); err != nil {
			return fmt.Errorf("in front of constant %q: %w", c.name, err)
		}
		at = c.offset + c.size
		if err := v.constant(io.NewSectionReader(f, c.offset, c.size), &c); err != nil {
			return fmt.Errorf("constant %q: %w", c.name, err)
		}
	}
	return nil
}

// constant compares the digest of codes, and other data byte by byte.
func (v *comparison) constant(from *io.SectionReader, c *constant) error {
	if c.codes == nil {
		return c.write(&folder.Comparing{Ctx: v.ctx, From: from})
	}
	weights, err := c.codes.same(func() error {
		if v.ctx.Err() != nil {
			return context.Cause(v.ctx)
		}
		return nil
	}, from)
	v.Weights += weights
	return err
}
