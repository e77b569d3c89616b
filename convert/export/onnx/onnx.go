// Package onnx writes the model of a packed file as an ONNX graph in the directory of onnxruntime-genai, and reads it back for verification.
package onnx

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// Arithmetic is how the graph computes quantized linear layers.
type Arithmetic string

const (
	// Exact quantizes activations as NUMERICS N14 does, in the graph, and adds integers that are written as floats: their sums are those of
	// lowpack on any number of threads.
	Exact Arithmetic = "exact"
	// Plain leaves activations floats: only the weights are quantized.
	Plain Arithmetic = "plain"
)

// Arithmetics lists them.
func Arithmetics() []string { return []string{string(Exact), string(Plain)} }

// The files of the directory beside those of the tokenizer.
const (
	modelFile  = "model.onnx"
	dataFile   = "model.onnx.data"
	configFile = "genai_config.json"
)

// arithmeticKey of the metadata of the model says how it computes.
const arithmeticKey = "lowpack.arithmetic"

// Export writes the directory dir, which must not exist and appears whole or not at all, with the same bytes for the same input. Without
// an arithmetic it is Exact where all matrices allow that, else Plain. No more than one tensor is in memory.
func Export(ctx context.Context, path, dir string, a Arithmetic) (*export.Summary, error) {
	f, err := packed.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := plan(f, a)
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	out, err := atomicfile.CreateDir(atomicfile.OS, dir)
	if err != nil {
		return nil, err
	}
	defer out.Abort()
	s := &export.Summary{Tensors: len(m.tensors), Notes: m.notes}
	for _, file := range m.files() {
		err := out.WriteFile(file.name, func(w io.Writer) error {
			c := &counting{to: stopping{ctx, w}}
			err := file.write(c)
			s.Bytes += c.n
			return err
		})
		if err != nil {
			return nil, filerr.Named(path, err)
		}
	}
	return s, out.Commit()
}

// stopping ends writing with its context.
type stopping struct {
	ctx context.Context
	w   io.Writer
}

func (s stopping) Write(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.w.Write(p)
}

// exported is the plan of a directory.
type exported struct {
	*decoder
	notes []string
}

// plan builds the graph of a packed file.
func plan(f *packed.File, a Arithmetic) (*exported, error) {
	description, err := packed.Describe(f)
	if err != nil {
		return nil, err
	}
	if err := runs(f.Manifest(), description); err != nil {
		return nil, err
	}
	m := &exported{}
	if a, err = m.choose(f.Manifest(), a); err != nil {
		return nil, err
	}
	m.decoder = &decoder{
		builder: newBuilder(), file: f, manifest: f.Manifest(), model: description, arithmetic: a,
		products: map[[2]string]string{},
	}
	m.metadata = [][2]string{{arithmeticKey, string(a)}}
	if err := m.build(); err != nil {
		return nil, err
	}
	m.noteTemplate()
	return m, nil
}

// families are those whose blocks have been compared with lowpack in onnxruntime; bitnet-1bitllm and mobilellm have those of bitnet and llama
// under other names.
var families = []string{"bitnet", "bitnet-1bitllm", "exaone4", "gemma3", "granite", "llama", "mistral", "mobilellm", "olmo2", "olmo3", "phi3", "qwen2", "smollm3"}

// runs refuses what has no form in the graph.
func runs(m *packed.Manifest, d *model.Description) error {
	switch {
	case !slices.Contains(families, d.Family):
		return fmt.Errorf("%w: family %s is not written to ONNX; those that are: %s", pack.ErrUnsupported, d.Family, strings.Join(families, ", "))
	case d.Rope.Dim != d.HeadDim:
		return fmt.Errorf("%w: heads of which %d of %d values are rotated", pack.ErrUnsupported, d.Rope.Dim, d.HeadDim)
	case d.HeadDim%16 != 0:
		return fmt.Errorf("%w: heads of %d values: onnxruntime's GroupQueryAttention rotates multiples of 16", pack.ErrUnsupported, d.HeadDim)
	}
	for i := range m.Packed {
		if e := &m.Packed[i]; e.Order || len(e.Shape) != 2 {
			return fmt.Errorf("%w: tensor %q has an order of columns or experts, which are not written to ONNX; lowpack unpack makes floats of it", pack.ErrUnsupported, e.Name)
		}
	}
	return nil
}

// choose takes the arithmetic that was asked for, or the one that all matrices allow.
func (m *exported) choose(manifest *packed.Manifest, a Arithmetic) (Arithmetic, error) {
	quantized := false
	for i := range manifest.Packed {
		e := &manifest.Packed[i]
		if e.Name == packed.ScreenName {
			m.notes = append(m.notes, "the candidate filter of the output head is left out; the head is exact without it")
			continue
		}
		quantized = true
		f, err := formOf(e)
		if err != nil {
			return "", err
		}
		if err = f.exact(manifest.Activation); err == nil || a == Plain {
			continue
		}
		if a == Exact {
			return "", fmt.Errorf("no exact arithmetic: %w; --arithmetic plain leaves activations floats", err)
		}
		m.notes = append(m.notes, fmt.Sprintf("activations stay floats (--arithmetic plain), so logits differ from those of lowpack: no exact arithmetic: %v", err))
		return Plain, nil
	}
	if !quantized {
		return Plain, nil
	}
	return cmp.Or(a, Exact), nil
}

// file is one of the directory.
type file struct {
	name  string
	write func(io.Writer) error
}

// files lists the directory.
func (m *exported) files() []file {
	list := []file{
		{modelFile, whole(m.encode(dataFile))},
		{dataFile, m.writeData},
		{configFile, whole(m.genai())},
	}
	for _, name := range texts {
		if data, ok := m.file.Embedded(name); ok {
			list = append(list, file{name, whole(data)})
		}
	}
	return list
}

func whole(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}
