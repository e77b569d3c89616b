package verify

import (
	"errors"
	"fmt"
	"io"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
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
	s.report.WeightsOnly = s.report.Family == ""
	s.report.Coverage.Packed = len(s.file.Manifest().Packed)
	for i := range s.file.Manifest().Packed {
		s.report.Coverage.AllRows += int64(s.file.Manifest().Packed[i].Rows())
	}
	if !s.report.WeightsOnly {
		if err := s.one(File, "model", "F7", packed.FilePrefix+"config.json", s.checkModel); err != nil ||
			s.described == nil {
			return err
		}
	}
	return s.one(File, "golden outputs", "F8", packed.GoldenName, s.readGolden)
}

// checkModel checks the tensors against config.json.
func (s *session) checkModel() (err error) {
	if s.described, err = packed.Describe(s.view); err == nil {
		s.report.Coverage.Vocab = s.described.Vocab
	}
	return err
}

// readGolden decodes the golden outputs and checks that they match the plan for this file.
func (s *session) readGolden() error {
	m := s.file.Manifest()
	mode := m.Recipe.Golden
	if err := mode.Check(); err != nil {
		return fmt.Errorf("recipe: %w (F8)", err)
	}
	if m.Golden == "" {
		if mode != packed.GoldenNone {
			return broken("F8", "the recipe says golden outputs %q, but there are none", mode)
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
	if mode == packed.GoldenNone {
		return broken("F8", "the recipe says golden outputs %q, but there are some", mode)
	}
	plan, err := golden.Plan(mode, m, s.described, record.Texts)
	if err != nil {
		return err
	}
	if err := record.Follows(plan); err != nil {
		return err
	}
	s.golden = record
	return nil
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
		return filerr.Named(path, err)
	}
	if b, err = record.Encode(); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
