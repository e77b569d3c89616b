package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/pack"
)

// checkSource is level source: the file says what the checkpoint says. Its quantizers (rules.go) are written from the
// definitions and share nothing with those of convert, and neither does its reader of tensors (second.go).
func (s *session) checkSource() error {
	if s.fromErr != nil {
		return s.finding(Source, "checkpoint", "open", s.fromErr)
	}
	return s.compareWith(s.from)
}

// openSource opens the checkpoint, if there is one. A missing one ends the verification before it has begun; problems
// of an existing one are found at its level.
func (s *session) openSource() error {
	if s.Source == "" {
		return nil
	}
	s.from, s.fromErr = checkpoint.Open(s.Source)
	if errors.Is(s.fromErr, fs.ErrNotExist) {
		return s.fromErr
	}
	return nil
}

// compareWith compares the file with an open checkpoint.
func (s *session) compareWith(c *checkpoint.Checkpoint) error {
	second, err := s.readAgain(c)
	if err != nil {
		return err
	}
	s.report.Details = append(s.report.Details, uncoveredNote)
	o := &origin{session: s, from: c, second: second}
	if err := o.checkConfig(); err != nil {
		return err
	}
	if err := o.checkActivation(); err != nil {
		return err
	}
	if err := o.checkDeclared(); err != nil {
		return err
	}
	if err := o.each(Source, "checkpoint",
		slices.Concat(o.files(), o.quantized(), o.kept(), o.embedded())); err != nil {
		return err
	}
	if err := o.checkComplete(); err != nil {
		return err
	}
	return s.one(Source, "checkpoint", "", "unchanged while it was read", c.Unchanged)
}

// uncoveredNote names what a manifest says and no checkpoint tells (TestMetadata).
const uncoveredNote = "not covered, since the checkpoint does not tell: which version made the file (tool), and what " +
	"was asked of it (recipe)"

// origin is the checkpoint that a packed file is compared with.
type origin struct {
	*session
	from   *checkpoint.Checkpoint
	second *second
	model  *model.Description // nil: weights without a model
	scheme *quantized.Scheme  // of codes in another format; nil: none
	layers map[string]*quantized.Layer
	parts  map[string][]string // tensors of single experts that a checkpoint may have in place of one of all
}

// checkConfig reads config.json.
func (o *origin) checkConfig() error {
	if o.from.Config() == nil {
		return nil
	}
	return o.one(Source, "checkpoint", "", "family and shapes", func() (err error) {
		if err := o.readLayers(); err != nil {
			return err
		}
		o.model, err = model.Parse(o.from.Config(), nil, o.scheme.Shapes(o.lookup))
		o.parts = partsOf(o.model)
		if family := o.file.Manifest().Family; err == nil && o.model.Family != family {
			return broken("F11", "the manifest names family %q, the checkpoint is of family %q", family, o.model.Family)
		}
		return err
	})
}

// files compares the files of the checkpoint with the digests in the manifest.
func (o *origin) files() []item {
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
		items = append(items, o.sourceFile(name, f.want, f.have))
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.name, b.name) })
	return items
}

// sourceFile compares a file of the checkpoint with its entry in the manifest; nil stands for none.
func (o *origin) sourceFile(name string, want, have *packed.Source) item {
	it := item{group: "source files", name: name}
	r, err := o.sourceBytes(name, want, have)
	if err != nil {
		it.check = func() error { return err }
		return it
	}
	it.size, it.bytes = r.Size(), newDigest(r, want.SHA256, otherBytes)
	return it
}

func (o *origin) sourceBytes(name string, want, have *packed.Source) (*io.SectionReader, error) {
	switch {
	case have == nil:
		return nil, broken("", "convert read this file; the checkpoint has it no more")
	case want == nil:
		return nil, broken("", "convert did not read this file: it is new")
	case have.Size != want.Size:
		return nil, broken("", "%d bytes; convert read %d", have.Size, want.Size)
	}
	return o.from.OpenSource(name)
}

// quantized computes codes and scales of every packed tensor again.
func (o *origin) quantized() []item {
	m := o.file.Manifest()
	items, calibrated := make([]item, len(m.Packed)), 0
	for i := range m.Packed {
		e := &m.Packed[i]
		items[i] = item{group: "codes and scales", name: e.Name, size: e.Weights(),
			check: func() error { return o.checkQuantized(e) }}
		if e.Calibrated {
			calibrated++
		}
	}
	switch c := m.Recipe.Calibration; {
	case calibrated > 0:
		o.report.note(calibrationNote(c, calibrated, len(items)))
		if c != nil && c.SelfSeed != 0 {
			items = append(items, item{group: "codes and scales", name: "calibration", rule: "N73", size: 1,
				check: func() error { return o.checkSelf(c) }})
		}
	case c != nil:
		items = append(items, item{group: "codes and scales", name: "calibration", rule: "F9", size: 1,
			check: func() error {
				return broken("F9", "the recipe names a calibration text, of which no tensor was made")
			}})
	}
	return items
}

// tensorOf is the tensor of the checkpoint that an entry was made from.
func (o *origin) tensorOf(e *packed.Entry) (sourceTensor, error) {
	name := e.Name
	if name == packed.ScreenName && o.model != nil {
		name = o.model.Head
	}
	if name == packed.HeadName && o.model != nil && o.model.Head == o.model.Embed {
		name = o.model.Embed
	}
	t, ok := o.second.tensors[name]
	if parts := o.parts[name]; !ok && parts != nil {
		return o.join(name, parts)
	}
	if !ok {
		return t, broken("", "the checkpoint has no tensor %q", name)
	}
	return t, nil
}

// kept compares the passthrough tensors.
func (o *origin) kept() []item {
	var items []item
	for i := range o.file.Manifest().Plain {
		if p := &o.file.Manifest().Plain[i]; !strings.HasPrefix(p.Name, packed.FilePrefix) {
			items = append(items, o.keptTensor(p))
		}
	}
	return items
}

func (o *origin) keptTensor(p *packed.Plain) item {
	it := item{group: "passthrough tensors", name: p.Name, rule: "F7"}
	t, ok := o.second.tensors[p.Name]
	switch {
	case !ok:
		it.check = func() error { return broken("F7", "the checkpoint has no such tensor") }
	case t.dtype != string(p.DType) || !slices.Equal(t.shape, p.Shape):
		it.check = func() error {
			return broken("F7", "%s %v; in the checkpoint %s %v", p.DType, p.Shape, t.dtype, t.shape)
		}
	default:
		r := io.NewSectionReader(t, 0, t.size)
		it.size, it.bytes = t.size, newDigest(r, p.SHA256, func(got, want string) error {
			return broken("F7", "SHA-256 in the checkpoint is %s, in the packed file %s", got, want)
		})
	}
	return it
}

// embedded compares the small files that travel in the packed file with the checkpoint's.
func (o *origin) embedded() []item {
	digests := map[string]string{}
	for _, p := range o.file.Manifest().Plain {
		if name, ok := strings.CutPrefix(p.Name, packed.FilePrefix); ok {
			digests[name] = p.SHA256
		}
	}
	var items []item
	for _, name := range modelfile.Names() {
		text, inSource := o.from.File(name)
		digest, inFile := digests[name]
		if !inSource && !inFile {
			continue
		}
		items = append(items, item{group: "embedded files", name: name, rule: "F7", size: 1, check: func() error {
			switch sum := sha256.Sum256(text); {
			case !inSource:
				return broken("F7", "the checkpoint has no such file")
			case !inFile:
				return broken("F7", "the checkpoint has this file, the packed file lacks it")
			case hex.EncodeToString(sum[:]) != digest:
				return broken("F7", "the file in the checkpoint is another one")
			}
			return nil
		}})
	}
	return items
}

// checkComplete demands that every tensor of the checkpoint is in the file, except tensors that carry no information.
func (o *origin) checkComplete() error {
	used := map[string]bool{}
	m := o.file.Manifest()
	for i := range m.Packed {
		if layers := o.layersOf(&m.Packed[i]); layers != nil && m.Packed[i].Quantizer == importCodes {
			for _, l := range layers {
				for _, name := range slices.Concat(l.Tensors, l.Ignored) {
					used[name] = true
				}
			}
			continue
		}
		for _, name := range o.parts[m.Packed[i].Name] {
			used[name] = true
		}
		if t, err := o.tensorOf(&m.Packed[i]); err == nil {
			used[t.name] = true
			used[t.name+"_scale"] = used[t.name+"_scale"] || m.Packed[i].Quantizer == importU8
		}
	}
	for _, p := range m.Plain {
		used[p.Name] = true
	}
	return o.one(Source, "checkpoint", "", "no tensor is left out", func() error {
		for _, name := range slices.Sorted(maps.Keys(o.second.tensors)) {
			tied := o.model != nil && o.model.Head == o.model.Embed && name == packed.HeadName
			other := o.model != nil && o.model.Elsewhere(name)
			if !used[name] && !tied && !other && !o.spare(name) && o.scheme.Unused(name) == "" &&
				!strings.HasSuffix(name, ".rotary_emb.inv_freq") {
				return fmt.Errorf("%w: tensor %q of the checkpoint is not in the file", pack.ErrCorrupt, name)
			}
		}
		return nil
	})
}

// spare reports whether the model has no use for a tensor, by its name alone.
func (o *origin) spare(name string) bool {
	return o.model != nil && slices.ContainsFunc(o.model.Spare, func(s model.Spare) bool {
		return strings.HasPrefix(name, s.Prefix)
	})
}
