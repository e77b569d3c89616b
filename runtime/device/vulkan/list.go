//go:build vulkan

package vulkan

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/ebitengine/purego"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

func init() {
	device.Register(device.Driver{Kind: "vulkan", List: list, Open: open})
}

// instance is a VkInstance. One is made for a program: drivers are loaded once.
type instance struct {
	handle    uintptr
	functions sync.Map // name → address
}

// function returns the address of a function; the caller knows that it exists.
func (in *instance) function(name string) uintptr {
	if f, ok := in.functions.Load(name); ok {
		return f.(uintptr)
	}
	get, _ := library()
	f, _, _ := purego.SyscallN(get, in.handle, uintptr(ptr(cString(name))))
	if f == 0 {
		panic("vulkan: no function " + name)
	}
	in.functions.Store(name, f)
	return f
}

var theInstance = sync.OnceValues(func() (*instance, error) {
	if _, err := library(); err != nil {
		return nil, fmt.Errorf("%w: %w", pack.ErrUnsupported, err)
	}
	in := &instance{}
	app := &applicationInfo{name: cString("lowpack"), engine: cString("lowpack"), api: version1_3}
	if err := check("vkCreateInstance", call(in.function("vkCreateInstance"), at(&instanceInfo{sType: 1, app: app}), 0,
		at(&in.handle))); err != nil {
		return nil, fmt.Errorf("%w: %w", pack.ErrUnsupported, err)
	}
	return in, nil
})

const version1_3 = 1<<22 | 3<<12

// physical is a device as its driver describes it.
type physical struct {
	device.Info
	in        *instance
	handle    uintptr
	family    uint32 // of its compute queue
	memory    memoryProperties
	dots      bool // has integer dot products
	groupSize uint32
	shared    uint32 // bytes of a workgroup
	matrices  matrices
}

// software is the kind of a device that is a CPU.
const software = 4

// devices lists the devices with a compute queue, in the order of the loader.
func devices() ([]*physical, error) {
	in, err := theInstance()
	if err != nil {
		return nil, err
	}
	n := new(uint32)
	enumerate := in.function("vkEnumeratePhysicalDevices")
	if err := check("vkEnumeratePhysicalDevices", call(enumerate, in.handle, at(n), 0)); err != nil {
		return nil, err
	}
	if *n == 0 {
		return nil, nil
	}
	handles := make([]uintptr, *n)
	call(enumerate, in.handle, at(n), at(&handles[0]))
	var all []*physical
	for _, h := range handles[:*n] {
		p := &physical{in: in, handle: h}
		if p.queue() {
			p.describe()
			p.Name = fmt.Sprintf("vulkan:%d", len(all))
			all = append(all, p)
		}
	}
	return all, nil
}

// queue finds a compute queue.
func (p *physical) queue() bool {
	n := new(uint32)
	get := p.in.function("vkGetPhysicalDeviceQueueFamilyProperties")
	call(get, p.handle, at(n), 0)
	if *n == 0 {
		return false
	}
	families := make([]queueFamily, *n)
	call(get, p.handle, at(n), at(&families[0]))
	i := slices.IndexFunc(families[:*n], func(f queueFamily) bool { return f.flags&2 != 0 })
	p.family = uint32(i)
	return i >= 0
}

// acceleratedDots is what Info.Accelerated says of dot products.
const acceleratedDots = "dot products of packed signed bytes"

// describe reads properties and limits.
func (p *physical) describe() {
	driver := &driverProperties{sType: 1000196000}
	dots := &dotProperties{sType: 1000280001, next: ptr(driver)}
	alloc := &allocProperties{sType: 1000168000, next: ptr(dots)}
	pr := &properties{sType: 1000059001, next: ptr(alloc)}
	call(p.in.function("vkGetPhysicalDeviceProperties2"), p.handle, at(pr))
	limit := func(offset int) int { return int(binary.LittleEndian.Uint32(pr.limits[offset:])) }
	p.Device = goString(pr.name[:])
	p.Driver = goString(driver.name[:]) + " " + goString(driver.info[:])
	p.Software = pr.kind == software
	p.MaxRange, p.MaxAlloc = limit(28)&^255, int(min(alloc.size, 1<<40))
	p.shared, p.groupSize = uint32(limit(216)), uint32(limit(232))
	p.Align = 256 // the largest that minStorageBufferOffsetAlignment can be
	extensions := p.extensions()
	p.dots = slices.Contains(extensions, "VK_KHR_shader_integer_dot_product")
	if p.dots && dots.booleans[4] != 0 {
		p.Accelerated = append(p.Accelerated, acceleratedDots)
	}
	if pr.api >= version1_3 && slices.Contains(extensions, matrixExtension) {
		p.describeMatrices()
	}
	p.describeMemory(slices.Contains(extensions, "VK_EXT_memory_budget"))
}

// describeMemory finds the largest heap of the device, and how much of it is free.
func (p *physical) describeMemory(budgets bool) {
	budget := &budgetProperties{sType: 1000237000}
	p.memory = memoryProperties{sType: 1000059006}
	m := &p.memory
	if budgets {
		m.next = ptr(budget)
	}
	call(p.in.function("vkGetPhysicalDeviceMemoryProperties2"), p.handle, at(m))
	m.next = nil
	for i := range m.heapCount {
		h := m.heaps[i]
		if h.flags&1 == 0 || int(h.size) <= p.Memory {
			continue
		}
		p.Memory = int(h.size)
		p.Free = p.Memory
		if budgets {
			p.Free = max(0, int(budget.budget[i])-int(budget.usage[i]))
		}
	}
	p.Free -= p.Free / 10
}

func (p *physical) extensions() (names []string) {
	n := new(uint32)
	get := p.in.function("vkEnumerateDeviceExtensionProperties")
	if call(get, p.handle, 0, at(n), 0) != 0 || *n == 0 {
		return nil
	}
	list := make([]extension, *n)
	call(get, p.handle, 0, at(n), at(&list[0]))
	for i := range list[:*n] {
		names = append(names, goString(list[i].name[:]))
	}
	return names
}

// list describes all devices.
func list() ([]device.Info, error) {
	all, err := devices()
	if err != nil {
		return nil, err
	}
	infos := make([]device.Info, len(all))
	for i, p := range all {
		infos[i] = p.Info
	}
	return infos, nil
}

// open opens a device of the list.
func open(i int) (device.Backend, error) {
	all, err := devices()
	if err != nil {
		return nil, err
	}
	if i >= len(all) {
		return nil, fmt.Errorf("%w: device vulkan:%d: there are %d", pack.ErrUnsupported, i, len(all))
	}
	return newDevice(all[i], settings{})
}
