package convert

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"time"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/convert/report"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// tensorPacker writes one quantized tensor: from codes to packed bytes, digests and file.
type tensorPacker struct {
	w       *packed.Writer
	entry   *packed.Entry // in the manifest of w
	layout  pack.Layout
	cores   cores
	jobs    int
	rows    func(n int) // is told about rows that are done
	count   bool        // of each code, in the slots
	numbers *packed.Numbers

	matrix *pack.Matrix // its codes only where they must be in memory at once
	bytes  []byte       // the same of its packed bytes
	stored []byte       // what the source asked for
	panel  *panels      // nil: the layout packs the whole matrix at once
	blocks blocks
	slots  []*slot
	out    *packed.Stream // of the packed bytes
	hash   hash.Hash      // of the codes
}

// needs are what the source of the codes asks for.
type needs struct {
	panel  int  // blocks are a multiple of this number of rows
	float  int  // bytes of a float, where slots are to hold rows of them
	stored int  // bytes of the stored tensor
	whole  bool // all codes
}

func newTensorPacker(w *packed.Writer, name string, m *memory, jobs int, n needs) (*tensorPacker, error) {
	e, ok := w.Manifest().Entry(name)
	if !ok {
		return nil, fmt.Errorf("tensor %q is not in the plan", name)
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		return nil, err
	}
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return nil, err
	}
	s := e.MatrixShape()
	t := &tensorPacker{
		w: w, entry: e, layout: l, jobs: jobs, rows: func(int) {}, matrix: &pack.Matrix{Shape: s, Alphabet: a},
		numbers: packed.NewNumbers(a, s.K), hash: packed.NewCodesHash(a.Name, s),
	}
	if t.panel, err = panelsOf(l, s); err != nil {
		return nil, err
	}
	t.blocks = newBlocks(s, leastCommon(n.panel, t.panel.rowsOf()))
	if err := t.allot(m, n); err != nil {
		return nil, err
	}
	t.out, err = w.Stream(name + packed.PackedSuffix)
	return t, err
}

// allot divides the memory.
func (t *tensorPacker) allot(m *memory, n needs) (err error) {
	s, rows := t.matrix.Shape, t.blocks.most()
	codes, numbers, bytes, wholeCodes, wholeBytes := rows*s.K, 0, 0, 0, 0
	if n.whole || t.panel == nil {
		codes, numbers, wholeCodes = 0, rows*t.numbers.Row(), s.M*s.K
	}
	if t.panel == nil {
		wholeBytes = t.entry.Bytes
	} else {
		_, bytes = t.panel.span(0, rows)
	}
	in := min(rows, max(1, blockCodes/s.K)) * s.K * n.float
	var further [][]byte
	if t.slots, further, err = m.newSlots(t.jobs, in, codes, bytes, numbers, wholeCodes, wholeBytes, n.stored); err != nil {
		return err
	}
	t.matrix.Codes, t.bytes, t.stored = packed.BytesAsCodes(further[0]), further[1], further[2]
	return nil
}

// leastCommon multiple of two numbers of rows.
func leastCommon(a, b int) int {
	a = max(a, 1)
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// fillFunc makes the codes of block i, rows from on, with the memory of a slot.
type fillFunc func(s *slot, codes []int8, i, from int) error

// finish fills and packs block after block and, behind that, digests and writes in order. A nil fill says that all codes
// are there.
func (t *tensorPacker) finish(ctx context.Context, fill fillFunc) error {
	err := pipeline(ctx, t.cores, t.slots, t.jobs, t.blocks.count(), func(s *slot, i int) error {
		from, to := t.blocks.at(i)
		codes := s.codes
		if len(t.matrix.Codes) > 0 {
			codes = t.matrix.Codes[from*t.matrix.K:]
		}
		codes = codes[:(to-from)*t.matrix.K]
		if fill != nil {
			if err := fill(s, codes, i, from); err != nil {
				return err
			}
		}
		return t.packBlock(s, codes, from, to)
	}, t.writeBlock)
	if err != nil || t.panel != nil {
		return err
	}
	return t.cores.run(ctx, func() error {
		if err := t.layout.Pack(t.bytes, t.matrix); err != nil {
			return t.fail(err)
		}
		_, err = t.out.Write(t.bytes)
		return err
	})
}

// packBlock packs the panels of a block and numbers its codes.
func (t *tensorPacker) packBlock(s *slot, codes []int8, from, to int) error {
	if t.count {
		for _, c := range codes {
			s.counts[uint8(c)]++
		}
	}
	if t.panel != nil {
		part := &pack.Matrix{Shape: pack.Shape{M: to - from, K: t.matrix.K}, Alphabet: t.matrix.Alphabet, Codes: codes}
		begin, end := t.panel.span(from, to)
		if err := t.layout.Pack(s.bytes[:end-begin], part); err != nil {
			return t.fail(err)
		}
	}
	t.numbers.Write(s.numbers, codes)
	return nil
}

// writeBlock digests the codes of block i and writes its packed bytes, if it has any of its own.
func (t *tensorPacker) writeBlock(s *slot, i int) error {
	from, to := t.blocks.at(i)
	t.hash.Write(s.numbers[:(to-from)*t.numbers.Row()])
	t.rows(to - from)
	if t.panel == nil {
		return nil
	}
	begin, end := t.panel.span(from, to)
	_, err := t.out.Write(s.bytes[:end-begin])
	return err
}

// close ends the tensor and writes its scales.
func (t *tensorPacker) close(scales []byte) error {
	if err := t.out.Close(); err != nil {
		return err
	}
	t.entry.CodesSHA = hex.EncodeToString(t.hash.Sum(nil))
	return t.w.WriteTensor(t.entry.Name+packed.ScaleSuffix, scales)
}

func (t *tensorPacker) fail(err error) error { return fmt.Errorf("tensor %q: %w", t.entry.Name, err) }

// counts says how often each value of the alphabet occurs, in its order.
func (t *tensorPacker) counts() []int64 {
	list := make([]int64, len(t.matrix.Alphabet.Values))
	for i, v := range t.matrix.Alphabet.Values {
		for _, s := range t.slots {
			list[i] += s.counts[uint8(v)]
		}
	}
	return list
}

// packAll makes codes and packed bytes of one tensor after another; the goroutines work on its rows.
func (r *run) packAll(ctx context.Context) error {
	m := &memory{}
	defer m.free()
	for _, s := range r.todo.steps {
		if s.entry == nil {
			continue
		}
		if err := r.packOne(ctx, s, m); err != nil {
			return err
		}
		if err := r.finished(s); err != nil {
			return err
		}
		s.probed = nil
	}
	return nil
}

func (r *run) packOne(ctx context.Context, s *step, m *memory) error {
	start := time.Now()
	n := needs{float: int(s.from.DType.Size())}
	if s.scale != 0 {
		n = needs{stored: int(s.from.Size)}
	}
	t, err := newTensorPacker(r.w, s.row.Tensor, m, r.o.Jobs, n)
	if err != nil {
		return err
	}
	t.cores, t.count = r.cores, r.o.Report
	t.rows = func(rows int) {
		r.count.add(s.row.Tensor, s.row.BytesIn*int64(rows)/int64(s.row.Shape[0]))
	}
	scales := []float32{s.scale}
	if s.scale != 0 {
		err = r.importCodes(ctx, s, t)
	} else {
		scales, err = r.quantize(ctx, s, t)
	}
	if err == nil {
		err = t.close(floatBytes(scales))
	}
	if err == nil && r.o.Report {
		s.outcome.codes, s.outcome.scales = report.Codes(t.matrix.Alphabet, t.counts()), report.ScalesOf(scales)
	}
	s.outcome.took = time.Since(start)
	return err
}

// quantize makes codes from floats; it returns the scales.
func (r *run) quantize(ctx context.Context, s *step, t *tensorPacker) ([]float32, error) {
	in := newReader(r.read, s.from, t.blocks)
	q := s.probed
	if q == nil {
		var err error
		s.job.Stats = r.o.Report
		if q, err = quantize.New(s.job); err != nil {
			return nil, inTensor(s.from, err)
		}
		if q.Passes() == 2 {
			if err := measure(ctx, r.cores, q, in, sources(t.slots)); err != nil {
				return nil, err
			}
		}
	}
	k := t.matrix.K
	err := t.finish(ctx, func(slot *slot, codes []int8, i, from int) error {
		return in.block(slot.in, i, func(row int, data []byte) error {
			rows := len(data) / in.row
			return q.Quantize(codes[(row-from)*k:(row-from+rows)*k], row, data)
		})
	})
	if s.job.Stats {
		e := q.Stats().RelError
		s.outcome.relError = &e
	}
	return q.Scales(), err
}

func floatBytes(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
