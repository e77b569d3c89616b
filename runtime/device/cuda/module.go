package cuda

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
)

// The kernels, compiled by _gpu/cuda/build: machine code for compute capability 9.0, and PTX for all others.
var (
	//go:embed kernels_sm90a.cubin.gz
	machineCode []byte
	//go:embed kernels_sm80.ptx.gz
	ptx []byte
)

// loadKernels gives the kernels to the driver.
func (b *backend) loadKernels() error {
	packed := ptx
	if b.shape.capability == hopper {
		packed = machineCode
	}
	image, err := unpacked(packed)
	if err != nil {
		return err
	}
	image = append(image, 0) // PTX is a string
	return b.check(b.ModuleLoad(&b.module, &image[0]), "load kernels")
}

func unpacked(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("CUDA: kernels: %w", err)
	}
	return io.ReadAll(r)
}

// freeShared is the shared memory that a block may have without asking for it.
const freeShared = 32 << 10

// function finds a kernel, and allows it the shared memory that it needs.
func (b *backend) function(name string, shared uint32) (uintptr, error) {
	f, ok := b.functions[name]
	if !ok {
		text := append([]byte(name), 0)
		if err := b.check(b.ModuleFunction(&f, b.module, &text[0]), "find kernel %s", name); err != nil {
			return 0, err
		}
		b.functions[name] = f
	}
	if shared <= freeShared {
		return f, nil
	}
	return f, b.check(b.FunctionAttribute(f, functionSharedMemory, int32(shared)), "prepare kernel %s", name)
}
