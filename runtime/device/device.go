// Package device runs the forward pass of a model on an accelerator, with the bits of the CPU.
//
// A [Backend] has memory and kernels, which [Kernel] defines: whole passes are lists of steps that are recorded once
// per shape and submitted many times. [Load] makes the plan of a model, or of its last layers ([Model.Last]), and
// uploads its weights; [Pass.Run] takes tokens through it. Backends are packages below this one; they call [Register],
// and programs that import them find them by [Open].
package device

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lowpack/lowpack/pack"
)

// Backend is an open device. Its methods are called by one goroutine at a time. After the first error of a method,
// other than an Alloc that found too little memory, only Close is called.
type Backend interface {
	// Info describes the device.
	Info() Info
	// Alloc allocates memory, aligned as Info.Align says. What it holds is undefined. Memory for the Host is what
	// Upload and Download reach without a copy on the device, if there is such memory; other memory is what kernels
	// read fastest. Everything is freed by Close. Too little memory is an error that wraps pack.ErrLimit.
	Alloc(bytes int, use Use) (Memory, error)
	// Upload copies bytes to a range of the same size, whose offset is a multiple of 4. It may return before the
	// copy is complete: steps that are submitted later see it. data may be changed once it has returned.
	Upload(to Range, data []byte) error
	// Download copies a range to bytes after all steps that were submitted have ended.
	Download(data []byte, from Range) error
	// Copy copies a range to one of the same size, after all steps that were submitted have ended. Both have offsets
	// and sizes that are multiples of 4, and do not overlap.
	Copy(to, from Range) error
	// Record makes a list of steps ready to be submitted any number of times. A step sees what the steps before it
	// wrote, unless it is Apart. The buffers of a step have offsets that are multiples of Info.Align, and at most
	// Info.MaxRange bytes.
	Record(steps []Step) (Commands, error)
	// Close frees everything. After a failed method it must not hang.
	Close() error
}

// Commands are recorded steps.
type Commands interface {
	// Run submits the steps and waits until they have ended. A device that does not end them within the limit is an
	// error.
	Run(limit time.Duration) error
	// Free frees the commands. They are not used afterwards.
	Free()
}

// Use says who uses memory most.
type Use int

// The uses.
const (
	Steps Use = iota
	Host
)

// Memory is allocated memory of a backend.
type Memory interface{ Bytes() int }

// Range is a part of a memory.
type Range struct {
	Memory Memory
	Offset int // bytes
	Bytes  int
}

// Part is a range within a range.
func (r Range) Part(offset, bytes int) Range {
	if offset < 0 || bytes < 0 || offset+bytes > r.Bytes {
		panic(fmt.Sprintf("device: %d bytes at %d of a range of %d", bytes, offset, r.Bytes))
	}
	return Range{r.Memory, r.Offset + offset, bytes}
}

// Step is the call of a kernel.
type Step struct {
	Kernel    Kernel
	Buffers   []Range
	Constants []uint32 // Words
	// Apart says that the step neither reads nor writes what the step before it, or any before that up to one that is
	// not Apart, writes, so that they may run at the same time.
	Apart bool
}

// Info describes a device.
type Info struct {
	Name     string `json:"name"`   // "vulkan:0"
	Device   string `json:"device"` // as its driver calls it
	Driver   string `json:"driver"`
	Memory   int    `json:"memory"`    // bytes
	Free     int    `json:"free"`      // bytes that can be allocated, as far as the driver says
	MaxAlloc int    `json:"max_alloc"` // bytes of one allocation
	MaxRange int    `json:"max_range"` // bytes of a buffer of a step
	Align    int    `json:"align"`     // of buffers of a step
	// Software says that the device is a CPU: auto does not take it.
	Software bool `json:"software"`
	// Accelerated lists what the device does in hardware that other devices do in several instructions.
	Accelerated []string `json:"accelerated"`
	// Probe lists what the probe of its arithmetic found: an operation and its route.
	Probe []string `json:"probe"`
	// Lacks lists the kernels that the device does not have. A model that needs one is refused; none needs KernelTop.
	Lacks []Kernel `json:"lacks,omitempty"`
}

// Driver opens the devices of one kind.
type Driver struct {
	Kind string // "vulkan"
	// List describes the devices as far as their driver does without opening them: with neither Probe nor what of their
	// memory is free in fact. No driver or no loader is an error.
	List func() ([]Info, error)
	// Open opens device i of the list.
	Open func(i int) (Backend, error)
}

// CPU is the device that computes without any of this package; Auto is the first device that is not a CPU, if there is
// one and it serves the model, else the CPU.
const (
	CPU  = "cpu"
	Auto = "auto"
)

var drivers struct {
	sync.Mutex
	list []Driver
}

// Register adds a driver. Backends call it when a program starts.
func Register(d Driver) {
	drivers.Lock()
	defer drivers.Unlock()
	drivers.list = append(drivers.list, d)
}

// Drivers lists the drivers of the program.
func Drivers() []Driver {
	drivers.Lock()
	defer drivers.Unlock()
	return append([]Driver(nil), drivers.list...)
}

// Open opens a device by name: a kind for its first device, a kind and a number as in vulkan:1, or Auto for Best. A
// name without a driver in this program is an error that wraps pack.ErrUnsupported.
func Open(name string) (Backend, error) {
	if name == Auto {
		return Best()
	}
	kind, number, numbered := strings.Cut(name, ":")
	i := 0
	if numbered {
		var err error
		if i, err = strconv.Atoi(number); err != nil || i < 0 {
			return nil, fmt.Errorf("%w: device %q; want a kind, or a kind and a number as in vulkan:1",
				pack.ErrUnsupported, name)
		}
	}
	for _, d := range Drivers() {
		if d.Kind == kind {
			return d.Open(i)
		}
	}
	return nil, fmt.Errorf("%w: device %q: this program has no driver for it", pack.ErrUnsupported, name)
}

// Best opens the first device that is not a CPU and that can be opened.
func Best() (Backend, error) { return best(Drivers()) }

func best(list []Driver) (Backend, error) {
	why := fmt.Errorf("%w: this program has no drivers of devices", pack.ErrUnsupported)
	for _, d := range list {
		list, err := d.List()
		if err != nil {
			why = err
			continue
		}
		why = fmt.Errorf("%w: %s finds no device other than a CPU", pack.ErrUnsupported, d.Kind)
		for i := range list {
			if list[i].Software {
				continue
			}
			b, err := d.Open(i)
			if err == nil {
				return b, nil
			}
			why = err
		}
	}
	return nil, why
}

// Describe lists the devices with what opening each of them finds. Of one that cannot be opened, Probe is the reason.
func (d Driver) Describe() ([]Info, error) {
	list, err := d.List()
	for i := range list {
		b, err := d.Open(i)
		if err != nil {
			list[i].Probe = []string{err.Error()}
			continue
		}
		list[i] = b.Info()
		b.Close() // nothing was done with it
	}
	return list, err
}
