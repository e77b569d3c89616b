// Package counting is a device that computes nothing: it counts what the passes of a model ask of a device.
package counting

import (
	"fmt"
	"time"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// Device is a backend whose steps are counted instead of computed. What is downloaded from memory for the host is what
// was uploaded; from other memory, zeros.
type Device struct {
	Counts
	info      device.Info
	allocated int
	listed    bool // the next steps are submitted with those before them
}

// Counts are what passes ask of a device.
type Counts struct {
	// Submits are lists of steps. Lists between which the host neither writes nor reads anything are one: they are
	// several only so that none takes too long.
	Submits int
	// Barriers are those of Vulkan: at both ends of a list, and before every step that is not Apart.
	Barriers int
	// Copies are uploads to and downloads from memory that only the device reads: a submit more each, where the host
	// does not reach such memory.
	Copies     int
	Copied     int    // bytes of all uploads and downloads, also of memory for the host
	Dispatches []Cost // of each step, in their order
}

// Limits of the device. maxStorageBufferRange, the size of a buffer of a step of Vulkan, is a number of 32 bits.
const (
	maxRange = 1<<32 - Align
	memory   = 1 << 46
)

// Align is what the memory of the device is aligned to: the largest minStorageBufferOffsetAlignment of Vulkan.
const Align = 256

// New makes a device with an amount of memory that no model exceeds. The buffers of a step have up to most bytes; 0 =
// as many as on any Vulkan device.
func New(name string, most int) *Device {
	if most == 0 {
		most = maxRange
	}
	return &Device{info: device.Info{Name: name, Device: "no device, counted", Memory: memory, Free: memory,
		MaxAlloc: memory, MaxRange: most, Align: Align}}
}

// Info describes the device.
func (d *Device) Info() device.Info { return d.info }

// Allocated is the number of bytes that the device has allocated.
func (d *Device) Allocated() int { return d.allocated }

// Reset forgets what was counted.
func (d *Device) Reset() { d.Counts, d.listed = Counts{}, false }

// allocation is memory of the device.
type allocation struct {
	bytes int
	held  []byte // nil = what only the device reads
}

func (a *allocation) Bytes() int { return a.bytes }

// bytesOf returns the bytes of a range; nil if it holds none.
func bytesOf(r device.Range) []byte {
	a := r.Memory.(*allocation)
	if a.held == nil {
		return nil
	}
	return a.held[r.Offset:][:r.Bytes]
}

// Alloc counts memory; that for the host holds bytes.
func (d *Device) Alloc(bytes int, use device.Use) (device.Memory, error) {
	d.allocated += bytes
	a := &allocation{bytes: bytes}
	if use == device.Host {
		a.held = make([]byte, bytes)
	}
	return a, nil
}

// touch notes that the host writes or reads a range, and returns its bytes.
func (d *Device) touch(r device.Range) []byte {
	d.listed = false
	d.Copied += r.Bytes
	held := bytesOf(r)
	if held == nil {
		d.Copies++
	}
	return held
}

// Upload keeps what is for the host.
func (d *Device) Upload(to device.Range, data []byte) error {
	copy(d.touch(to), data)
	return nil
}

// Download returns what the memory holds.
func (d *Device) Download(data []byte, from device.Range) error {
	clear(data)
	copy(data, d.touch(from))
	return nil
}

// Copy counts a copy on the device.
func (d *Device) Copy(to, from device.Range) error {
	d.listed = false
	d.Copies++
	return nil
}

// Record checks that all steps can be counted.
func (d *Device) Record(steps []device.Step) (device.Commands, error) {
	for i := range steps {
		if costOf(steps[i].Kernel) == nil {
			return nil, fmt.Errorf("%w: the kernel %q is not counted", pack.ErrUnsupported, steps[i].Kernel)
		}
	}
	return &list{d, append([]device.Step(nil), steps...)}, nil
}

// Close does nothing: the counts stay.
func (d *Device) Close() error { return nil }

// list is recorded steps.
type list struct {
	device *Device
	steps  []device.Step
}

// Run counts the steps.
func (l *list) Run(time.Duration) error {
	d := l.device
	if !d.listed {
		d.listed = true
		d.Submits++
		d.Barriers++ // at the end: the one at the beginning is that before the first step
	}
	for i := range l.steps {
		s := &l.steps[i]
		if !s.Apart {
			d.Barriers++
		}
		d.Dispatches = append(d.Dispatches, costOf(s.Kernel)(s))
	}
	return nil
}

func (l *list) Free() {}
