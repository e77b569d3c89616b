package packed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/plainerr"
	"github.com/lowpack/lowpack/pack"
)

// Metadata of part files: the value of `format`, and the keys of the description and its digest.
const (
	partFormat    = "lowpack-part"
	partKey       = "lowpack.part"
	partDigestKey = "lowpack.part.sha256"
)

// Part says which of Count parts a file is, and which tensors and source digests it holds. Together the parts of a
// conversion hold the whole packed file except the golden outputs.
type Part struct {
	Index, Count int      // 1 … Count
	Tensors      []string // stored names
	Sources      []string
}

// PartInfo is the description of a part file: the plan of the packed file, and the digests of its contents.
type PartInfo struct {
	Index   int          `json:"index"`
	Count   int          `json:"count"`
	Plan    Manifest     `json:"plan"`   // with zeros for digests
	Golden  int64        `json:"golden"` // bytes of the golden outputs to be added
	Tensors []PartTensor `json:"tensors"`
	Sources []PartTensor `json:"sources"`
}

// PartTensor is a stored tensor, or a source file.
type PartTensor struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Codes  string `json:"codes_sha256,omitempty"` // of packed codes
}

// part is the state of a Writer that writes a part file.
type part struct {
	info    PartInfo
	entries map[string]*Entry  // in the manifest of the writer, by the name of the packed tensor
	sources map[string]*Source // likewise
}

// restrict makes w a writer of the part named by c.
func (w *Writer) restrict(c *Contents) error {
	plan := *w.manifest
	plan.Packed, plan.Sources = slices.Clone(plan.Packed), slices.Clone(plan.Sources)
	p := &part{
		info: PartInfo{Index: c.Part.Index, Count: c.Part.Count, Plan: plan, Golden: c.Golden, Tensors: []PartTensor{},
			Sources: []PartTensor{}},
		entries: map[string]*Entry{}, sources: map[string]*Source{},
	}
	for i := range w.manifest.Packed {
		e := &w.manifest.Packed[i]
		p.entries[e.Name+PackedSuffix] = e
	}
	for i := range w.manifest.Sources {
		p.sources[w.manifest.Sources[i].Name] = &w.manifest.Sources[i]
	}
	f := &frame{index: map[string]int{}}
	for _, t := range w.frame.tensors { // in file order
		if !slices.Contains(c.Part.Tensors, t.Name) {
			continue
		}
		if _, ok := p.entries[t.Name]; ok {
			f.packed++
		}
		f.index[t.Name] = len(f.tensors)
		f.tensors = append(f.tensors, t)
		p.info.Tensors = append(p.info.Tensors, PartTensor{Name: t.Name})
	}
	for _, name := range c.Part.Sources {
		p.info.Sources = append(p.info.Sources, PartTensor{Name: name})
	}
	if len(f.tensors) != len(c.Part.Tensors) {
		return fmt.Errorf("a part of %d tensors, of which %d are in the plan", len(c.Part.Tensors), len(f.tensors))
	}
	w.frame, w.part = f, p
	return safetensors.Place(f.tensors)
}

// header returns the header of a part file, with the digests known so far.
func (p *part) header(w *Writer) ([]byte, error) {
	for i := range p.info.Tensors {
		t := &p.info.Tensors[i]
		if t.SHA256 = w.Digest(t.Name); t.SHA256 == "" {
			t.SHA256 = placeholder
		}
		if e, ok := p.entries[t.Name]; ok {
			t.Codes = e.CodesSHA
		}
	}
	for i := range p.info.Sources {
		p.info.Sources[i].SHA256 = p.sources[p.info.Sources[i].Name].SHA256
	}
	text, err := p.info.canonical()
	if err != nil {
		return nil, err
	}
	return partHeader(text, w.frame.tensors)
}

func partHeader(info []byte, ts []safetensors.TensorInfo) ([]byte, error) {
	return sealed(partFormat, partKey, partDigestKey, info, ts)
}

// complete requires that no digest is missing.
func (p *part) complete(w *Writer) error {
	for _, t := range p.info.Tensors {
		if e, ok := p.entries[t.Name]; ok && e.CodesSHA == placeholder {
			return fmt.Errorf("tensor %q has no digest of its codes", e.Name)
		}
	}
	for _, s := range p.info.Sources {
		if p.sources[s.Name].SHA256 == placeholder {
			return fmt.Errorf("source %q has no digest", s.Name)
		}
	}
	return nil
}

func (i *PartInfo) canonical() ([]byte, error) { return canonical(i) }

// PartFile is a part file that is open for reading.
type PartFile struct {
	PartInfo
	sections
}

// OpenPart opens a part file and checks its frame. The reader of the data must check its digests.
func OpenPart(path string) (*PartFile, error) {
	s, header, err := openSections(path)
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	p := &PartFile{sections: s}
	if err := p.load(header); err != nil {
		return nil, errors.Join(filerr.Named(path, err), p.Close())
	}
	return p, nil
}

func (p *PartFile) load(h *safetensors.Header) error {
	if len(h.Metadata) != 3 || h.Metadata[0] != (safetensors.KV{Key: "format", Value: partFormat}) ||
		h.Metadata[1].Key != partKey {
		return fmt.Errorf("%w: not a part of a conversion", pack.ErrUnsupported)
	}
	text := []byte(h.Metadata[1].Value)
	if err := decodeStrictly(text, &p.PartInfo); err != nil {
		return err
	}
	p.frame = &frame{tensors: h.Tensors, index: map[string]int{}}
	for i, t := range h.Tensors {
		p.frame.index[t.Name] = i
	}
	if err := p.checkHeader(text); err != nil {
		return err
	}
	return p.check()
}

// checkHeader regenerates the header and compares it with the file, byte for byte.
func (p *PartFile) checkHeader(text []byte) error {
	again, err := p.canonical()
	if err != nil {
		return err
	}
	want, err := partHeader(again, p.frame.tensors)
	if err != nil {
		return err
	}
	same, err := p.begins(want)
	if err != nil {
		return err
	}
	if !same || !bytes.Equal(text, again) {
		return fmt.Errorf("%w: the header of the part does not match its digest, or is not in canonical form",
			pack.ErrCorrupt)
	}
	return nil
}

// check requires that the plan is valid, and that everything that the part lists is in the plan and, as planned, in the
// file.
func (p *PartFile) check() error {
	if err := p.Plan.check(); err != nil {
		return err
	}
	plan, err := newFrame(&p.Plan, p.Golden)
	if err != nil {
		return err
	}
	if len(p.Tensors) != len(p.frame.tensors) {
		return fmt.Errorf("%w: the part lists %d tensors and holds %d", pack.ErrCorrupt, len(p.Tensors),
			len(p.frame.tensors))
	}
	for i, t := range p.Tensors {
		stored := &p.frame.tensors[i]
		want, err := plan.lookup(t.Name)
		if err != nil {
			return err
		}
		if stored.Name != t.Name || stored.DType != want.DType || !slices.Equal(stored.Shape, want.Shape) ||
			t.Name == GoldenName {
			return fmt.Errorf("%w: the part holds %q, %s %v, where %q, %s %v is planned", pack.ErrCorrupt,
				stored.Name, stored.DType, stored.Shape, want.Name, want.DType, want.Shape)
		}
		if err := checkDigest(t.Name, t.SHA256); err != nil {
			return err
		}
	}
	for _, s := range p.Sources {
		if !slices.ContainsFunc(p.Plan.Sources, func(x Source) bool { return x.Name == s.Name }) {
			return fmt.Errorf("%w: source %q is not in the plan", pack.ErrCorrupt, s.Name)
		}
		if err := checkDigest(s.Name, s.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// Contents returns the contents of the whole packed file.
func (p *PartFile) Contents() Contents { return Contents{Manifest: p.Plan, Golden: p.Golden} }

// Close closes the file.
func (p *PartFile) Close() error { return p.file.Close() }

func decodeStrictly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: manifest: %v (F11)", pack.ErrCorrupt, plainerr.JSON(err))
	}
	return nil
}
