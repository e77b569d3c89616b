package convert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// Form is the form of the weights in an unpacked checkpoint.
type Form string

// The forms.
const (
	FormBF16 Form = "bf16" // code × scale, rounded to BF16; codes int5, int6, int8 and of i-quants as F32
	FormF32  Form = "f32"  // code × scale
	FormU8   Form = "u8"   // packed BitNet: four ternary codes per byte, with weight_scale
)

// wideAlphabets have codes whose products with scales have more bits than BF16.
var wideAlphabets = []string{pack.Int5.Name, pack.Int6.Name, pack.Int8.Name, pack.IQ4NL.Name,
	pack.IQ3XXS.Name, pack.IQ2.Name, pack.Int4Odd.Name}

// Forms lists the forms that Unpack writes.
func Forms() []Form { return []Form{FormBF16, FormF32, FormU8} }

// UnpackOptions configures Unpack.
type UnpackOptions struct {
	Form     Form     // of the weights; it must be one of Forms
	Threads  int      // goroutines that compute; 0 = one per CPU
	Progress Progress // nil = no progress

	fs atomicfile.FS // nil: the operating system's
}

// Unpack writes the packed file source as a checkpoint in Hugging Face layout to the directory dir, which must not
// exist and appears whole or not at all. Converting the checkpoint again gives the same codes.
func Unpack(ctx context.Context, source, dir string, o UnpackOptions) (*Summary, error) {
	start := time.Now()
	in, err := packed.Open(source)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	u := &unpack{in: in, decoder: decoder{view: in, threads: o.Threads}, form: o.Form, count: newCounter(o.Progress, 0)}
	if err := u.plan(); err != nil {
		return nil, filerr.Named(source, err)
	}
	defer func() { u.decoder.memory.Free() }()
	d, err := atomicfile.CreateDir(cmp.Or(o.fs, atomicfile.OS), dir)
	if err != nil {
		return nil, err
	}
	defer d.Abort()
	if err := u.writeAll(ctx, d); err != nil {
		return nil, filerr.Named(source, err)
	}
	if err := d.Commit(); err != nil {
		return nil, err
	}
	return &Summary{
		Tensors: len(u.tensors), Quantized: len(in.Manifest().Packed),
		BytesIn: in.Size(), BytesOut: u.bytes(), Elapsed: time.Since(start), Rounded: u.rounded,
	}, nil
}

// unpack is the state of one Unpack.
type unpack struct {
	in            *packed.File
	model         *model.Description // nil for weights alone
	form          Form
	masterWeights bool // floats are scaled so that absmean reproduces codes and scales
	rounded       int  // tensors whose weights BF16 cannot hold exactly
	decoder       decoder
	count         *counter

	files   map[string][]byte
	tensors []safetensors.TensorInfo // in file order
	write   map[string]writeFunc     // by tensor
}

// writeFunc writes the data of one tensor.
type writeFunc func(ctx context.Context, to io.Writer) error

// plan decides what is written, and refuses what the form cannot represent.
func (u *unpack) plan() error {
	if !slices.Contains(Forms(), u.form) {
		return fmt.Errorf("%w: form %q; there are %v", pack.ErrUnsupported, u.form, Forms())
	}
	if err := u.planFiles(); err != nil {
		return err
	}
	m := u.in.Manifest()
	u.write = map[string]writeFunc{}
	for i := range m.Packed {
		if err := u.planPacked(&m.Packed[i]); err != nil {
			return fmt.Errorf("tensor %q: %w", m.Packed[i].Name, err)
		}
	}
	for _, p := range m.Plain {
		if !strings.HasPrefix(p.Name, packed.FilePrefix) {
			from, err := u.in.Section(p.Name)
			if err != nil {
				return err
			}
			u.count.total += from.Size()
			u.add(p.Name, safetensors.DType(p.DType), p.Shape, func(ctx context.Context, to io.Writer) error {
				return u.copy(ctx, p, to)
			})
		}
	}
	safetensors.Order(u.tensors)
	return safetensors.Place(u.tensors)
}

func (u *unpack) add(name string, d safetensors.DType, shape []int, write writeFunc) {
	info := safetensors.TensorInfo{Name: name, DType: d}
	for _, n := range shape {
		info.Shape = append(info.Shape, int64(n))
	}
	u.tensors = append(u.tensors, info)
	u.write[name] = write
}

// planPacked decides how a quantized tensor is written. Tensors derived from another one are not: a head that was made
// from the embedding, and the candidate filter of a head.
func (u *unpack) planPacked(e *packed.Entry) error {
	head := u.model != nil && e.Name == u.model.Head
	switch {
	case e.Name == packed.ScreenName:
		return nil
	case e.Name == packed.HeadName && u.model != nil && u.model.Head == u.model.Embed:
		return nil
	}
	if e.Experts() > 1 && u.inParts(e.Name) {
		return fmt.Errorf("%w: a checkpoint of family %s has tensors of single experts, which are not written",
			pack.ErrUnsupported, u.model.Family)
	}
	if e.Experts() > 1 && u.model != nil && u.model.Quant.Declared == model.Imported {
		return fmt.Errorf("%w: a checkpoint of family %s has floats of experts turned, columns where these have rows, "+
			"which are not written", pack.ErrUnsupported, u.model.Family)
	}
	u.count.total += int64(e.StoredBytes())
	if u.form == FormU8 && !head {
		return u.planCodes(e)
	}
	dtype := safetensors.BF16
	wide := slices.Contains(wideAlphabets, e.Layout.Alphabet)
	if u.form == FormF32 || wide || e.Zero || e.Min {
		dtype = safetensors.F32
	}
	if dtype == safetensors.BF16 {
		if err := u.noteRounded(e); err != nil {
			return err
		}
	}
	u.add(e.Name, dtype, e.Shape, func(ctx context.Context, to io.Writer) error {
		return u.writeFloats(ctx, e, dtype, to)
	})
	return nil
}

// inParts reports whether a checkpoint has one tensor per expert instead of the named one.
func (u *unpack) inParts(name string) bool {
	return u.model != nil && slices.ContainsFunc(u.model.Tensors(),
		func(n model.Need) bool { return n.Name == name && n.Each != "" })
}

// noteRounded counts a tensor if BF16 cannot represent some of its possible weights, unless it is written as master
// weights.
func (u *unpack) noteRounded(e *packed.Entry) error {
	if u.masterWeights && e.Quantizer == "absmean" {
		return nil
	}
	scales, err := packed.Scales(u.in, e)
	if err != nil {
		return err
	}
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return err
	}
	for _, s := range scales {
		for _, c := range a.Values {
			if w := float32(c) * s; math.Float32bits(w)&0xffff != 0 {
				u.rounded++
				return nil
			}
		}
	}
	return nil
}

// copy copies a tensor and compares its digest.
func (u *unpack) copy(ctx context.Context, p packed.Plain, to io.Writer) error {
	from, err := u.in.Section(p.Name)
	if err != nil {
		return err
	}
	h := sha256.New()
	if err := u.count.copy(ctx, io.MultiWriter(to, h), from, p.Name); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != p.SHA256 {
		return damaged(p.Name)
	}
	return nil
}

// writeAll writes all files.
func (u *unpack) writeAll(ctx context.Context, d *atomicfile.Dir) error {
	for _, name := range slices.Sorted(maps.Keys(u.files)) {
		if folder := path.Dir(name); folder != "." { // no two files are in one
			if err := d.Mkdir(folder); err != nil {
				return err
			}
		}
		if err := d.WriteFile(name, func(to io.Writer) error {
			_, err := to.Write(u.files[name])
			return err
		}); err != nil {
			return err
		}
	}
	const weights = "model.safetensors"
	if err := atomicfile.CheckSpace(filepath.Join(d.Path, weights), u.bytes()); err != nil {
		return err
	}
	return d.WriteFile(weights, func(to io.Writer) error { return u.writeWeights(ctx, to) })
}

func (u *unpack) bytes() (n int64) {
	for i := range u.tensors {
		n += u.tensors[i].Size()
	}
	return n
}

func (u *unpack) writeWeights(ctx context.Context, to io.Writer) error {
	w, err := safetensors.NewWriter(to, []safetensors.KV{{Key: "format", Value: "pt"}}, u.tensors, 8)
	if err != nil {
		return err
	}
	for _, t := range u.tensors {
		if err := u.write[t.Name](ctx, namedWriter{w, t.Name}); err != nil {
			return err
		}
	}
	return w.Close()
}

// namedWriter writes one tensor.
type namedWriter struct {
	w    *safetensors.Writer
	name string
}

func (n namedWriter) Write(p []byte) (int, error) { return len(p), n.w.Write(n.name, p) }
