package convert

import (
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
)

// create is packed.Create in a file system that tests make fail.
func create(fs atomicfile.FS, target string, c packed.Contents) (*packed.Writer, error) {
	size, err := c.Size()
	if err != nil {
		return nil, err
	}
	file, err := atomicfile.CreateSized(fs, target, size)
	if err != nil {
		return nil, err
	}
	return packed.NewWriter(file, c)
}
