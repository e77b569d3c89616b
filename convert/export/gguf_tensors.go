package export

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/transpose"
	"github.com/lowpack/lowpack/pack"
)

// plainTypes are the types of unquantized tensors.
var plainTypes = map[safetensors.DType]gguf.Type{"F32": gguf.F32, "F16": gguf.F16, "BF16": gguf.BF16}

// plain enters an unquantized tensor: matrices as they are, vectors and routers in F32.
func (w *ggufWriter) plain(p *packed.Plain) error {
	name, heads, err := w.arch.Store(p.Name, w.model.Heads, w.model.KVHeads)
	if err != nil {
		return err
	}
	conv, shape := strings.HasSuffix(name, hf.ConvPart+".weight"), p.Shape
	if conv && len(shape) == 3 {
		shape = []int{shape[0], shape[2]}
	}
	kind, ok := plainTypes[p.DType]
	if !ok || len(shape) > 2 {
		return fmt.Errorf("%w: tensor %q of type %s with %d dimensions", pack.ErrUnsupported, p.Name, p.DType,
			len(p.Shape))
	}
	if block, ok := strings.CutSuffix(name, hf.LatentKV+".weight"); ok {
		w.latent(block, kind, p)
		return nil
	}
	norm := strings.HasSuffix(name, "norm.weight")
	// llama.cpp asks for these in F32
	floats := len(p.Shape) == 1 || norm || conv || hf.IsRouter(name) || strings.HasSuffix(name, ".bias")
	plus := float32(0)
	if w.arch.PlusOne && norm {
		plus = 1
	}
	stored := kind
	if floats {
		stored = gguf.F32
	}
	if w.turned[p.Name] {
		shape = []int{shape[1], shape[0]}
	}
	w.add(name, stored, shape, func(_ context.Context, to io.Writer) error {
		t, err := w.file.Tensor(p.Name)
		if err != nil {
			return err
		}
		data := t.Data
		if w.turned[p.Name] {
			data = transpose.Bytes(data, p.Shape[0], p.Shape[1])
		}
		if floats {
			data = Widened(quantize.DType(p.DType), data, plus)
		}
		_, err = to.Write(permuted(data, shape[0], heads))
		return err
	})
	return nil
}

// Widened converts stored floats to F32 as it is stored, and adds a number to each.
func Widened(d quantize.DType, data []byte, plus float32) []byte {
	values := make([]float32, len(data)/d.Size())
	d.Widen(values, data)
	for i := range values {
		values[i] += plus
	}
	return quantize.FloatBytes(values)
}

// permuted returns the rows of data in storage order.
func permuted[T any](data []T, rows, heads int) []T {
	if heads == 0 {
		return data
	}
	out, n := make([]T, len(data)), len(data)/rows
	for m := range rows {
		copy(out[hf.RowIn(m, rows, heads)*n:][:n], data[m*n:][:n])
	}
	return out
}

// packed enters a quantized matrix, in the first type that holds it exactly.
func (w *ggufWriter) packed(ctx context.Context, e *packed.Entry) error {
	switch {
	case e.Order:
		return refusedOrder(e)
	case e.Name == packed.ScreenName:
		w.Detail(noScreen)
		return nil
	}
	name, heads, err := w.arch.Store(e.Name, w.model.Heads, w.model.KVHeads)
	if err != nil {
		return err
	}
	all, err := unitsOf(w.file, e)
	if err != nil {
		return err
	}
	form, err := w.choose(ctx, e, all)
	if err != nil {
		return err
	}
	shape := e.MatrixShape()
	w.add(name, form.kind, []int{shape.M, shape.K}, func(ctx context.Context, to io.Writer) error {
		own, err := unitsOf(w.file, e) // read again, so that not all tensors' units are in memory at once
		if err != nil {
			return err
		}
		return form.transcode(ctx, w.file, e, own.permuted(shape.M, heads), heads, to)
	})
	if form.apart {
		w.factors(strings.TrimSuffix(name, ".weight")+".scale", all.scales)
	}
	return nil
}

func refusedOrder(e *packed.Entry) error {
	return fmt.Errorf("%w: tensor %q has an order of columns, which is not written to GGUF; lowpack unpack makes "+
		"floats of it", pack.ErrUnsupported, e.Name)
}
