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
}

func (v *comparison) all() error {
	m, names := v.file.Manifest(), map[string]bool{}
	stacks, err := v.stacks(names)
	if err != nil {
		return err
	}
	for i := range m.Packed {
		e := &m.Packed[i]
		if e.Name == packed.ScreenName || stacks[e.Name] {
			continue
		}
		names[e.Name] = true
		if err := v.quantized(e); err != nil {
			return err
		}
	}
	for _, p := range m.Plain {
		if strings.HasPrefix(p.Name, packed.FilePrefix) || stacks[p.Name] {
			continue
		}
		names[p.Name] = true
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
	return v.rows(e.Name, e.Shape[:], func(row int, values []float32) error {
		for k, c := range m.Codes[row*m.K:][:m.K] {
			if want := own.number(e.Unit(row, k)).weight(c); values[k] != want {
				return differs(e.Name, row, k, values[k], want)
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
	return v.rows(p.Name, p.Shape, func(row int, values []float32) error {
		want := make([]float32, len(values))
		d.Widen(want, t.Data[row*len(want)*d.Size():])
		return equalRow(p.Name, row, values, want)
	})
}

// rows passes the rows of a GGUF tensor to each as floats.
func (v *comparison) rows(name string, shape []int, each func(row int, values []float32) error) error {
	t, ok := v.from.Lookup(name)
	switch {
	case !ok:
		return fmt.Errorf("%w: tensor %q is missing", pack.ErrCorrupt, name)
	case !slices.Equal(t.Shape, shape):
		return fmt.Errorf("%w: tensor %q has shape %v; in the packed file %v", pack.ErrCorrupt, name, t.Shape, shape)
	}
	columns := shape[len(shape)-1]
	values, data := make([]float32, columns), make([]byte, columns*int(t.DType.Size()))
	for row := range int(t.Size) / len(data) {
		if v.ctx.Err() != nil {
			return context.Cause(v.ctx)
		}
		if err := v.from.ReadAt(t, data, int64(row)*int64(len(data))); err != nil {
			return err
		}
		quantize.DType(t.DType).Widen(values, data)
		if err := each(row, values); err != nil {
			return err
		}
		v.Weights += int64(columns)
	}
	v.Tensors++
	return nil
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
