package onnx

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// Is reports whether path is a directory with the model of an export.
func Is(path string) bool {
	info, err := os.Stat(filepath.Join(path, modelFile))
	return err == nil && info.Mode().IsRegular()
}

// Verify reads the directory of an export back and compares it with a packed file: the graph node by node, the codes of
// every quantized tensor by their digest, all other data and files byte by byte. The first difference is an error that
// names it.
func Verify(ctx context.Context, dir, source string) (*export.Verified, error) {
	f, err := packed.Open(source)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	path := filepath.Join(dir, modelFile)
	text, err := folder.Small(dir, modelFile, maxModel)
	if err != nil {
		return nil, err
	}
	got, err := parse(text)
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	want, err := plan(f, got.arithmetic())
	if err != nil {
		return nil, filerr.Named(source, err)
	}
	if err := got.equals(&want.graph); err != nil {
		return nil, filerr.Named(path, err)
	}
	v := &comparison{ctx: ctx, want: want}
	v.Absent = []string{"golden outputs", "digests"}
	return &v.Verified, v.all(dir)
}

// arithmetic returns the arithmetic that the model declares.
func (g *graph) arithmetic() export.Arithmetic {
	if len(g.metadata) == 1 && g.metadata[0] == [2]string{arithmeticKey, string(export.Plain)} {
		return export.Plain
	}
	return export.Exact
}

// equals compares graphs, without external data.
func (g *graph) equals(want *graph) error {
	return errors.Join(
		same("opset", g.opsets, want.opsets), same("metadata", g.metadata, want.metadata), same("input", g.inputs,
			want.inputs),
		same("output", g.outputs, want.outputs), same("node", g.nodes, want.nodes),
		same("tensor", g.tensors, want.tensors))
}

func same[T any](what string, got, want []T) error {
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			return fmt.Errorf("%w: %s %d is %.200v; of the packed file it would be %.200v", pack.ErrCorrupt, what, i,
				fmt.Sprint(got[i]), fmt.Sprint(want[i]))
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%w: %d of kind %s; of the packed file it would be %d", pack.ErrCorrupt, len(got),
			what, len(want))
	}
	return nil
}

// comparison of data.
type comparison struct {
	export.Verified
	ctx  context.Context
	want *exported
}

func (v *comparison) all(dir string) error {
	files := v.want.files()
	if err := folder.Added(dir, files); err != nil {
		return err
	}
	for _, file := range files {
		var err error
		switch file.Name {
		case modelFile: // the graphs have been compared: another version may have written the file
		case dataFile:
			err = folder.Opened(dir, dataFile, v.data)
		default:
			err = folder.Compare(v.ctx, dir, file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// data compares the data file, which ends with its last tensor.
func (v *comparison) data(f *os.File, size int64) error {
	if err := folder.Size(size, v.want.end); err != nil {
		return err
	}
	at := int64(0)
	for i := range v.want.tensors {
		t := &v.want.tensors[i]
		v.Tensors++
		if t.inline != nil {
			continue
		}
		if _, err := (&folder.Comparing{Ctx: v.ctx, From: f, At: at}).Write(make([]byte, t.offset-at)); err != nil {
			return fmt.Errorf("in front of tensor %q: %w", t.name, err)
		}
		at = t.offset + t.bytes()
		var err error
		if held, quantized := v.want.codes[t.name]; quantized {
			err = v.codes(io.NewSectionReader(f, t.offset, t.bytes()), held)
		} else {
			err = v.want.data[t.name](&folder.Comparing{Ctx: v.ctx, From: f, At: t.offset})
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.name, err)
		}
	}
	return nil
}

// codes decodes a quantized tensor like the operators that read it, and compares the digest of its codes.
func (v *comparison) codes(from io.Reader, held codes) error {
	c := held.of()
	a, e, shape := c.alphabet, c.entry, c.entry.MatrixShape()
	m, numbers := pack.NewMatrix(shape, a), packed.NewNumbers(a, shape.K)
	digest := packed.NewCodesHash(a.Name, pack.Shape{M: e.Rows(), K: shape.K})
	for range e.Experts() {
		if err := held.read(m.Codes, stoppingReader{v.ctx, from}); err != nil {
			return err
		}
		if err := m.Check(); err != nil {
			return err
		}
		digest.Write(numbers.Write(packed.CodeBytes(m.Codes), m.Codes))
	}
	v.Weights += e.Weights()
	if hex.EncodeToString(digest.Sum(nil)) != e.CodesSHA {
		return fmt.Errorf("%w: its codes do not match codes_sha256 of the packed file", pack.ErrCorrupt)
	}
	return nil
}

// stoppingReader stops reading when its context ends.
type stoppingReader struct {
	ctx  context.Context
	from io.Reader
}

func (s stoppingReader) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.from.Read(p)
}
