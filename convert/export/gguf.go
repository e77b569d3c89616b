// Package export writes packed files in the formats of other runtimes, one source file per format.
package export

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// Summary describes a finished export.
type Summary struct {
	Tensors int   `json:"tensors"`
	Bytes   int64 `json:"bytes"`
	Told
}

// Told holds remarks on the result of an export.
type Told struct {
	Notes   []string `json:"notes"`   // what a user should know and act on
	Details []string `json:"details"` // what needs no action
}

// Note adds a note.
func (t *Told) Note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// Detail adds a detail.
func (t *Told) Detail(format string, args ...any) {
	t.Details = append(t.Details, fmt.Sprintf(format, args...))
}

// Progress is called with the bytes written so far, the total, and what is being written. It may be nil.
type Progress func(done, total int64, at string)

// Of returns a callback for pieces of a total, one after another.
func (p Progress) Of(total int64) func(n int, at string) {
	done := int64(0)
	return func(n int, at string) {
		if done += int64(n); p != nil {
			p(done, total, at)
		}
	}
}

// noScreen is a detail of every format.
const noScreen = "the candidate filter of the output head is left out; the head is exact without it"

// GGUFOptions choose the target program of a GGUF. The zero value means llama.cpp.
type GGUFOptions struct {
	Dialect Dialect // "": LlamaCpp
	Force   bool    // write models that the program loads and computes differently
	// Planned, if set, is told the remarks on the result before anything is written.
	Planned func(Told)
	Progress
}

// GGUF writes the model of a packed file as a GGUF. The weights are exact: a block type is chosen where it holds codes,
// zero points and scales, F16 or F32 otherwise. The file appears whole or not at all, with the same bytes for the same
// input.
func GGUF(ctx context.Context, path, target string, o GGUFOptions) (*Summary, error) {
	f, err := packed.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, err := newGGUF(ctx, f, o)
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	if o.Planned != nil {
		o.Planned(w.Told)
	}
	out, err := atomicfile.Create(atomicfile.OS, target)
	if err != nil {
		return nil, err
	}
	defer out.Abort()
	to := io.NewOffsetWriter(out, 0)
	if err := w.write(ctx, to, o.Progress); err != nil {
		return nil, err
	}
	size, _ := to.Seek(0, io.SeekCurrent) // the current position
	return &Summary{Tensors: len(w.infos), Bytes: size, Told: w.Told}, out.Commit()
}

// ggufWriter is a GGUF that is being made.
type ggufWriter struct {
	file    *packed.File
	model   *model.Description
	dialect dialect
	arch    hf.Architecture
	keys    []gguf.KV
	list    []tensor
	infos   []gguf.TensorInfo // of list, in the order of the file
	done    map[string]bool   // tensors that are entered otherwise: those of experts by layer, others as keys
	turned  map[string]bool   // tensors that are transposed
	// Bytes of int8 matrices that no block type holds: of their codes and scales, and of the floats in their place.
	codes, floats int64
	Told
}

// tensor is one of a GGUF that is being made.
type tensor struct {
	gguf.TensorInfo
	data func(ctx context.Context, to io.Writer) error
}

func newGGUF(ctx context.Context, f *packed.File, o GGUFOptions) (*ggufWriter, error) {
	d, err := packed.Describe(f)
	if err != nil {
		return nil, err
	}
	w := &ggufWriter{file: f, model: d, done: map[string]bool{}, turned: map[string]bool{}}
	for _, n := range d.Tensors() {
		w.turned[n.Name] = n.Turned
	}
	if w.dialect, err = o.Dialect.open(); err != nil {
		return nil, err
	}
	if err := w.architecture(o); err != nil {
		return nil, err
	}
	if err := w.runs(o.Force); err != nil {
		return nil, err
	}
	if err := w.describe(); err != nil {
		return nil, err
	}
	if err := w.tensors(ctx); err != nil {
		return nil, err
	}
	if err := gguf.Place(w.infos); err != nil {
		return nil, err
	}
	w.warnOfFloats()
	return w, nil
}

// warnOfFloats notes that most of the file is floats where the packed file has int8 codes.
func (w *ggufWriter) warnOfFloats() {
	all := int64(0)
	for i := range w.infos {
		all += w.infos[i].Size
	}
	if w.floats > all/2 && w.floats > 3*w.codes/2 {
		w.Note("the GGUF holds floats where the packed file has codes, %.1f MB in place of %.1f: no block type of the "+
			"program has these codes and scales; convert with --quant int8 --scale group:32 or with --quant int4 "+
			"for one that has them", float64(w.floats)/1e6, float64(w.codes)/1e6)
	}
}

// architecture finds the architecture of the program. A BitNet with squared ReLU has another one where it is computed.
func (w *ggufWriter) architecture(o GGUFOptions) error {
	d := w.model
	var err error
	if w.arch, err = hf.ArchitectureOf(d.Family); err != nil {
		return err
	}
	if d.Activation == model.ReLU2 && w.arch.Name == bitnet && w.dialect.relu2 != "" {
		if w.arch, err = hf.ArchitectureOf(w.dialect.relu2); err != nil {
			return err
		}
	}
	switch {
	case !w.arch.Alone || o.Dialect == "" || o.Dialect == LlamaCpp:
	case w.arch.Experts:
		return fmt.Errorf("%w: a mixture of experts, which is written for llama.cpp alone", pack.ErrUnsupported)
	default:
		return fmt.Errorf("%w: architecture %s, which is written for llama.cpp alone", pack.ErrUnsupported, w.arch.Name)
	}
	return w.arch.Fits(d)
}

// bitnet computes SiLU in llama.cpp, and squared ReLU in some models.
const bitnet = "bitnet"

// activates refuses an activation that the program would not compute.
func (w *ggufWriter) activates(force bool) error {
	d := w.model
	switch {
	case d.Activation == w.arch.Activation:
		if d.Activation == model.ReLU2 && w.dialect.doubt != "" {
			w.Note("%s", w.dialect.doubt)
		}
		return nil
	case d.Activation != model.ReLU2 || w.arch.Name != bitnet:
		return fmt.Errorf("%w: the model computes %s, and llama.cpp computes %s for architecture %s",
			pack.ErrUnsupported, d.Activation, w.arch.Activation, w.arch.Name)
	case !force:
		return fmt.Errorf("%w: the model computes squared ReLU, and llama.cpp computes SiLU for architecture bitnet, "+
			"whatever a file says: it would load and write nonsense. --dialect ik and bitnet.cpp are for programs "+
			"that compute it; --force writes the file all the same", pack.ErrUnsupported)
	}
	w.Note("llama.cpp computes SiLU where this model needs squared ReLU: run the file with programs that read " +
		"bitnet.hidden_activation")
	return nil
}

// runs refuses models that the program would load but compute differently.
func (w *ggufWriter) runs(force bool) error {
	d := w.model
	if err := w.activates(force); err != nil {
		return err
	}
	for i := range d.Blocks {
		switch local := w.arch.Local(d, i); {
		case d.Blocks[i].Local == local:
		case local:
			return fmt.Errorf("%w: layer %d has no sliding window, and architecture %s of llama.cpp has one there",
				pack.ErrUnsupported, i, w.arch.Name)
		case !force:
			return fmt.Errorf("%w: layer %d has a sliding window of %d tokens, and architecture %s of llama.cpp has "+
				"none: it computes texts that are longer differently. --force writes the file all the same",
				pack.ErrUnsupported, i,
				d.SlidingWindow, w.arch.Name)
		default:
			w.Note("keep texts within %d tokens: llama.cpp has no sliding window in architecture %s, and computes "+
				"longer ones differently", d.SlidingWindow, w.arch.Name)
			return nil
		}
	}
	if w.arch.Windowed(d) {
		w.Note("windows are in other blocks than usual: llama.cpp must be a version that reads a list as "+
			"%s.attention.sliding_window_pattern; older ones compute another model", w.arch.Name)
	}
	return nil
}

// add adds a tensor; its data come later.
func (w *ggufWriter) add(name string, kind gguf.Type, shape []int, data func(ctx context.Context, to io.Writer) error) {
	t := tensor{gguf.TensorInfo{Name: name, Type: kind}, data}
	for _, d := range shape {
		t.Shape = append(t.Shape, int64(d))
	}
	w.list = append(w.list, t)
}

// tensors adds all tensors: tensors outside of blocks first, then block after block.
func (w *ggufWriter) tensors(ctx context.Context) error {
	m := w.file.Manifest()
	if err := w.experts(ctx); err != nil {
		return err
	}
	for i := range m.Plain {
		if strings.HasPrefix(m.Plain[i].Name, packed.FilePrefix) || w.done[m.Plain[i].Name] {
			continue
		}
		if err := w.plain(&m.Plain[i]); err != nil {
			return err
		}
	}
	for i := range m.Packed {
		if w.done[m.Packed[i].Name] {
			continue
		}
		if err := w.packed(ctx, &m.Packed[i]); err != nil {
			return err
		}
	}
	if err := w.rope(); err != nil {
		return err
	}
	slices.SortFunc(w.list, func(a, b tensor) int { return compareNames(a.Name, b.Name) })
	for _, t := range w.list {
		w.infos = append(w.infos, t.TensorInfo)
	}
	return nil
}

// compareNames orders blocks by their number.
func compareNames(a, b string) int {
	var x, y int
	fmt.Sscanf(a, "blk.%d.", &x)
	fmt.Sscanf(b, "blk.%d.", &y)
	inBlock := func(s string) int { return len(s) - len(strings.TrimPrefix(s, "blk.")) }
	if n := inBlock(a) - inBlock(b); n != 0 {
		return n
	}
	if x != y {
		return x - y
	}
	return strings.Compare(a, b)
}

func (w *ggufWriter) write(ctx context.Context, to io.Writer, p Progress) error {
	out, err := gguf.NewWriter(to, w.keys, w.infos)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, t := range w.infos {
		total += t.Size
	}
	report := p.Of(total)
	for _, t := range w.list {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := t.data(ctx, named{out, t.Name, report}); err != nil {
			return err
		}
	}
	return out.Close()
}

// named writes the data of a tensor.
type named struct {
	*gguf.Writer
	name   string
	report func(n int, at string)
}

func (n named) Write(p []byte) (int, error) {
	err := n.Writer.Write(n.name, p)
	if err == nil {
		n.report(len(p), n.name)
	}
	return len(p), err
}
