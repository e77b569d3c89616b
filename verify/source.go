package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// checkSource is level source: the file says what the checkpoint says. Its quantizers (rules.go) are written from the
// definitions and share nothing with those of convert.
func (s *session) checkSource() error {
	c, err := checkpoint.Open(s.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return s.finding(Source, "checkpoint", s.Source, err)
	}
	defer c.Close()
	o := &origin{session: s, from: c}
	for _, check := range []func() error{o.checkConfig, o.checkFiles, o.checkPacked, o.checkKept, o.checkEmbedded, o.checkComplete} {
		if err := check(); err != nil {
			return err
		}
	}
	return s.one(Source, "checkpoint", "", "unchanged while it was read", c.Unchanged)
}

// origin is the checkpoint that a packed file is compared with.
type origin struct {
	*session
	from  *checkpoint.Checkpoint
	model *model.Description // nil: weights without a model
}

// checkConfig reads config.json.
func (o *origin) checkConfig() error {
	if o.from.Config() == nil {
		return nil
	}
	return o.one(Source, "checkpoint", "", "config.json", func() (err error) {
		o.model, err = model.Parse(o.from.Config(), nil, func(name string) ([]int, bool) {
			t, ok := o.from.Lookup(name)
			return t.Shape, ok
		})
		return err
	})
}

// checkFiles compares the files of the checkpoint with the digests in the manifest.
func (o *origin) checkFiles() error {
	type source struct{ want, have *packed.Source }
	byName := map[string]*source{}
	for _, f := range o.from.Sources() {
		byName[f.Name] = &source{have: &packed.Source{Name: f.Name, Size: f.Size}}
	}
	m := o.file.Manifest()
	for i := range m.Sources {
		f := byName[m.Sources[i].Name]
		if f == nil {
			f = &source{}
			byName[m.Sources[i].Name] = f
		}
		f.want = &m.Sources[i]
	}
	var items []item
	for name, f := range byName {
		size := int64(0)
		if f.have != nil {
			size = f.have.Size
		}
		items = append(items, item{name, size})
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.name, b.name) })
	return o.each(Source, "source files", "", items, func(i int) error {
		name := items[i].name
		f := byName[name]
		switch {
		case f.have == nil:
			return broken("", "convert read this file; the checkpoint has it no more")
		case f.want == nil:
			return broken("", "convert did not read this file: it is new")
		case f.have.Size != f.want.Size:
			return broken("", "%d bytes; convert read %d", f.have.Size, f.want.Size)
		}
		r, err := o.from.OpenSource(name)
		if err != nil {
			return err
		}
		return o.sameDigest(r, f.want.SHA256)
	})
}

// checkPacked computes codes and scales of every packed tensor again.
func (o *origin) checkPacked() error {
	m := o.file.Manifest()
	items := make([]item, len(m.Packed))
	for i := range m.Packed {
		items[i] = item{m.Packed[i].Name, int64(m.Packed[i].Shape[0]) * int64(m.Packed[i].Shape[1])}
	}
	return o.each(Source, "codes and scales", "", items, func(i int) error { return o.checkQuantized(&m.Packed[i]) })
}

// tensorOf is the tensor of the checkpoint that an entry was made from.
func (o *origin) tensorOf(e *packed.Entry) (checkpoint.Tensor, error) {
	name := e.Name
	if name == packed.ScreenName && o.model != nil {
		name = o.model.Head
	}
	if name == packed.HeadName && o.model != nil && o.model.Head == o.model.Embed {
		name = o.model.Embed
	}
	t, ok := o.from.Lookup(name)
	if !ok {
		return t, broken("", "the checkpoint has no tensor %q", name)
	}
	return t, nil
}

// checkKept compares the tensors that were kept as they are.
func (o *origin) checkKept() error {
	var items []item
	kept := map[string]*packed.Plain{}
	m := o.file.Manifest()
	for i := range m.Plain {
		if p := &m.Plain[i]; !strings.HasPrefix(p.Name, packed.FilePrefix) {
			t, _ := o.from.Lookup(p.Name)
			items = append(items, item{p.Name, t.Size})
			kept[p.Name] = p
		}
	}
	return o.each(Source, "kept tensors", "F7", items, func(i int) error {
		p := kept[items[i].name]
		t, ok := o.from.Lookup(p.Name)
		if !ok {
			return broken("F7", "the checkpoint has no such tensor")
		}
		if string(t.DType) != p.DType || !slices.Equal(t.Shape, p.Shape) {
			return broken("F7", "%s %v; in the checkpoint %s %v", p.DType, p.Shape, t.DType, t.Shape)
		}
		return o.sameTensor(t, p.SHA256)
	})
}

// sameTensor compares the digest of a tensor of the checkpoint.
func (o *origin) sameTensor(t checkpoint.Tensor, want string) error {
	h := sha256.New()
	b := make([]byte, min(1<<18, t.Size))
	for off := int64(0); off < t.Size; off += int64(len(b)) {
		if err := context.Cause(o.ctx); err != nil {
			return err
		}
		b = b[:min(int64(len(b)), t.Size-off)]
		if err := o.from.ReadAt(t, b, off); err != nil {
			return err
		}
		h.Write(b)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return broken("F7", "SHA-256 in the checkpoint is %s, in the packed file %s", got, want)
	}
	return nil
}

// checkEmbedded compares the small files that travel in the packed file.
func (o *origin) checkEmbedded() error {
	var items []item
	var digests []string
	for _, p := range o.file.Manifest().Plain {
		if name, ok := strings.CutPrefix(p.Name, packed.FilePrefix); ok {
			items, digests = append(items, item{name, 1}), append(digests, p.SHA256)
		}
	}
	return o.each(Source, "embedded files", "F7", items, func(i int) error {
		b, ok := o.from.File(items[i].name)
		if !ok {
			return broken("F7", "the checkpoint has no such file")
		}
		if d := sha256.Sum256(b); hex.EncodeToString(d[:]) != digests[i] {
			return broken("F7", "the file in the checkpoint is another one")
		}
		return nil
	})
}

// checkComplete demands that every tensor of the checkpoint has found its way into the file, but for those that say nothing.
func (o *origin) checkComplete() error {
	used := map[string]bool{}
	m := o.file.Manifest()
	for i := range m.Packed {
		if t, err := o.tensorOf(&m.Packed[i]); err == nil {
			used[t.Name] = true
			used[t.Name+"_scale"] = used[t.Name+"_scale"] || m.Packed[i].Quantizer == importU8
		}
	}
	for _, p := range m.Plain {
		used[p.Name] = true
	}
	return o.one(Source, "checkpoint", "", "no tensor is left out", func() error {
		for _, t := range o.from.Tensors() {
			tied := o.model != nil && o.model.Head == o.model.Embed && t.Name == packed.HeadName
			if !used[t.Name] && !tied && !strings.HasSuffix(t.Name, ".rotary_emb.inv_freq") {
				return fmt.Errorf("%w: tensor %q of the checkpoint is not in the file", pack.ErrCorrupt, t.Name)
			}
		}
		return nil
	})
}
