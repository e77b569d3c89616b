// Package openvino writes the model of a packed file in OpenVINO's intermediate representation, in the directory of
// OpenVINO GenAI, and reads it back for verification.
package openvino

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/chat"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// The files of the directory besides the packed file's. The data of a graph are in a file of the same name.
const (
	modelFile       = "openvino_model.xml"
	tokenizerFile   = "openvino_tokenizer.xml"
	detokenizerFile = "openvino_detokenizer.xml"
	configFile      = "openvino_config.json"
	generationFile  = "generation_config.json"
)

// dataOf is the file with the data of a graph.
func dataOf(name string) string { return strings.TrimSuffix(name, ".xml") + ".bin" }

// arithmeticKey names the arithmetic of the model in rt_info.
const arithmeticKey = "arithmetic"

// Export writes the directory dir, which must not exist and appears whole or not at all, with the same bytes for the
// same input. The default arithmetic is exact if all matrices allow it, else plain. At most one tensor is in memory.
func Export(ctx context.Context, path, dir string, a export.Arithmetic, p export.Progress) (*export.Summary, error) {
	return write(ctx, path, dir, a, nil, p)
}

func write(ctx context.Context, path, dir string, a export.Arithmetic, s *Static,
	p export.Progress) (*export.Summary, error) {
	f, err := packed.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := plan(f, a, s)
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
	return &export.Summary{Tensors: m.tensors(), Bytes: size, Told: m.Told}, nil
}

// exported is the plan of a directory.
type exported struct {
	*source
	graphs []graphFile
	export.Told
}

// graphFile is a graph with the name of its file.
type graphFile struct {
	name string
	*builder
	shares bool // the data file of another graph
}

func (m *exported) graph(name string, b *builder, shares bool) {
	m.graphs = append(m.graphs, graphFile{name, b, shares})
}

// err is the first error of a graph.
func (m *exported) err() error {
	for _, g := range m.graphs {
		if g.err != nil {
			return g.err
		}
	}
	return nil
}

// tensors is the number of constants of all graphs.
func (m *exported) tensors() (n int) {
	for _, g := range m.graphs {
		if !g.shares {
			n += len(g.constants)
		}
	}
	return n
}

// plan builds the graphs of a packed file, of static shapes if s is not nil.
func plan(f *packed.File, a export.Arithmetic, s *Static) (*exported, error) {
	description, err := packed.Describe(f)
	if err != nil {
		return nil, err
	}
	if err := runs(f.Manifest(), description); err != nil {
		return nil, err
	}
	m := &exported{}
	if a, m.Told, err = export.Choose(f, a); err != nil {
		return nil, err
	}
	m.source = &source{file: f, manifest: f.Manifest(), model: description, arithmetic: a, forms: map[string]*form{}}
	if s != nil {
		err = m.cut(*s)
	} else {
		err = m.whole()
	}
	if err != nil {
		return nil, err
	}
	return m, m.texts()
}

// whole plans the model of dynamic shapes.
func (m *exported) whole() error {
	d := m.decoder(newBuilder())
	d.dynamic()
	m.graph(modelFile, d.builder, false)
	return d.err
}

// tokenizersVersion is the version of openvino_tokenizers whose operators are written. Without it, OpenVINO GenAI
// ignores the options of a tokenizer.
const tokenizersVersion = "2026.4.1.0"

// texts adds the graphs of the tokenizer, as far as OpenVINO has operators for it.
func (m *exported) texts() error {
	v, err := readVocabulary(m.file.Embedded)
	if errors.Is(err, pack.ErrUnsupported) {
		m.Note("tokenize elsewhere: no tokenizer for OpenVINO is written: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	info := []field{{name: "openvino_tokenizers_version", value: tokenizersVersion}}
	id := func(name string, id int) {
		if id >= 0 {
			info = append(info, field{name: name, value: strconv.Itoa(id)})
		}
	}
	id("bos_token_id", m.model.BOS)
	if len(m.model.EOS) > 0 {
		id("eos_token_id", m.model.EOS[0])
	}
	if template := chat.Template(m.file.Embedded); template != "" {
		ours, err := chat.For(chat.OpenVINO, v.loaded, template)
		if err != nil {
			m.Note("render conversations elsewhere: OpenVINO GenAI cannot render the chat template, which is left "+
				"out of its tokenizer: %v", err)
		} else {
			info = append(info, field{name: "chat_template", value: ours})
		}
	}
	m.graph(tokenizerFile, v.tokenizer(m.model.FixedPositions(), info), false)
	m.graph(detokenizerFile, v.detokenizer(info), false)
	return nil
}

// runs refuses models that the graph cannot express.
func runs(m *packed.Manifest, d *model.Description) error {
	if err := export.Expressible(d); err != nil {
		return err
	}
	for i := range d.Blocks {
		if d.Blocks[i].Experts != nil {
			return fmt.Errorf("%w: family %s has experts, which are not written to OpenVINO",
				pack.ErrUnsupported, d.Family)
		}
	}
	for i := range m.Packed {
		if e := &m.Packed[i]; len(e.Shape) != 2 {
			return fmt.Errorf("%w: tensor %q has experts, which are not written to OpenVINO",
				pack.ErrUnsupported, e.Name)
		}
	}
	return nil
}

// files lists the directory.
func (m *exported) files() []folder.File {
	list := m.written()
	if m.static == nil {
		list = append(list, folder.File{Name: configFile, Write: folder.Whole(m.config())})
	}
	if _, ok := m.file.Embedded(generationFile); !ok {
		list = append(list, folder.File{Name: generationFile, Write: folder.Whole(m.generation())})
	}
	return append(list, folder.Texts(m.file)...)
}

// written returns the files of the graphs.
func (m *exported) written() (list []folder.File) {
	for _, g := range m.graphs {
		list = append(list, folder.File{Name: g.name, Write: g.writeXML})
		if !g.shares {
			list = append(list, folder.File{Name: dataOf(g.name), Write: g.writeData, Size: g.end})
		}
	}
	return list
}

// config returns optimum-intel's record of how a model was exported.
func (m *exported) config() []byte {
	return indented(struct {
		DType    string    `json:"dtype"`
		Input    *struct{} `json:"input_info"`
		SaveONNX bool      `json:"save_onnx_model"`
	}{DType: "fp32"})
}

// generation returns generation_config.json for a model that has none: the tokens that begin and end a text.
func (m *exported) generation() []byte {
	var c struct {
		FromModel bool  `json:"_from_model_config"`
		BOS       *int  `json:"bos_token_id,omitempty"`
		EOS       []int `json:"eos_token_id,omitempty"`
	}
	c.FromModel, c.EOS = true, m.model.EOS
	if m.model.BOS >= 0 {
		c.BOS = &m.model.BOS
	}
	return indented(c)
}

func indented(v any) []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // numbers and constant names
	}
	return append(text, '\n')
}
