package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert/export/internal/chat"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/transpose"
	"github.com/lowpack/lowpack/pack"
)

// Verified summarizes what VerifyGGUF has compared.
type Verified struct {
	Weights int64    `json:"weights"` // bit-identical to the packed file's
	Tensors int      `json:"tensors"`
	Absent  []string `json:"absent"` // tensors that a GGUF does not carry
}

// VerifyGGUF compares every weight of a GGUF with code times scale of a packed file, the unquantized tensors, and the
// encodings of the tokenizer. The first difference is an error that names tensor, row and column.
func VerifyGGUF(ctx context.Context, path, source string) (*Verified, error) {
	f, err := packed.Open(source)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	v := &comparison{ctx: ctx, file: f, from: c}
	if err := v.all(); err != nil {
		return nil, filerr.Named(path, err)
	}
	v.Absent = []string{"golden outputs", "digests"}
	return &v.Verified, c.Unchanged()
}

type comparison struct {
	Verified
	ctx  context.Context
	file *packed.File
	from *checkpoint.Checkpoint
	// tensors with other names in the GGUF, or transposed there; nil = none
	others map[string]counterpart
}

func (v *comparison) all() error {
	m, names := v.file.Manifest(), map[string]bool{}
	stacks, err := v.stacks(names)
	if err != nil {
		return err
	}
	if v.renamed() {
		if err := v.counterparts(); err != nil {
			return err
		}
	}
	for i := range m.Packed {
		e := &m.Packed[i]
		if e.Name == packed.ScreenName || stacks[e.Name] {
			continue
		}
		names[v.of(e.Name).name] = true
		if err := v.quantized(e); err != nil {
			return err
		}
	}
	for _, p := range m.Plain {
		if strings.HasPrefix(p.Name, packed.FilePrefix) || stacks[p.Name] {
			continue
		}
		names[v.of(p.Name).name] = true
		if err := v.plain(p); err != nil {
			return err
		}
	}
	for _, t := range v.from.Tensors() {
		if !names[t.Name] {
			return fmt.Errorf("%w: tensor %q is not in the packed file", pack.ErrCorrupt, t.Name)
		}
	}
	return v.texts()
}

// quantized compares the dequantized weights of the packed file with the GGUF's.
func (v *comparison) quantized(e *packed.Entry) error {
	m, err := Codes(v.ctx, v.file, e)
	if err != nil {
		return err
	}
	own, err := unitsOf(v.file, e)
	if err != nil {
		return err
	}
	run := m.K // columns that share a unit
	if e.Scale.Group > 0 {
		run = e.Scale.Group
	}
	return v.rows(v.of(e.Name).name, e.Shape[:], func(row int, values []float32) error {
		for from := 0; from < m.K; from += run {
			unit, to := own.number(e.Unit(row, from)), min(from+run, m.K)
			for k, c := range m.Codes[row*m.K+from : row*m.K+to] {
				if got, want := values[from+k], unit.weight(c); got != want {
					return differs(e.Name, row, from+k, got, want)
				}
			}
		}
		return nil
	})
}

func differs(name string, row, column int, got, want float32) error {
	return fmt.Errorf("%w: tensor %q: row %d, column %d holds %v; the packed file has %v", pack.ErrCorrupt, name, row,
		column, got, want)
}

func (v *comparison) plain(p packed.Plain) error {
	t, err := v.file.Tensor(p.Name)
	if err != nil {
		return err
	}
	d := quantize.DType(p.DType)
	if d.Size() == 0 {
		return fmt.Errorf("%w: tensor %q of type %s, which is not written to GGUF", pack.ErrUnsupported,
			p.Name, p.DType)
	}
	o, shape, data := v.of(p.Name), p.Shape, t.Data
	if o.turned {
		shape, data = []int{shape[1], shape[0]}, transpose.Bytes(data, shape[0], shape[1])
	}
	return v.rows(o.name, shape, func(row int, values []float32) error {
		want := make([]float32, len(values))
		d.Widen(want, data[row*len(want)*d.Size():])
		return equalRow(p.Name, row, values, want)
	})
}

// rows passes the rows of a GGUF tensor to each as floats, on all cores.
func (v *comparison) rows(name string, shape []int, each func(row int, values []float32) error) error {
	t, err := v.tensor(name, shape)
	if err != nil {
		return err
	}
	return v.rowsOf(t, 0, int(t.Size)/int(t.DType.Size())/columnsOf(shape), each)
}

// columnsOf is the length of a row; a single number is a row of one.
func columnsOf(shape []int) int {
	if len(shape) == 0 {
		return 1
	}
	return shape[len(shape)-1]
}

// tensor returns a tensor of the GGUF, which must have the given shape.
func (v *comparison) tensor(name string, shape []int) (t checkpoint.Tensor, err error) {
	t, ok := v.from.Lookup(name)
	switch {
	case !ok:
		return t, fmt.Errorf("%w: tensor %q is missing", pack.ErrCorrupt, name)
	case !slices.Equal(t.Shape, shape):
		return t, fmt.Errorf("%w: tensor %q has shape %v; in the packed file %v", pack.ErrCorrupt, name, t.Shape, shape)
	}
	v.Tensors++
	return t, nil
}

// rowsOf is rows for n rows from first on.
func (v *comparison) rowsOf(
	t checkpoint.Tensor, first, n int, each func(row int, values []float32) error,
) error {
	columns, size := columnsOf(t.Shape), int(t.DType.Size())
	most := max(1, pieceWeights/columns)
	v.Weights += int64(n) * int64(columns)
	return parallel.Do(v.ctx, 0, n, most, func(from, to int) error {
		values, data := make([]float32, columns), make([]byte, (to-from)*columns*size)
		if err := v.from.ReadAt(t, data, int64(first+from)*int64(columns*size)); err != nil {
			return err
		}
		for row := range to - from {
			quantize.DType(t.DType).Widen(values, data[row*columns*size:][:columns*size])
			if err := each(first+from+row, values); err != nil {
				return err
			}
		}
		return nil
	})
}

// texts compares tokenizer.json and the chat template where both files have one.
func (v *comparison) texts() error {
	var errs []error
	want, ok := v.file.Embedded("tokenizer.json")
	if got, there := v.from.File("tokenizer.json"); ok && there && !bytes.Equal(want, got) {
		errs = append(errs, fmt.Errorf("%w: its tokenizer.json is another one than that of the packed file",
			pack.ErrCorrupt))
	}
	ours, theirs := chat.Template(v.file.Embedded), chat.Template(v.from.File)
	if ours != "" && theirs != "" && ours != theirs {
		errs = append(errs, fmt.Errorf("%w: its chat template is another one than that of the packed file",
			pack.ErrCorrupt))
	}
	return errors.Join(errs...)
}
