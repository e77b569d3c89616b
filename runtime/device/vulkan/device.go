//go:build vulkan

package vulkan

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// settings change how a device computes, not what; tests use them. The zero value is what the probe says.
type settings struct {
	routes *routes // in place of those of the probe
	noDots bool
	fail   func(what string) result // what a call fails with, by its name; nil = calls are made
}

// gpu is an open device: a VkDevice with a queue, a command pool and a fence.
type gpu struct {
	physical
	settings
	handle    uintptr
	queue     uintptr
	pool      handle
	fence     handle
	functions map[string]uintptr
	memories  []*memory
	staging   *memory
	pipelines []*pipeline
	routes    routes
	hangs     bool // a submit has not ended: nothing can be freed
}

var _ device.Backend = (*gpu)(nil)

// What the shaders need of a workgroup: invocations, and bytes that they share.
const leastGroup, leastShared = 256, 16 << 10

// newDevice opens a device and probes its arithmetic.
func newDevice(p *physical, s settings) (*gpu, error) {
	if p.groupSize < leastGroup || p.shared < leastShared {
		return nil, fmt.Errorf("%w: %s (%s) has workgroups of %d with %d bytes; want %d and %d", pack.ErrUnsupported,
			p.Name, p.Device, p.groupSize, p.shared, leastGroup, leastShared)
	}
	g := &gpu{physical: *p, settings: s, functions: map[string]uintptr{}}
	if err := g.create(); err != nil {
		g.Close()
		return nil, err
	}
	if err := g.probe(); err != nil {
		g.Close()
		return nil, fmt.Errorf("%s (%s): %w", g.Name, g.Device, err)
	}
	return g, nil
}

func (g *gpu) function(name string) uintptr {
	f, ok := g.functions[name]
	if !ok {
		f, _, _ = purego.SyscallN(g.in.function("vkGetDeviceProcAddr"), g.handle, uintptr(ptr(cString(name))))
		if f == 0 {
			panic("vulkan: no function " + name)
		}
		g.functions[name] = f
	}
	return f
}

// do calls a function of the device, whose first argument it is.
func (g *gpu) do(name string, args ...any) error {
	if err := g.planted(name); err != nil {
		return err
	}
	return check(name, call(g.function(name), append([]any{g.handle}, args...)...))
}

// planted is the error that a test wants a call to have.
func (g *gpu) planted(name string) error {
	if g.fail == nil {
		return nil
	}
	return check(name, g.fail(name))
}

func (g *gpu) create() error {
	one := float32(1)
	info := &deviceInfo{sType: 3, queueCount: 1,
		queues: &queueInfo{sType: 2, family: g.family, count: 1, priorities: &one}}
	if g.noDots {
		g.dots = false
	}
	var names []*byte
	if g.dots {
		info.next = ptr(&boolFeatures{sType: 1000280000, on: [4]uint32{1}})
		names = append(names, cString("VK_KHR_shader_integer_dot_product"))
	}
	if g.matrices.m != 0 {
		info.next = ptr(matrixFeatures(info.next, 1))
		names = append(names, cString(matrixExtension))
	}
	if len(names) > 0 {
		info.extCount, info.exts = uint32(len(names)), &names[0]
	}
	if err := check("vkCreateDevice", call(g.in.function("vkCreateDevice"), g.physical.handle, at(info), 0,
		at(&g.handle))); err != nil {
		return fmt.Errorf("%w (may this user use the device?)", err)
	}
	call(g.function("vkGetDeviceQueue"), g.handle, g.family, 0, at(&g.queue))
	return errors.Join(
		g.do("vkCreateCommandPool", at(&poolInfo{sType: 39, flags: 2, family: g.family}), 0, at(&g.pool)),
		g.do("vkCreateFence", at(&fenceInfo{sType: 8}), 0, at(&g.fence)))
}

// Info describes the device.
func (g *gpu) Info() device.Info { return g.physical.Info }

// memory is a VkBuffer with memory of its own.
type memory struct {
	buffer, memory handle
	bytes          int
	mapped         []byte // nil = the host does not see it
	cached         bool   // reading it is as fast as any memory of the host
}

// Bytes is the size.
func (m *memory) Bytes() int { return m.bytes }

// Flags of types of memory.
const (
	deviceLocal, hostVisible, hostCoherent, hostCached = 1, 2, 4, 8
)

// want is a wish for a type of memory: flags that it has, and those that are better.
type want struct{ must, better uint32 }

// Alloc allocates memory.
func (g *gpu) Alloc(bytes int, use device.Use) (device.Memory, error) {
	w := want{deviceLocal, 0}
	if use == device.Host {
		w = want{hostVisible | hostCoherent, deviceLocal}
	}
	return g.alloc(bytes, w)
}

func (g *gpu) alloc(bytes int, w want) (*memory, error) {
	m := &memory{bytes: bytes}
	const storageAndCopies = 0x20 | 3
	if err := g.do("vkCreateBuffer", at(&bufferInfo{sType: 12, size: uint64(bytes), usage: storageAndCopies}), 0,
		at(&m.buffer)); err != nil {
		return nil, outOfMemory(err)
	}
	g.memories = append(g.memories, m)
	need := new(memoryRequirements)
	call(g.function("vkGetBufferMemoryRequirements"), g.handle, m.buffer, at(need))
	kind, flags, err := g.kindOf(need.types, w)
	if err != nil {
		return nil, err
	}
	if err := g.do("vkAllocateMemory", at(&allocateInfo{sType: 5, size: need.size, kind: kind}), 0,
		at(&m.memory)); err != nil {
		return nil, outOfMemory(err)
	}
	if err := g.do("vkBindBufferMemory", m.buffer, m.memory, 0); err != nil {
		return nil, outOfMemory(err)
	}
	if flags&hostVisible == 0 || flags&hostCoherent == 0 {
		return m, nil
	}
	place := new(ptr)
	if err := g.do("vkMapMemory", m.memory, 0, uint64(bytes), 0, at(place)); err != nil {
		return nil, outOfMemory(err)
	}
	m.mapped, m.cached = unsafe.Slice((*byte)(*place), bytes), flags&hostCached != 0
	return m, nil
}

// kindOf chooses a type of memory. What only the device should read may still be visible to the host, as where both
// share their memory: then nothing has to be copied.
func (g *gpu) kindOf(types uint32, w want) (kind, flags uint32, err error) {
	best := -1
	for t := range g.memory.typeCount {
		f := g.memory.types[t].flags
		if types>>t&1 == 0 || f&w.must != w.must {
			continue
		}
		score := 0
		if f&w.better == w.better {
			score += 4
		}
		if whole := int(g.memory.heaps[g.memory.types[t].heap].size) == g.Memory; whole {
			score += 2
			if f&(hostVisible|hostCoherent) == hostVisible|hostCoherent {
				score++
			}
		}
		if score > best {
			best, kind, flags = score, t, f
		}
	}
	if best < 0 {
		return 0, 0, fmt.Errorf("%w: the device has no memory of the kind %x", pack.ErrUnsupported, w.must)
	}
	return kind, flags, nil
}

// outOfMemory makes an error of an allocation one of the limits.
func outOfMemory(err error) error {
	var r result
	if errors.As(err, &r) && (r == -1 || r == -2) {
		return fmt.Errorf("%w: %w", pack.ErrLimit, err)
	}
	return err
}

// stagingBytes is the size of the memory through which others are written and read.
const stagingBytes = 16 << 20

// stage returns the memory of the host that copies go through.
func (g *gpu) stage() (*memory, error) {
	if g.staging == nil {
		m, err := g.alloc(stagingBytes, want{hostVisible | hostCoherent, hostCached})
		if err != nil {
			return nil, err
		}
		g.staging = m
	}
	return g.staging, nil
}

// Upload copies bytes to a range.
func (g *gpu) Upload(to device.Range, data []byte) error {
	m := to.Memory.(*memory)
	if m.mapped != nil {
		copy(m.mapped[to.Offset:], data)
		return nil
	}
	s, err := g.stage()
	for at := 0; at < len(data) && err == nil; {
		n := copy(s.mapped, data[at:])
		err = g.copy(move{s, m, copyRegion{0, uint64(to.Offset + at), uint64(n)}})
		at += n
	}
	return err
}

// Download copies a range to bytes.
func (g *gpu) Download(data []byte, from device.Range) error {
	const few = 4 << 10
	m := from.Memory.(*memory)
	if m.mapped != nil && (m.cached || len(data) <= few) {
		copy(data, m.mapped[from.Offset:])
		return nil
	}
	s, err := g.stage()
	for at := 0; at < len(data) && err == nil; {
		n := min(len(data)-at, len(s.mapped))
		err = g.copy(move{m, s, copyRegion{uint64(from.Offset + at), 0, uint64(n)}})
		copy(data[at:], s.mapped[:n])
		at += n
	}
	return err
}

// Copy copies a range on the device.
func (g *gpu) Copy(to, from device.Range) error {
	return g.copy(move{from.Memory.(*memory), to.Memory.(*memory),
		copyRegion{uint64(from.Offset), uint64(to.Offset), uint64(from.Bytes)}})
}

// move is a copy between two memories.
type move struct {
	from, to *memory
	region   copyRegion
}

// copyLimit is how long a copy may take.
const copyLimit = 10 * time.Second

// copy records a copy, submits it and waits.
func (g *gpu) copy(m move) error {
	c, err := g.begin()
	if err != nil {
		return err
	}
	defer c.Free()
	call(g.function("vkCmdCopyBuffer"), c.handle, m.from.buffer, m.to.buffer, 1, at(&m.region))
	if err := c.end(); err != nil {
		return err
	}
	return c.Run(copyLimit)
}

// Close frees everything.
func (g *gpu) Close() error {
	if g.handle == 0 || g.hangs { // a driver that hangs would hang here too
		return nil
	}
	call(g.function("vkDeviceWaitIdle"), g.handle)
	destroy := func(what string, h handle) {
		if h != 0 {
			call(g.function(what), g.handle, h, 0)
		}
	}
	for _, p := range g.pipelines {
		destroy("vkDestroyPipeline", p.handle)
		destroy("vkDestroyPipelineLayout", p.layout)
		destroy("vkDestroyDescriptorSetLayout", p.set)
	}
	for _, m := range g.memories {
		destroy("vkDestroyBuffer", m.buffer)
		destroy("vkFreeMemory", m.memory)
	}
	destroy("vkDestroyFence", g.fence)
	destroy("vkDestroyCommandPool", g.pool)
	call(g.function("vkDestroyDevice"), g.handle, 0)
	g.handle = 0
	return nil
}
