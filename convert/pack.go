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
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/pack"
)

// buffers hold the codes and the packed bytes of one tensor, and are used for one tensor after another: whatever the
// number of tensors and goroutines, that is the memory that grows with the input.
type buffers struct {
	memory *offheap.Buffer
	codes  []int8
	bytes  []byte
}

// newBuffers makes buffers for the largest of the tensors.
func newBuffers(entries []packed.Entry) (*buffers, error) {
	codes, bytes := 0, 0
	for i := range entries {
		codes, bytes = max(codes, entries[i].Shape[0]*entries[i].Shape[1]), max(bytes, entries[i].Bytes)
	}
	m, err := offheap.New(codes + bytes)
	if err != nil {
		return nil, err
	}
	return &buffers{m, packed.BytesAsCodes(m.Bytes[:codes]), m.Bytes[codes:]}, nil
}

func (b *buffers) free() { b.memory.Free() }

// matrix is an entry's matrix, whose codes are in the buffer.
func (b *buffers) matrix(e *packed.Entry) (*pack.Matrix, error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	return &pack.Matrix{Shape: e.MatrixShape(), Alphabet: a, Codes: b.codes[:e.Shape[0]*e.Shape[1]]}, err
}

// tensorPacker writes one quantized tensor: from codes to packed bytes, digests and file.
type tensorPacker struct {
	w      *packed.Writer
	entry  *packed.Entry // in the manifest of w
	layout pack.Layout
	jobs   int
	rows   func(n int) // is told about rows that are done

	matrix *pack.Matrix
	bytes  []byte
	panel  *panels // nil: the layout packs the whole matrix at once
	blocks blocks
	stored *packed.Stream // of the packed bytes
	hash   hash.Hash      // of the codes

	numbers *packed.Numbers // of the codes, as they are hashed
	scratch []byte          // for those of a block
}

func newTensorPacker(w *packed.Writer, name string, b *buffers, jobs int, rows func(n int)) (*tensorPacker, error) {
	e, ok := w.Manifest().Entry(name)
	if !ok {
		return nil, fmt.Errorf("tensor %q is not in the plan", name)
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		return nil, err
	}
	t := &tensorPacker{w: w, entry: e, layout: l, jobs: jobs, rows: rows, bytes: b.bytes[:e.Bytes]}
	if t.matrix, err = b.matrix(e); err != nil {
		return nil, err
	}
	t.hash = packed.NewCodesHash(e.Layout.Alphabet, t.matrix.Shape)
	if t.panel, err = panelsOf(l, t.matrix.Shape); err != nil {
		return nil, err
	}
	t.blocks = newBlocks(t.matrix.Shape, t.panel.rowsOf())
	t.numbers = packed.NewNumbers(t.matrix.Alphabet, t.matrix.K)
	t.scratch = make([]byte, min(t.blocks.rows, t.matrix.M)*t.numbers.Row())
	t.stored, err = w.Stream(name + packed.PackedSuffix)
	return t, err
}

// finish packs block after block as soon as fill has made its codes, and behind that digests and writes in order. A nil
// fill says that all codes are there.
func (t *tensorPacker) finish(ctx context.Context, jobs int, fill func(worker, i int) error) error {
	err := ordered(ctx, jobs, t.blocks.count(), func(worker, i int) error {
		if fill != nil {
			if err := fill(worker, i); err != nil {
				return err
			}
		}
		return t.packBlock(i)
	}, t.writeBlock)
	if err != nil || t.panel != nil {
		return err
	}
	if err := t.layout.Pack(t.bytes, t.matrix); err != nil {
		return t.fail(err)
	}
	_, err = t.stored.Write(t.bytes)
	return err
}

// packBlock packs the panels of block i.
func (t *tensorPacker) packBlock(i int) error {
	if t.panel == nil {
		return nil
	}
	from, to := t.blocks.at(i)
	part := &pack.Matrix{
		Shape: pack.Shape{M: to - from, K: t.matrix.K}, Alphabet: t.matrix.Alphabet,
		Codes: t.matrix.Codes[from*t.matrix.K : to*t.matrix.K],
	}
	if err := t.layout.Pack(t.panel.cut(t.bytes, from, to), part); err != nil {
		return t.fail(err)
	}
	return nil
}

// writeBlock digests the codes of block i and writes its packed bytes, if it has any of its own.
func (t *tensorPacker) writeBlock(i int) error {
	from, to := t.blocks.at(i)
	t.hash.Write(t.numbers.Write(t.scratch, t.matrix.Codes[from*t.matrix.K:to*t.matrix.K]))
	t.rows(to - from)
	if t.panel == nil {
		return nil
	}
	_, err := t.stored.Write(t.panel.cut(t.bytes, from, to))
	return err
}

// close ends the tensor and writes its scales.
func (t *tensorPacker) close(scales []byte) error {
	if err := t.stored.Close(); err != nil {
		return err
	}
	t.entry.CodesSHA = hex.EncodeToString(t.hash.Sum(nil))
	return t.w.WriteTensor(t.entry.Name+packed.ScaleSuffix, scales)
}

func (t *tensorPacker) fail(err error) error { return fmt.Errorf("tensor %q: %w", t.entry.Name, err) }

// packAll makes codes and packed bytes of one tensor after another; the goroutines work on its rows.
func (r *run) packAll(ctx context.Context) error {
	b, err := newBuffers(r.w.Manifest().Packed)
	if err != nil {
		return err
	}
	defer b.free()
	for _, s := range r.todo.steps {
		if s.entry == nil {
			continue
		}
		if err := r.packOne(ctx, s, b); err != nil {
			return err
		}
		if err := r.finished(s); err != nil {
			return err
		}
		s.probed = nil
	}
	return nil
}

func (r *run) packOne(ctx context.Context, s *step, b *buffers) error {
	start := time.Now()
	t, err := newTensorPacker(r.w, s.row.Tensor, b, r.o.Jobs, func(rows int) {
		r.count.add(s.row.Tensor, s.row.BytesIn*int64(rows)/int64(s.row.Shape[0]))
	})
	if err != nil {
		return err
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
		err = r.tell(ctx, s, t.matrix, scales)
	}
	s.outcome.took = time.Since(start)
	return err
}

// quantize makes codes from floats; it returns the scales.
func (r *run) quantize(ctx context.Context, s *step, t *tensorPacker) ([]float32, error) {
	in := newReader(r.read, s.from, t.blocks, r.o.Jobs)
	q := s.probed
	if q == nil {
		var err error
		s.job.Stats = r.o.Report
		if q, err = quantize.New(s.job); err != nil {
			return nil, inTensor(s.from, err)
		}
		if q.Passes() == 2 {
			if err := measure(ctx, q, in); err != nil {
				return nil, err
			}
		}
	}
	k := t.matrix.K
	err := t.finish(ctx, in.workers(), func(worker, i int) error {
		return in.block(worker, i, func(row int, data []byte) error {
			rows := len(data) / in.row
			return q.Quantize(t.matrix.Codes[row*k:(row+rows)*k], row, data)
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
