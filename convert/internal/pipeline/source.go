package pipeline

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/pack"
)

// Source describes where the rows of a matrix are stored.
type Source struct {
	Parts  []checkpoint.Tensor // hold the rows; for a range of a stored tensor, change Begin and Size
	Beside []checkpoint.Tensor // passed to Tensor.Open; read as a whole, so small compared with the rows
	Runs   []Run               // all rows of the matrix in ascending order, then padding rows of the source
	Panel  Panel               // of all parts
}

// Run is a sequence of matrix rows that are stored one after another.
type Run struct {
	Part int   // index of Source.Parts
	Off  int64 // of the first byte in the part
	Rows int   // a multiple of Panel.Rows
}

// Panel is the smallest number of rows that are stored and decoded together: Lines pieces of Bytes bytes, Stride bytes
// apart. The next panel of a run begins Bytes bytes later. Row-major matrices have panels of one row and one line.
type Panel struct {
	Rows   int
	Bytes  int
	Lines  int
	Stride int64
}

// Rows is a matrix of m rows that t holds one after another, from its first byte to its last.
func Rows(t checkpoint.Tensor, m int) Source {
	return Source{Parts: []checkpoint.Tensor{t}, Runs: []Run{{Rows: m}},
		Panel: Panel{Rows: 1, Bytes: int(t.Size) / m, Lines: 1}}
}

// Decoder turns stored rows into codes. Its methods are pure: the result depends on the bytes of Source alone, not on
// how many rows come at once or in which order.
type Decoder interface {
	// Decode writes the codes of rows that begin at row, row-major. stored holds Lines pieces, one after another, with
	// the bytes of whole panels each; it may not be kept. codes excludes padding rows of the source, and is shorter if
	// stored has any. Decode is called concurrently for different rows, and exactly once per row in total.
	Decode(codes []int8, row int, stored []byte) error
	// Finish returns the tensors that are stored with the codes, after all rows are decoded.
	Finish() ([]Blob, error)
}

// Measurer is a Decoder that must see all rows before it decodes one.
type Measurer interface {
	Decoder
	// Measure examines rows, passed as to Decode.
	Measure(row int, stored []byte) error
	// Fix ends the measurement.
	Fix() error
}

// Blob is a tensor that is stored with the codes.
type Blob struct {
	Suffix string // after the name of the matrix, for example packed.ScaleSuffix
	Data   []byte
}

// check demands that the runs lie in the parts and hold the rows of all matrices, in whole panels of each.
func (s *Source) check(x *Target) error {
	m, rows := x.rows(), 0
	if x.experts() > 1 && x.Shape.M%s.Panel.Rows != 0 {
		return fmt.Errorf("%w: tensor %q: experts of %d rows, stored in panels of %d", pack.ErrUnsupported,
			x.Name, x.Shape.M,
			s.Panel.Rows)
	}
	for _, r := range s.Runs {
		if r.Part < 0 || r.Part >= len(s.Parts) || r.Off < 0 || r.Rows < 1 {
			return fmt.Errorf("%w: rows from %d on: part %d of %d, offset %d, %d rows", pack.ErrCorrupt, rows, r.Part,
				len(s.Parts), r.Off, r.Rows)
		}
		t := s.Parts[r.Part]
		if end := r.Off + s.Panel.stored(r.Rows); end > t.Size {
			return inTensor(t, fmt.Errorf("%w: rows from %d on end at byte %d of %d", pack.ErrCorrupt, rows,
				end, t.Size))
		}
		rows += r.Rows
	}
	if rows < m {
		return fmt.Errorf("%w: %d rows are stored, of %d", pack.ErrCorrupt, rows, m)
	}
	return nil
}

// rows returns the number of stored rows, padding rows included.
func (s *Source) rows() (n int) {
	for _, r := range s.Runs {
		n += r.Rows
	}
	return n
}

// inOrder reports whether the m rows, without padding rows, lie one after another in a single part, from its beginning.
func (s *Source) inOrder(m int) bool {
	return len(s.Parts) == 1 && len(s.Runs) == 1 && s.Runs[0] == Run{Rows: m} && s.Panel.Lines == 1
}

// size of n rows once they are gathered.
func (p *Panel) size(n int) int { return n / p.Rows * p.Bytes * p.Lines }

// stored is the number of bytes from the first one of n rows to the last.
func (p *Panel) stored(n int) int64 {
	return int64(p.Lines-1)*p.Stride + int64(n/p.Rows)*int64(p.Bytes)
}

// inTensor names file and tensor of an error.
func inTensor(t checkpoint.Tensor, err error) error {
	return fmt.Errorf("%s: tensor %q: %w", t.File, t.Name, err)
}
