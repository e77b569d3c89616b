package registry

import (
	"fmt"
	"strings"

	"github.com/lowpack/lowpack/formats/packed"
)

// sizes of parts in bytes: tensors from large on are layers of their own, as another file of the same model may have
// them, and an interrupted push sends at most a piece of each of them again.
type sizes struct{ large, piece int64 }

var usual = sizes{large: 1 << 20, piece: 64 << 20}

// part is a range of the bytes of a packed file.
type part struct {
	title, mediaType string
	begin, size      int64
}

// cutter cuts a file from its beginning to its end.
type cutter struct {
	sizes
	name  string // of the file
	at    int64
	parts []part
}

// cut returns the parts of a packed file, which are the file one after another.
func cut(f *packed.File, name string, s sizes) ([]part, error) {
	c := &cutter{sizes: s, name: name}
	for f.Size()/c.piece > maxLayers/2 {
		c.piece *= 2
	}
	for _, t := range f.Tensors() {
		s, err := f.Section(t.Name)
		if err != nil {
			return nil, err
		}
		_, begin, size := s.Outer()
		file, embedded := strings.CutPrefix(t.Name, packed.FilePrefix)
		embedded = embedded && t.Name != packed.GoldenName && size > 0
		if size < c.large && !embedded {
			continue // with its neighbours
		}
		c.weights(begin)
		if embedded {
			c.add(part{file, embeddedType, begin, size})
		}
		c.weights(begin + size)
	}
	c.weights(f.Size())
	return c.parts, nil
}

// weights adds the parts up to an offset.
func (c *cutter) weights(end int64) {
	for c.at < end {
		title := fmt.Sprintf("%s.part%04d", c.name, len(c.parts))
		c.add(part{title, weightType, c.at, min(c.piece, end-c.at)})
	}
}

func (c *cutter) add(p part) {
	c.parts, c.at = append(c.parts, p), p.begin+p.size
}
