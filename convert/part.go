package convert

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// share is one worker's part of a conversion.
type share struct {
	index, count int      // 1 … count
	steps        []*step  // in file order
	files        []string // embedded files
	sources      []string // files of the checkpoint to digest
}

// size of the tensors that a step reads.
func (s *step) size() (n int64) {
	if s.entry == nil {
		return s.from.Size
	}
	for _, t := range s.source.Parts {
		n += t.Size
	}
	return n
}

// whole is everything.
func (p *Plan) whole() share { return p.share(1, 1) }

// share divides the steps, in the order of the source files, into runs of about equal size in bytes. The division
// depends on the plan alone, so workers need no coordination.
func (p *Plan) share(index, count int) share {
	s := share{index: index, count: count}
	total, at, here := p.bytesIn(), int64(0), 0
	last := ""
	for i, step := range p.inFileOrder() {
		if i == 0 || step.from.Name != last { // everything made from one tensor stays together
			middle := at + step.size()/2
			at += step.size()
			here = int(float64(middle) / float64(max(total, 1)) * float64(count))
			last = step.from.Name
		}
		if min(here, count-1)+1 == index { // an empty tensor at the end has everything before it
			s.steps = append(s.steps, step)
		}
	}
	for i, f := range p.source.Sources() {
		if i%count+1 == index {
			s.sources = append(s.sources, f.Name)
		}
	}
	if index == 1 {
		s.files = embeddedFiles(p.source)
	}
	return s
}

// part lists the contents of a file with the share.
func (s *share) part() *packed.Part {
	p := &packed.Part{Index: s.index, Count: s.count, Sources: s.sources}
	for _, step := range s.steps {
		p.Tensors = append(p.Tensors, step.stored()...)
	}
	for _, name := range s.files {
		p.Tensors = append(p.Tensors, packed.FilePrefix+name)
	}
	return p
}

func (s *share) bytesIn() (n int64) {
	for _, step := range s.steps {
		n += step.row.BytesIn
	}
	return n
}

// stored returns the names of the tensors that a step writes.
func (s *step) stored() []string {
	if s.entry == nil {
		return []string{s.from.Name}
	}
	names := []string{s.entry.Name + packed.PackedSuffix}
	for _, b := range s.entry.Beside() {
		names = append(names, s.entry.Name+b.Suffix)
	}
	return names
}

// MaxParts bounds the number of parts of a conversion.
const MaxParts = 4096

// checkPart refuses a part that does not exist.
func checkPart(part, parts int) error {
	if parts < 0 || parts > MaxParts || parts == 0 && part != 0 || parts > 0 && (part < 1 || part > parts) {
		return fmt.Errorf("%w: part %d of %d; there are at most %d parts, counted from 1", pack.ErrUnsupported, part,
			parts, MaxParts)
	}
	return nil
}
