package pipeline

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Job is a conversion: the files to read, and the tensors to make from them.
type Job struct {
	Files   []File    // all of the checkpoint, in the order in which they are read
	Read    ReadFunc  // of tensors
	Tensors []*Tensor // to be quantized or recoded
	Copies  []*Copy
	To      Writer

	Threads  int // goroutines that compute
	Limits   Limits
	Progress func(name string, bytes int64) // called with completed bytes of Tensor.Bytes and of copies; concurrent
}

// File is a source file.
type File struct {
	Name   string
	Size   int64
	Open   func() (io.ReaderAt, error)
	Digest func(sha256 string) error // receives the digest, in hex; nil: not wanted
}

// ReadFunc fills p with bytes of t from offset off on.
type ReadFunc func(t checkpoint.Tensor, p []byte, off int64) error

// Writer is a packed file, or a part of one.
type Writer interface {
	Stream(name string) (*packed.Stream, error)
	WriteTensor(name string, data []byte) error
}

// Tensor is a matrix to be quantized or recoded.
type Tensor struct {
	Target Target
	Source Source
	Open   func(beside [][]byte) (Decoder, error) // when the first part is about to be read
	Bytes  int64                                  // reported to Job.Progress in total
	Count  bool                                   // how often each code occurs
	Done   func(Result) error                     // is called when all is written

	Measured bool // the Decoder is a Measurer and needs the rows twice
}

// Target describes where and how the codes of a matrix are written.
type Target struct {
	Name   string // without suffix
	Layout pack.Spec
	Shape  pack.Shape
	Bytes  int // packed

	Experts int // number of matrices of that shape and size, consecutive, in row panels; 0 = a single matrix
}

func (t *Target) experts() int { return max(t.Experts, 1) }

// rows of all matrices.
func (t *Target) rows() int { return t.experts() * t.Shape.M }

func (t *Target) weights() int { return t.rows() * t.Shape.K }

// Copy is a passthrough tensor, under its name.
type Copy struct {
	From   checkpoint.Tensor
	Finite bool // NaN and infinity are refused
	Done   func(Result) error
}

// Result holds what is known about a tensor after the run.
type Result struct {
	CodesSHA string  // packed.Entry.CodesSHA
	Counts   []int64 // of the codes, in the order of the alphabet; nil unless Tensor.Count
	Took     time.Duration
}

// Run makes all tensors of the Job. After an error, or when ctx ends, the target is incomplete. Of several errors, Run
// returns the one that comes first in the files.
func (j *Job) Run(ctx context.Context) error {
	r := &run{Job: j, base: map[string]int64{}, readings: map[string][]*reading{}}
	at := int64(0)
	for _, f := range j.Files {
		r.base[f.Name], at = at, at+f.Size
	}
	d, err := r.plan()
	if err != nil {
		return err
	}
	if r.memory, err = newMemory(j.Limits, d, j.Threads); err != nil {
		return err
	}
	defer r.memory.close()
	r.schedule = newSchedule(j.Threads, r.memory.slots)
	return r.schedule.run(ctx, r.readers()...)
}

// run is the state of one Job.
type run struct {
	*Job
	base     map[string]int64 // of each file: the total size of the files before it
	readings map[string][]*reading
	memory   *memory
	schedule *schedule
}

// reading is a range of a file, and what is made from it.
type reading struct {
	part   checkpoint.Tensor
	codes  []*coding
	copies []*Copy
}

// plan determines which ranges are read for what, and how much memory that needs.
func (r *run) plan() (d demand, err error) {
	for _, x := range r.Tensors {
		if err := x.Source.check(&x.Target); err != nil {
			return d, err
		}
		c, err := r.newCoding(x)
		if err != nil {
			return d, err
		}
		c.demand(&d)
		in := r.reading(r.last(x.Source.Parts))
		in.codes = append(in.codes, c)
	}
	for _, k := range r.Copies {
		in := r.reading(k.From)
		in.copies = append(in.copies, k)
	}
	for _, list := range r.readings {
		slices.SortFunc(list, func(a, b *reading) int { return inFile(a.part, b.part) })
	}
	return d, nil
}

// reading returns the reading of a range, shared by everything made from it.
func (r *run) reading(t checkpoint.Tensor) *reading {
	for _, in := range r.readings[t.File] {
		if inFile(in.part, t) == 0 {
			return in
		}
	}
	in := &reading{part: t}
	r.readings[t.File] = append(r.readings[t.File], in)
	return in
}

// inFile orders ranges of a file. An empty one begins where the next one does.
func inFile(a, b checkpoint.Tensor) int {
	return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Name, b.Name))
}

// last is the part that is read last.
func (r *run) last(parts []checkpoint.Tensor) checkpoint.Tensor {
	return slices.MaxFunc(parts, func(a, b checkpoint.Tensor) int { return cmp.Compare(r.at(a), r.at(b)) })
}

// at returns the position of a tensor in all source files.
func (r *run) at(t checkpoint.Tensor) int64 { return r.base[t.File] + t.Begin }
