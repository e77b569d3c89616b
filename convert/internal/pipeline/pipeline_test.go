package pipeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// matrixM × matrixK codes are stored in every way that a Source can describe.
const matrixM, matrixK = 304, 64

// nibbles decodes one code per byte, for any panel, and checks its Beside tensors.
type nibbles struct {
	panel  Panel
	beside [][]byte
	codes  *atomic.Int64
	units  int // scales
}

func (n nibbles) Decode(codes []int8, row int, stored []byte) error {
	rows := len(stored) / n.panel.Bytes / n.panel.Lines * n.panel.Rows
	if row%n.panel.Rows != 0 {
		return fmt.Errorf("rows from %d on are not whole panels", row)
	}
	for i := range rows {
		for k := range matrixK {
			b := stored[n.place(i, k, rows)]
			switch at := i*matrixK + k; {
			case at < len(codes):
				codes[at] = int8(b) - 1
			case b != 0:
				return fmt.Errorf("%w: row %d only pads the source", pack.ErrCorrupt, row+i)
			}
		}
	}
	n.codes.Add(int64(len(codes)))
	return nil
}

// place returns the index of a code in some stored rows.
func (n nibbles) place(i, k, rows int) int {
	if n.panel.Lines == 1 {
		return i*matrixK + k
	}
	return k*rows + i // a line per column
}

func (n nibbles) Finish() ([]Blob, error) {
	return []Blob{{packed.ScaleSuffix, bytes.Repeat(slices.Concat(n.beside...), n.units)}}, nil
}

// stored is a matrix in its own source.
type stored struct {
	name    string
	source  Source
	files   map[string][]byte
	experts int // 0: one matrix; else all rows are theirs
}

// forms of codes + 1, in rows of a byte per code, or in columns.
func forms(codes []int8) []stored {
	var rows, columns []byte
	for _, c := range codes {
		rows = append(rows, byte(c+1))
	}
	for k := range matrixK {
		for m := range matrixM {
			columns = append(columns, rows[m*matrixK+k])
		}
	}
	tensor := func(file string, begin, size int) checkpoint.Tensor {
		return checkpoint.Tensor{Name: "t of " + file, DType: "U8", File: file, Begin: int64(begin), Size: int64(size)}
	}
	scale, gap := []byte{0, 0, 128, 63}, bytes.Repeat([]byte{7}, 100)
	beside := []checkpoint.Tensor{tensor("a", 0, 1), tensor("a", 1, 3)} // the bytes of a scale of 1
	row := Panel{Rows: 1, Bytes: matrixK, Lines: 1}
	third := 100 * matrixK
	forms := []stored{
		{name: "rows", source: Source{[]checkpoint.Tensor{tensor("a", 104, len(rows))}, beside,
			[]Run{{0, 0, matrixM}}, row},
			files: map[string][]byte{"a": slices.Concat(scale, gap, rows, gap)}},
		{name: "columns", source: Source{[]checkpoint.Tensor{tensor("a", 104, len(rows))}, beside,
			[]Run{{0, 0, matrixM}},
			Panel{1, 1, matrixK, matrixM}}, files: map[string][]byte{"a": slices.Concat(scale, gap, columns)}},
		{name: "columns by 8", source: Source{[]checkpoint.Tensor{tensor("a", 4, len(rows))}, beside,
			[]Run{{0, 0, matrixM}},
			Panel{8, 8, matrixK, matrixM}}, files: map[string][]byte{"a": slices.Concat(scale, columns)}},
		{name: "runs", source: Source{[]checkpoint.Tensor{tensor("a", 4, len(rows))}, beside,
			[]Run{{0, int64(204 * matrixK), 100}, {0, 0, 204}}, row},
			files: map[string][]byte{"a": slices.Concat(scale, rows[len(rows)-204*matrixK:], rows[:third])}},
		{name: "parts", source: Source{[]checkpoint.Tensor{tensor("c", 5, third), tensor("b", 0, third),
			tensor("a", 4, 104*matrixK)}, beside, []Run{{0, 0, 100}, {1, 0, 100}, {2, 0, 104}}, row},
			files: map[string][]byte{"a": slices.Concat(scale, rows[2*third:]), "b": rows[third : 2*third],
				"c": slices.Concat(gap[:5], rows[:third], gap)}},
		{name: "padding", source: Source{[]checkpoint.Tensor{tensor("a", 4, len(rows)+3*matrixK)}, beside,
			[]Run{{0, 0, matrixM + 3}}, row},
			files: map[string][]byte{"a": slices.Concat(scale, rows, make([]byte, 3*matrixK))}},
	}
	for _, f := range forms {
		f.name, f.experts = f.name+" of experts", 2
		forms = append(forms, f)
	}
	return forms
}

// job converts a stored form to a file at path.
func (f *stored) job(t *testing.T, path, layout string, l Limits) (*Job, *packed.Writer, *atomic.Int64) {
	t.Helper()
	experts := max(1, f.experts)
	shape := pack.Shape{M: matrixM / experts, K: matrixK}
	open, err := pack.Open(pack.Spec{Name: layout, Alphabet: pack.Ternary.Name})
	if err != nil {
		t.Fatal(err)
	}
	size, err := open.PackedSize(shape)
	if err != nil {
		t.Fatal(err)
	}
	e := packed.Entry{Name: "w", Shape: []int{shape.M, matrixK}, Layout: open.Spec(), Bytes: size,
		Scale: packed.Scale{Kind: packed.ScaleTensor}, Quantizer: "import"}
	if f.experts > 0 {
		e.Shape = []int{experts, shape.M, matrixK}
	}
	m := packed.Manifest{Tool: "lowpack test", Packed: []packed.Entry{e}}
	var files []File
	for _, name := range []string{"a", "b", "c"} {
		if b, ok := f.files[name]; ok {
			m.Sources = append(m.Sources, packed.Source{Name: name, Size: int64(len(b))})
			files = append(files, File{Name: name, Size: int64(len(b)),
				Open: func() (io.ReaderAt, error) { return bytes.NewReader(b), nil }})
		}
	}
	w, err := packed.Create(path, packed.Contents{Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Abort)
	for i := range files {
		files[i].Digest = func(sha string) error {
			w.Manifest().Sources[i].SHA256 = sha
			return nil
		}
	}
	codes := new(atomic.Int64)
	tensor := &Tensor{
		Target: Target{Name: "w", Layout: e.Layout, Shape: shape, Bytes: size, Experts: f.experts}, Source: f.source,
		Open: func(beside [][]byte) (Decoder, error) { return nibbles{f.source.Panel, beside, codes, experts}, nil },
		Done: func(x Result) error {
			w.Manifest().Packed[0].CodesSHA = x.CodesSHA
			return nil
		},
	}
	read := func(x checkpoint.Tensor, p []byte, off int64) error {
		copy(p, f.files[x.File][x.Begin+off:][:len(p)])
		return nil
	}
	return &Job{Files: files, Read: read, Tensors: []*Tensor{tensor}, To: w, Threads: 3, Limits: l,
		Progress: func(string, int64) {}}, w, codes
}

// TestSources converts every form of storage with plenty of memory and with hardly any: codes, the tensors stored with
// them and file digests are the same.
func TestSources(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	codes := make([]int8, matrixM*matrixK)
	for i := range codes {
		codes[i] = int8(r.IntN(3)) - 1
	}
	for _, f := range forms(codes) {
		for i, l := range []Limits{UsualLimits,
			{Chunk: 1 << 10, Flow: 12, Spare: 30, PerCode: 2, Stay: 1 << 20, Slots: 1 << 20},
			{Chunk: 1 << 9, Flow: 8, Slots: 1},
			{Chunk: 40, Flow: 8, Slots: 1}} {
			for _, layout := range []string{"vnni4i", "i2s", "hf-u8"} {
				if layout == "hf-u8" && f.experts > 0 {
					continue // F14: row panels
				}
				name := fmt.Sprintf("%s, limits %d, %s", f.name, i, layout)
				path := filepath.Join(t.TempDir(), "out")
				j, w, decoded := f.job(t, path, layout, l)
				if err := errors.Join(j.Run(context.Background()), w.Commit()); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if n := decoded.Load(); n != matrixM*matrixK {
					t.Errorf("%s: %d codes are decoded, of %d", name, n, matrixM*matrixK)
				}
				f.compare(t, name, path, codes)
			}
		}
	}
}

func (f *stored) compare(t *testing.T, name, path string, codes []int8) {
	t.Helper()
	out, err := packed.Open(path)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer out.Close()
	e := &out.Manifest().Packed[0]
	all := &pack.Matrix{Shape: pack.Shape{M: matrixM, K: matrixK}, Alphabet: pack.Ternary}
	for i := range e.Experts() {
		m, err := packed.Codes(out, e, i)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all.Codes = append(all.Codes, m.Codes...)
	}
	if !slices.Equal(all.Codes, codes) {
		t.Errorf("%s: other codes", name)
	} else if packed.CodesDigest(all) != e.CodesSHA {
		t.Errorf("%s: another digest of the codes", name)
	}
	if s, err := packed.Scales(out, e); err != nil || len(s) != e.Experts() || s[0] != 1 {
		t.Errorf("%s: scales %v (%v)", name, s, err)
	}
	for _, s := range out.Manifest().Sources {
		if sum := sha256.Sum256(f.files[s.Name]); hex.EncodeToString(sum[:]) != s.SHA256 {
			t.Errorf("%s: another digest of file %s", name, s.Name)
		}
	}
}

// TestSourceRefused: runs outside their parts, too few rows, parts that overlap, and a decoder that fails.
func TestSourceRefused(t *testing.T) {
	codes := make([]int8, matrixM*matrixK)
	for want, change := range map[string]func(f *stored, j *Job){
		"end at byte":         func(_ *stored, j *Job) { j.Tensors[0].Source.Runs = []Run{{0, 1, matrixM}} },
		"part 1 of 1":         func(_ *stored, j *Job) { j.Tensors[0].Source.Runs = []Run{{1, 0, matrixM}} },
		"303 rows are stored": func(_ *stored, j *Job) { j.Tensors[0].Source.Runs = []Run{{0, 0, matrixM - 1}} },
		"before the end": func(f *stored, j *Job) {
			other := f.source.Parts[0]
			other.Begin, other.Size = other.Begin+1, 1
			j.Copies = []*Copy{{From: other}}
			other.Begin, other.Name = other.Begin+1, "other"
			j.Copies = append(j.Copies, &Copy{From: other})
			j.To = anyName{j.To}
		},
		"only pads": func(f *stored, j *Job) {
			f.files["a"] = append(f.files["a"], bytes.Repeat([]byte{1}, matrixK)...)
			f.source.Parts[0].Size += matrixK
			f.source.Runs[0].Rows++
			j.Files[0].Size += matrixK
			j.Files[0].Open = func() (io.ReaderAt, error) { return bytes.NewReader(f.files["a"]), nil }
		},
	} {
		f := forms(codes)[0]
		f.files["a"] = f.files["a"][:len(f.files["a"])-100] // the bytes after the rows
		j, _, _ := f.job(t, filepath.Join(t.TempDir(), "out"), "vnni4i", UsualLimits)
		change(&f, j)
		if err := j.Run(context.Background()); !errors.Is(err, pack.ErrCorrupt) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestExpertsInPanels: a panel of the source that two experts share is refused.
func TestExpertsInPanels(t *testing.T) {
	s := Source{Panel: Panel{Rows: 8}}
	if err := s.check(&Target{Name: "w", Shape: pack.Shape{M: 148, K: 64}, Experts: 2}); !errors.Is(err,
		pack.ErrUnsupported) || !strings.Contains(err.Error(), "panels of 8") {
		t.Error(err)
	}
}

// anyName lets a tensor be written under any name.
type anyName struct{ Writer }

func (a anyName) Stream(string) (*packed.Stream, error) { return a.Writer.Stream("w.packed") }
