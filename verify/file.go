package verify

import (
	"errors"
	"fmt"
	"io"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// view reads tensors into memory of their own: unlike the memory map of a File, it survives a file that is cut short.
type view struct{ *packed.File }

func (v view) Tensor(name string) (packed.Tensor, error) {
	t, err := v.File.Tensor(name)
	if err != nil {
		return t, err
	}
	t.Data, err = v.read(name)
	return t, err
}

func (v view) Embedded(name string) ([]byte, bool) {
	if _, err := v.File.Section(packed.FilePrefix + name); err != nil || packed.FilePrefix+name == packed.GoldenName {
		return nil, false
	}
	b, err := v.read(packed.FilePrefix + name)
	return b, err == nil
}

// read returns all bytes of a stored tensor.
func (v view) read(name string) ([]byte, error) {
	r, err := v.Section(name)
	if err != nil {
		return nil, err
	}
	b := make([]byte, r.Size())
	_, err = io.ReadFull(r, b)
	return b, err
}

// checkFile is level file. Opening the file already checks the frame and the manifest.
func (s *session) checkFile() error {
	err := s.one(File, "frame and manifest", "F1–F5", "header", func() (err error) {
		if s.file, err = packed.Open(s.path); err != nil {
			return err
		}
		s.view = view{s.file}
		m := s.file.Manifest()
		s.report.Tool, s.report.Family, s.report.Bytes = m.Tool, m.Family, s.file.Size()
		return nil
	})
	if err != nil || s.file == nil {
		return err
	}
	if m := s.file.Manifest(); m.Family != "" {
		if err := s.one(File, "model", "F7", packed.FilePrefix+"config.json", s.checkModel); err != nil {
			return err
		}
	}
	return s.one(File, "golden outputs", "F8", packed.GoldenName, s.readGolden)
}

// checkModel holds the tensors against config.json.
func (s *session) checkModel() error {
	d, err := packed.Describe(s.view)
	if err != nil {
		return err
	}
	if m := s.file.Manifest(); d.Family != m.Family {
		return broken("F11", "the manifest names family %q, config.json is of family %q", m.Family, d.Family)
	}
	return nil
}

// readGolden decodes the golden outputs and checks that they fit the tensors.
func (s *session) readGolden() error {
	m := s.file.Manifest()
	if m.Golden == "" {
		if g := m.Recipe.Golden; g != "" && g != string(golden.None) {
			return broken("F8", "the recipe says golden outputs %q, but there are none", g)
		}
		return nil
	}
	r, err := s.file.Section(packed.GoldenName)
	if err != nil {
		return err
	}
	if r.Size() > golden.MaxSize {
		return broken("F8", "golden outputs of %d bytes; at most %d are read", r.Size(), golden.MaxSize)
	}
	b, err := s.view.read(packed.GoldenName)
	if err != nil {
		return err
	}
	record, err := golden.Decode(b)
	if err != nil {
		return err
	}
	if err := s.fits(record); err != nil {
		return err
	}
	s.golden = record
	return nil
}

// fits checks that a record covers every packed tensor, and that its sizes are those of the tensors.
func (s *session) fits(r *golden.Record) error {
	m := s.file.Manifest()
	entries, covered := map[string]*packed.Entry{}, map[string]int{}
	for i := range m.Packed {
		entries[m.Packed[i].Name] = &m.Packed[i]
	}
	for i := range r.Products {
		p := &r.Products[i]
		e := entries[p.Tensor]
		if e == nil {
			return broken("F8", "products of %q, which is no packed tensor", p.Tensor)
		}
		groups, err := groupsOf(e)
		if err != nil {
			return err
		}
		if err := fitsMatrix(p, e.Shape[0], groups); err != nil {
			return fmt.Errorf("products of %q: %w", p.Tensor, err)
		}
		covered[p.Tensor]++
	}
	for i := range m.Packed {
		if name := m.Packed[i].Name; covered[name] == 0 || covered[name] > maxProducts {
			return broken("F8", "%d products of %q; there are 1 to %d", covered[name], name, maxProducts)
		}
	}
	return fitsSequences(r.Logits)
}

// Bounds of what a record may ask for. Plans have two products per tensor, of up to five vectors, and 89 positions.
const (
	maxProducts  = 4
	maxVectors   = 8
	maxPositions = 1024
)

func fitsMatrix(p *golden.Product, rows, groups int) error {
	if p.Vectors < 1 || p.Vectors > maxVectors || len(p.Rows) == 0 || int64(len(p.Values)) != int64(p.Vectors)*int64(groups)*int64(len(p.Rows)) {
		return broken("F8", "%d values for %d vectors, %d groups and %d rows", len(p.Values), p.Vectors, groups, len(p.Rows))
	}
	for i, row := range p.Rows {
		if row < 0 || int(row) >= rows || i > 0 && row <= p.Rows[i-1] {
			return broken("F8", "row %d of %d, or out of order", row, rows)
		}
	}
	return nil
}

func fitsSequences(rows []golden.Logits) error {
	if len(rows) > maxPositions {
		return broken("F8", "%d positions with logits; at most %d are evaluated", len(rows), maxPositions)
	}
	for i := range rows {
		l := &rows[i]
		first := i == 0 || l.Sequence != rows[i-1].Sequence
		switch {
		case first && (l.Position != 0 || !l.Given || i > 0 && l.Sequence != rows[i-1].Sequence+1 || i == 0 && l.Sequence != 0):
			return broken("F8", "sequence %d begins at position %d", l.Sequence, l.Position)
		case !first && (l.Position != rows[i-1].Position+1 || l.Given && !rows[i-1].Given):
			return broken("F8", "sequence %d: position %d follows position %d", l.Sequence, l.Position, rows[i-1].Position)
		case len(l.TopTokens) == 0 || len(l.TopTokens) != len(l.TopLogits):
			return broken("F8", "sequence %d, position %d: %d tokens and %d logits at the top", l.Sequence, l.Position, len(l.TopTokens), len(l.TopLogits))
		case !l.Given && l.Token != rows[i-1].TopTokens[0]:
			return broken("F8", "sequence %d, position %d: token %d is not the arg-max of the position before", l.Sequence, l.Position, l.Token)
		}
	}
	return nil
}

// groupsOf is the number of groups of columns with a scale of their own.
func groupsOf(e *packed.Entry) (int, error) {
	shape, err := e.ScaleShape()
	if err != nil {
		return 0, err
	}
	if e.Scale.Kind == packed.ScaleGroup {
		return shape[1], nil
	}
	return 1, nil
}

// DumpGolden copies the golden outputs of a packed file, an Arrow stream, without padding.
func DumpGolden(path string, w io.Writer) error {
	f, err := packed.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := view{f}.read(packed.GoldenName)
	if errors.Is(err, pack.ErrCorrupt) {
		return fmt.Errorf("%w: %s holds no golden outputs; it was converted without", pack.ErrUnsupported, path)
	}
	if err != nil {
		return err
	}
	record, err := golden.Decode(b)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if b, err = record.Encode(); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
