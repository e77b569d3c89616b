// Package plaindevice executes the steps of devices literally, in plain Go: it is a device for tests, whose memory
// starts as garbage, and whose every call can fail.
package plaindevice

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// Options describe a device.
type Options struct {
	Memory   int // bytes; 0 = 1 GiB
	MaxAlloc int // bytes; 0 = all
	MaxRange int // bytes of a buffer of a step; 0 = all
	Lacks    []device.Kernel
	// Fail is called before everything that the device does, with the name of the method. Its error is what the
	// method returns. nil = no failure.
	Fail func(call string) error
}

// Device is a backend. Calls counts what was asked of it, by method.
type Device struct {
	Options
	Steps  int // that have run
	used   int
	closed bool
}

// ErrMisuse says that a device was asked for what its interface forbids.
var ErrMisuse = errors.New("misuse of a device")

// New makes a device.
func New(o Options) *Device {
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	if o.MaxAlloc == 0 {
		o.MaxAlloc = o.Memory
	}
	if o.MaxRange == 0 {
		o.MaxRange = o.Memory
	}
	return &Device{Options: o}
}

// Driver makes New devices by name.
func Driver(kind string, o Options) device.Driver {
	return device.Driver{
		Kind: kind,
		List: func() ([]device.Info, error) { return []device.Info{New(o).Info()}, nil },
		Open: func(int) (device.Backend, error) { return New(o), nil },
	}
}

const align = 256

// Info describes the device.
func (d *Device) Info() device.Info {
	return device.Info{Name: "plain", Device: "plain Go", Memory: d.Memory, Free: d.Memory - d.used,
		MaxAlloc: d.MaxAlloc,
		MaxRange: d.MaxRange, Align: align, Lacks: d.Lacks}
}

func (d *Device) call(name string) error {
	if d.closed {
		return fmt.Errorf("%w: %s after Close", ErrMisuse, name)
	}
	if d.Fail == nil {
		return nil
	}
	return d.Fail(name)
}

// memory is words, as every buffer of a step.
type memory struct{ words []uint32 }

func (m *memory) Bytes() int { return 4 * len(m.words) }

// Alloc allocates memory that holds garbage: not-a-numbers.
func (d *Device) Alloc(bytes int, _ device.Use) (device.Memory, error) {
	if err := d.call("Alloc"); err != nil {
		return nil, err
	}
	if bytes > d.MaxAlloc || d.used+bytes > d.Memory {
		return nil, fmt.Errorf("%w: %d bytes", pack.ErrLimit, bytes)
	}
	d.used += bytes
	m := &memory{make([]uint32, (bytes+3)/4)}
	for i := range m.words {
		m.words[i] = 0xffc5a5a5
	}
	return m, nil
}

func words(r device.Range) []uint32 {
	return r.Memory.(*memory).words[r.Offset/4:][:r.Bytes/4]
}

func bytesOf(r device.Range) []byte {
	w := words(r)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 4*len(w))
}

// Upload copies bytes to a range.
func (d *Device) Upload(to device.Range, data []byte) error {
	if err := d.call("Upload"); err != nil {
		return err
	}
	if to.Offset%4 != 0 || to.Bytes != len(data) || len(data)%4 != 0 {
		return fmt.Errorf("%w: an upload of %d bytes to %d at %d", ErrMisuse, len(data), to.Bytes, to.Offset)
	}
	copy(bytesOf(to), data)
	return nil
}

// Download copies a range to bytes.
func (d *Device) Download(data []byte, from device.Range) error {
	if err := d.call("Download"); err != nil {
		return err
	}
	copy(data, bytesOf(from))
	return nil
}

// Copy copies a range.
func (d *Device) Copy(to, from device.Range) error {
	if err := d.call("Copy"); err != nil {
		return err
	}
	copy(words(to), words(from))
	return nil
}

// Record checks steps.
func (d *Device) Record(steps []device.Step) (device.Commands, error) {
	if err := d.call("Record"); err != nil {
		return nil, err
	}
	for _, s := range steps {
		if len(s.Buffers) != s.Kernel.Buffers() || len(s.Constants) != s.Kernel.Constants() {
			return nil, fmt.Errorf("%w: %d buffers and %d constants of %s", ErrMisuse, len(s.Buffers), len(s.Constants),
				s.Kernel)
		}
		for i, b := range s.Buffers {
			if b.Offset%align != 0 || b.Bytes > d.MaxRange || b.Offset+b.Bytes > b.Memory.Bytes() {
				return nil, fmt.Errorf("%w: buffer %d of %s is %d bytes at %d", ErrMisuse, i, s.Kernel, b.Bytes,
					b.Offset)
			}
		}
	}
	return &commands{d, append([]device.Step(nil), steps...), false}, nil
}

// Close ends the device.
func (d *Device) Close() error {
	err := d.call("Close")
	d.closed = true
	return err
}

type commands struct {
	d     *Device
	steps []device.Step
	freed bool
}

// Run executes the steps: those that are Apart in the reverse order, as nothing says which comes first.
func (c *commands) Run(time.Duration) error {
	if err := c.d.call("Run"); err != nil {
		return err
	}
	if c.freed {
		return fmt.Errorf("%w: freed commands", ErrMisuse)
	}
	for from := 0; from < len(c.steps); {
		to := from + 1
		for to < len(c.steps) && c.steps[to].Apart {
			to++
		}
		for i := to - 1; i >= from; i-- {
			run(c.steps[i])
			c.d.Steps++
		}
		from = to
	}
	return nil
}

func (c *commands) Free() { c.freed = true }

// run executes a step.
func run(s device.Step) {
	b := buffers(s.Buffers)
	k, cache := s.Kernel.Of()
	switch k {
	case device.KernelPrepare:
		prepare(device.OperationOf[device.Prepare](s.Constants), b)
	case device.KernelCodes:
		codes(device.OffsetCodes{Codes: device.OperationOf[device.Codes](s.Constants)}, b)
	case device.KernelFloats:
		floats(device.OperationOf[device.Floats](s.Constants), b)
	case device.KernelHeads:
		heads(device.OperationOf[device.Heads](s.Constants), cache, b)
	case device.KernelScores:
		scores(device.OperationOf[device.Scores](s.Constants), cache, b)
	case device.KernelAttend:
		attend(device.OperationOf[device.Attend](s.Constants), cache, b)
	case device.KernelResidual:
		residual(device.OperationOf[device.Residual](s.Constants), b)
	case device.KernelFinish:
		finish(device.OperationOf[device.Finish](s.Constants), b)
	case device.KernelReorder:
		reorder(device.OperationOf[device.Reorder](s.Constants), b)
	case device.KernelSums:
		sums(device.OperationOf[device.Sums](s.Constants), b)
	case device.KernelOffsetCodes:
		codes(device.OperationOf[device.OffsetCodes](s.Constants), b)
	case device.KernelTop:
		top(device.OperationOf[device.Top](s.Constants), b)
	}
}

// buffers are those of a step.
type buffers []device.Range

func (b buffers) u32(i int) []uint32 { return words(b[i]) }

func (b buffers) f32(i int) []float32 {
	w := words(b[i])
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(w))), len(w))
}

func (b buffers) i32(i int) []int32 {
	w := words(b[i])
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(w))), len(w))
}

func (b buffers) i8(i int) []int8 {
	w := words(b[i])
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(w))), 4*len(w))
}

func (b buffers) tokens(i int) []device.Token {
	w := words(b[i])
	return unsafe.Slice((*device.Token)(unsafe.Pointer(unsafe.SliceData(w))), len(w)/4)
}
