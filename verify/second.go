package verify

import (
	"errors"
	"fmt"
	"io"

	"github.com/nlpodyssey/safetensors"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/pack"
)

// second holds the tensors that an independent reader finds in the weight files of a checkpoint. What convert read with
// formats/safetensors is thus checked by a reader that shares no code with it; formats/safetensors has only opened the
// files and refused malformed ones.
//
// The library reads a whole file in memory. It gets a memory map as long as it reads the header, and says where the
// data of each tensor lie. They are read from the file: a map would keep pages resident that the kernel maps around
// those that are read (whole folios of the page cache, up to 2 MiB), much more than the piece that is compared.
type second struct {
	tensors map[string]sourceTensor
}

// sourceTensor is one tensor of a checkpoint, and its data.
type sourceTensor struct {
	io.ReaderAt
	name  string
	dtype string
	shape []int
	size  int64 // bytes
}

// readAgain reads the headers of all weight files with the second reader.
func (s *session) readAgain(c *checkpoint.Checkpoint) (*second, error) {
	r := &second{tensors: map[string]sourceTensor{}}
	shards := c.Shards()
	for _, v := range c.Views() {
		if shards != nil {
			break // of weights that this reader makes floats of too
		}
		r.takeOver(c, v.Name)
		s.report.add(Check{Level: Source, Group: "second reader", Name: v.Name, Verdict: Skip,
			Reason: "the second reader does not read GGUF; tensors are compared as convert read them"})
	}
	for _, shard := range shards {
		check := Check{Level: Source, Group: "second reader", Name: shard.Name}
		if t := foreign(c, shard.Name); t != nil {
			r.takeOver(c, shard.Name)
			check.Verdict = Skip
			check.Reason = fmt.Sprintf("tensor %q: the second reader does not know %s; the tensors of %s are compared "+
				"as convert read them", t.Name, t.DType, shard.Name)
		} else if err := check.judge("", r.add(shard)); err != nil {
			return nil, err
		}
		s.report.add(check)
	}
	return r, r.dequantize(c)
}

// foreign returns a tensor of a file whose type the second reader does not know: floats of 8 bits and complex numbers.
// It then refuses the whole file.
func foreign(c *checkpoint.Checkpoint, file string) *checkpoint.Tensor {
	for i, t := range c.Stored() {
		if _, err := safetensors.ParseDType(string(t.DType)); t.File == file && err != nil {
			return &c.Stored()[i]
		}
	}
	return nil
}

// takeOver enters the tensors of a file as the first reader has them.
func (r *second) takeOver(c *checkpoint.Checkpoint, file string) {
	for _, t := range c.Stored() {
		if t.File == file {
			r.tensors[t.Name] = sourceTensor{first{c, t}, t.Name, string(t.DType), t.Shape, t.Size}
		}
	}
}

// add enters the tensors of a file as the second reader has them.
func (r *second) add(shard checkpoint.Shard) error {
	data, err := mmap.Map(shard.File, shard.Name, shard.Size)
	if err != nil {
		return fmt.Errorf("%s: %w", shard.Name, err)
	}
	defer mmap.Unmap(data) // nothing was written
	var views []safetensors.NamedTensorView
	var fault *mmap.Fault
	err = mmap.Guard(func() error {
		file, err := safetensors.Deserialize(data)
		if err == nil {
			views = file.Tensors()
		}
		return err
	})
	switch {
	case errors.As(err, &fault):
		return shorter(shard.Name)
	case err != nil:
		return fmt.Errorf("%w: %s: the second reader refuses it: %w", pack.ErrCorrupt, shard.Name, err)
	}
	for _, v := range views {
		if _, ok := r.tensors[v.Name]; ok {
			return fmt.Errorf("%w: %s: the second reader finds tensor %q twice", pack.ErrCorrupt, shard.Name, v.Name)
		}
		t, size := v.TensorView, int64(v.TensorView.DataLen())
		begin := int64(cap(data) - cap(t.Data())) // a slice of data ends where data ends
		stored := section{shard.Name, io.NewSectionReader(shard.File, begin, size)}
		r.tensors[v.Name] = sourceTensor{stored, v.Name, t.DType().String(), ints(t.Shape()), size}
	}
	return nil
}

func ints(shape []uint64) []int {
	list := make([]int, len(shape))
	for i, n := range shape {
		list[i] = int(n)
	}
	return list
}

// section is the data of a tensor in a file.
type section struct {
	file string
	*io.SectionReader
}

func (s section) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > s.Size() {
		return 0, fmt.Errorf("%s: bytes %d to %d of %d were asked for", s.file, off, off+int64(len(p)), s.Size())
	}
	n, err := s.SectionReader.ReadAt(p, off)
	switch {
	case n == len(p):
		return n, nil
	case errors.Is(err, io.EOF):
		return n, shorter(s.file)
	}
	return n, fmt.Errorf("%s: %w", s.file, err)
}

func shorter(file string) error {
	return fmt.Errorf("%w: %s: the file became shorter while it was read", pack.ErrCorrupt, file)
}

// first is the data of a tensor as the first reader has them.
type first struct {
	from *checkpoint.Checkpoint
	t    checkpoint.Tensor
}

func (r first) ReadAt(p []byte, off int64) (int, error) {
	if err := r.from.ReadAt(r.t, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}
