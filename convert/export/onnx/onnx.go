// Package onnx writes the model of a packed file as an ONNX graph in the directory of onnxruntime-genai, and reads it
// back for verification.
package onnx

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// The files of the directory besides the tokenizer's. transformers.js looks for data under this name.
const (
	modelFile  = "model.onnx"
	dataFile   = "model.onnx_data"
	configFile = "genai_config.json"
)

// arithmeticKey names the arithmetic in the metadata of the model.
const arithmeticKey = "lowpack.arithmetic"

// Export writes the directory dir, which must not exist and appears whole or not at all, with the same bytes for the
// same input. The default arithmetic is exact if all matrices allow it, else plain. At most one tensor is in memory.
func Export(ctx context.Context, path, dir string, a export.Arithmetic, p export.Progress) (*export.Summary, error) {
	f, err := packed.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := plan(f, a)
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	if err := m.Bounds(f, m.arithmetic); err != nil {
		return nil, filerr.Named(path, err)
	}
	size, err := folder.Write(ctx, dir, m.files(), p)
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	return &export.Summary{Tensors: len(m.tensors), Bytes: size, Told: m.Told}, nil
}

// exported is the plan of a directory.
type exported struct {
	*decoder
	export.Told
	texts map[string][]byte // tokenizer files that replace the packed file's
}

// plan builds the graph of a packed file.
func plan(f *packed.File, a export.Arithmetic) (*exported, error) {
	description, err := packed.Describe(f)
	if err != nil {
		return nil, err
	}
	if err := runs(f.Manifest(), description); err != nil {
		return nil, err
	}
	m := &exported{}
	if a, m.Told, err = export.ChooseWhere(f.Manifest(), a, exactly(f)); err != nil {
		return nil, err
	}
	m.decoder = &decoder{
		builder: newBuilder(), file: f, manifest: f.Manifest(), model: description, arithmetic: a,
		products: map[[2]string]string{}, codes: map[string]codes{},
	}
	m.metadata = [][2]string{{arithmeticKey, string(a)}}
	if err := m.build(); err != nil {
		return nil, err
	}
	return m, m.chats()
}

// exactly reports why the sums of a matrix cannot be computed without rounding; nil if they can.
func exactly(v packed.View) func(*packed.Entry, packed.Activation) error {
	return func(e *packed.Entry, a packed.Activation) error {
		f, err := formOf(e)
		if err == nil && !f.exact(v, a) {
			_, err = integersOf(e, a)
		}
		return err
	}
}

// families lists the families whose blocks have been compared with lowpack in onnxruntime; bitnet-1bitllm and mobilellm
// have the blocks of bitnet and llama under other names.
var families = []string{"bitnet", "bitnet-1bitllm", "exaone4", "gemma", "gemma2", "gemma3", "gpt_oss", "granite",
	"granitemoe", "hunyuan", "llama", "minicpm", "mistral", "mixtral",
	"mobilellm", "olmo2", "olmo3", "olmoe", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"}

// runs refuses models that the graph cannot express.
func runs(m *packed.Manifest, d *model.Description) error {
	if err := export.Expressible(d); err != nil {
		return err
	}
	switch {
	case !slices.Contains(families, d.Family):
		return fmt.Errorf("%w: family %s is not written to ONNX; those that are: %s", pack.ErrUnsupported, d.Family,
			strings.Join(families, ", "))
	case d.Rope.Dim != d.HeadDim:
		return fmt.Errorf("%w: heads of which %d of %d values are rotated", pack.ErrUnsupported, d.Rope.Dim, d.HeadDim)
	}
	for i := range m.Packed {
		if e := &m.Packed[i]; len(e.Shape) != 2 && e.Order {
			return fmt.Errorf("%w: tensor %q has an order of columns for each of its experts; lowpack unpack makes "+
				"floats of it",
				pack.ErrUnsupported, e.Name)
		}
	}
	return nil
}

// files lists the directory.
func (m *exported) files() []folder.File {
	texts := folder.Texts(m.file)
	for i := range texts {
		if text, ok := m.texts[texts[i].Name]; ok {
			texts[i].Write = folder.Whole(text)
		}
	}
	return append([]folder.File{
		{Name: modelFile, Write: folder.Whole(m.encode(dataFile))},
		{Name: dataFile, Write: m.writeData, Size: m.dataSize()},
		{Name: configFile, Write: folder.Whole(m.genai())},
	}, texts...)
}
