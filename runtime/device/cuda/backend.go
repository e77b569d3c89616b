package cuda

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// register adds the driver to those of package device.
func register(load func() (*driver, error)) {
	device.Register(device.Driver{
		Kind: "cuda",
		List: func() ([]device.Info, error) {
			d, err := load()
			if err != nil {
				return nil, err
			}
			return list(d)
		},
		Open: func(i int) (device.Backend, error) {
			d, err := load()
			if err != nil {
				return nil, err
			}
			return open(d, i)
		},
	})
}

// backend is an open GPU.
type backend struct {
	*driver
	info      device.Info
	device    int32
	context   uintptr
	stream    uintptr
	module    uintptr
	functions map[string]uintptr
	shape     shape
	memories  []*memory
	staging   []byte // memory of the driver
	staged    int    // bytes at its start that the GPU may not have read
	err       error  // the first one, after which the GPU is left alone
}

// memory is allocated memory.
type memory struct {
	at    uint64
	bytes int
}

func (m *memory) Bytes() int { return m.bytes }

// align is what the memory of a GPU is aligned to.
const align = 256

// list describes all GPUs.
func list(d *driver) ([]device.Info, error) {
	n, err := d.count()
	if err != nil {
		return nil, err
	}
	infos := make([]device.Info, n)
	for i := range infos {
		b, err := describe(d, i)
		if err != nil {
			return nil, err
		}
		infos[i] = b.info
	}
	return infos, nil
}

// count is the number of GPUs.
func (d *driver) count() (int, error) {
	var n int32
	if err := d.check(d.Init(0), "start"); err != nil {
		return 0, fmt.Errorf("%w: %w", pack.ErrUnsupported, err)
	}
	return int(n), d.check(d.DeviceCount(&n), "count the GPUs")
}

// open opens GPU i with its kernels.
func open(d *driver, i int) (*backend, error) {
	n, err := d.count()
	if err != nil {
		return nil, err
	}
	if i >= n {
		return nil, fmt.Errorf("%w: device cuda:%d; there are %d GPUs", pack.ErrUnsupported, i, n)
	}
	b, err := openContext(d, i)
	if err != nil {
		return nil, err
	}
	if err := b.do(b.loadKernels); err != nil {
		return nil, fmt.Errorf("%w (%w)", err, b.Close())
	}
	return b, nil
}

// describe asks for what is fixed of GPU i.
func describe(d *driver, i int) (*backend, error) {
	b := &backend{driver: d, functions: map[string]uintptr{}, info: device.Info{Name: fmt.Sprintf("cuda:%d", i),
		Align: align}}
	if err := d.check(d.DeviceGet(&b.device, int32(i)), "open GPU %d", i); err != nil {
		return nil, err
	}
	return b, b.describe()
}

// openContext opens GPU i.
func openContext(d *driver, i int) (*backend, error) {
	b, err := describe(d, i)
	if err != nil {
		return nil, err
	}
	if err := d.check(d.ContextRetain(&b.context, b.device), "open GPU %d", i); err != nil {
		return nil, err
	}
	return b, b.do(func() error {
		var free, total uint64
		if err := b.check(b.MemInfo(&free, &total), "ask for free memory"); err != nil {
			return err
		}
		b.info.Free = int(free)
		if err := b.check(b.StreamCreate(&b.stream, streamOwn), "make a stream"); err != nil {
			return err
		}
		var at unsafe.Pointer
		if err := b.check(b.HostAlloc(&at, stagingBytes), "allocate %d bytes of the host", stagingBytes); err != nil {
			return err
		}
		b.staging = unsafe.Slice((*byte)(at), stagingBytes)
		return nil
	})
}

// describe asks for what is fixed of the GPU.
func (b *backend) describe() error {
	var name [128]byte
	var version, major, minor, processors, shared int32
	var total uint64
	for _, ask := range []func() result{
		func() result { return b.DeviceName(&name[0], int32(len(name)-1), b.device) },
		func() result { return b.DriverVersion(&version) },
		func() result { return b.DeviceTotalMem(&total, b.device) },
		func() result { return b.DeviceAttribute(&major, attributeMajor, b.device) },
		func() result { return b.DeviceAttribute(&minor, attributeMinor, b.device) },
		func() result { return b.DeviceAttribute(&processors, attributeMultiprocessors, b.device) },
		func() result { return b.DeviceAttribute(&shared, attributeSharedMemory, b.device) },
	} {
		if err := b.check(ask(), "describe %s", b.info.Name); err != nil {
			return err
		}
	}
	b.shape = shape{int(processors), int(shared), int(major*10 + minor)}
	b.info.Device = goString(&name[0])
	b.info.Driver = fmt.Sprintf("CUDA %d.%d", version/1000, version%1000/10)
	b.info.Memory, b.info.Free = int(total), int(total)
	b.info.MaxAlloc, b.info.MaxRange = int(total), int(total)
	b.info.Lacks = lacks()
	b.info.Accelerated = []string{"int8 dot products", "int8 tensor cores"}
	b.info.Probe = []string{"float32: rounded to nearest even, subnormals, fused multiply-add: promised by PTX"}
	if b.shape.capability < oldest {
		return fmt.Errorf("%w: %s is a %s of compute capability %d.%d; 8.0 is the oldest one with int8 tensor cores",
			pack.ErrUnsupported, b.info.Name, b.info.Device, major, minor)
	}
	return nil
}

// do calls f on a thread that has the context. After the first error it calls nothing more.
func (b *backend) do(f func() error) error {
	if b.err != nil {
		return b.err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := b.check(b.ContextSet(b.context), "use %s", b.info.Name)
	if err == nil {
		err = f()
	}
	return err
}

// fail remembers an error.
func (b *backend) fail(err error) error {
	if b.err == nil {
		b.err = err
	}
	return err
}

func (b *backend) Info() device.Info { return b.info }

func (b *backend) Alloc(bytes int, _ device.Use) (device.Memory, error) {
	m := &memory{bytes: bytes}
	err := b.do(func() error { return b.check(b.MemAlloc(&m.at, uint64(max(bytes, 1))), "allocate %d bytes", bytes) })
	if err != nil {
		return nil, err
	}
	b.memories = append(b.memories, m)
	return m, nil
}

// address of a range.
func address(r device.Range) uint64 { return r.Memory.(*memory).at + uint64(r.Offset) }

// stagingBytes is memory of the host that the GPU reads and writes itself. Copies go through it: those of a pass, all
// at once.
const stagingBytes = 4 << 20

// Upload returns when the bytes are in the staging memory, which is used from its start again when the GPU has read it.
func (b *backend) Upload(to device.Range, data []byte) error {
	return b.fail(b.do(func() error {
		for at := address(to); len(data) > 0; {
			if b.staged == len(b.staging) {
				if err := b.wait("upload"); err != nil {
					return err
				}
			}
			n := copy(b.staging[b.staged:], data)
			if err := b.check(b.MemUpload(at, &b.staging[b.staged], uint64(n), b.stream), "upload"); err != nil {
				return err
			}
			b.staged, at, data = b.staged+n, at+uint64(n), data[n:]
		}
		return nil
	}))
}

// wait waits until the GPU has nothing to do.
func (b *backend) wait(what string) error {
	b.staged = 0
	return b.check(b.StreamWait(b.stream), "%s", what)
}

func (b *backend) Download(data []byte, from device.Range) error {
	return b.fail(b.do(func() error {
		if err := b.wait("download"); err != nil {
			return err
		}
		for at := address(from); len(data) > 0; {
			n := min(len(data), len(b.staging))
			if err := b.check(b.MemDownload(&b.staging[0], at, uint64(n), b.stream), "download"); err != nil {
				return err
			}
			if err := b.wait("download"); err != nil {
				return err
			}
			copy(data, b.staging[:n])
			at, data = at+uint64(n), data[n:]
		}
		return nil
	}))
}

func (b *backend) Copy(to, from device.Range) error {
	return b.fail(b.do(func() error {
		return b.check(b.MemCopy(address(to), address(from), uint64(from.Bytes), b.stream), "copy")
	}))
}

// commands are a graph.
type commands struct {
	b     *backend
	graph uintptr
}

func (b *backend) Record(steps []device.Step) (device.Commands, error) {
	c := &commands{b: b}
	all, err := b.shape.launches(steps)
	if err != nil {
		return nil, err
	}
	if err := b.do(func() error { return b.capture(c, all) }); err != nil {
		return nil, b.fail(err)
	}
	return c, nil
}

// capture makes a graph of launches.
func (b *backend) capture(c *commands, all []launch) error {
	if err := b.check(b.CaptureBegin(b.stream, captureThread), "record"); err != nil {
		return err
	}
	var err error
	for i := range all {
		if err = b.launch(&all[i]); err != nil {
			break
		}
	}
	var graph uintptr
	if end := b.check(b.CaptureEnd(b.stream, &graph), "record"); err == nil {
		err = end
	}
	if err != nil {
		return err
	}
	err = b.check(b.GraphInstantiate(&c.graph, graph, 0), "record %d launches", len(all))
	if destroy := b.check(b.GraphDestroy(graph), "record"); err == nil {
		err = destroy
	}
	return err
}

// launch starts a kernel, or records its start.
func (b *backend) launch(l *launch) error {
	f, err := b.function(l.kernel, l.shared)
	if err != nil {
		return err
	}
	// All of it is on the heap, and stays where it is: the driver reads it by its addresses.
	var pin runtime.Pinner
	defer pin.Unpin()
	attributes := make([]attribute, 0, 2)
	if l.cluster > 1 {
		attributes = append(attributes, attribute{id: launchCluster, value: [16]uint32{l.cluster, 1, 1}})
	}
	if b.shape.capability == hopper {
		attributes = append(attributes, attribute{id: launchEarly, value: [16]uint32{1}})
	}
	c := &config{grid: l.grid, block: [3]uint32{l.threads, 1, 1}, shared: l.shared, stream: b.stream}
	if len(attributes) > 0 {
		c.attributes, c.count = &attributes[0], uint32(len(attributes))
		pin.Pin(c.attributes)
	}
	params := &[1]unsafe.Pointer{unsafe.Pointer(&l.param[0])}
	pin.Pin(c)
	pin.Pin(&l.param[0])
	pin.Pin(params)
	return b.check(b.Launch(c, f, &params[0], nil), "launch %s with %v blocks", l.kernel, l.grid)
}

// Run waits by asking, at first without a pause: a pass of one token takes less than a millisecond.
func (c *commands) Run(limit time.Duration) error {
	b := c.b
	return b.fail(b.do(func() error {
		if err := b.check(b.GraphLaunch(c.graph, b.stream), "run"); err != nil {
			return err
		}
		for start := time.Now(); ; {
			switch r := b.StreamQuery(b.stream); {
			case r == success:
				b.staged = 0
				return nil
			case r != notReady:
				return b.check(r, "run")
			}
			switch passed := time.Since(start); {
			case passed > limit:
				return fmt.Errorf("CUDA: %s did not end its work within %v", b.info.Name, limit)
			case passed > spin:
				time.Sleep(nap)
			}
		}
	}))
}

const (
	spin = 3 * time.Millisecond
	nap  = 50 * time.Microsecond
)

func (c *commands) Free() {
	if c.graph == 0 {
		return
	}
	_ = c.b.do(func() error { // the steps have run: nothing depends on it
		c.b.GraphFree(c.graph)
		return nil
	})
	c.graph = 0
}

// Close frees everything. What a GPU that has failed holds is left to the driver, which frees it when the program ends:
// its functions may wait for the GPU forever.
func (b *backend) Close() error {
	if b.err != nil {
		return nil
	}
	err := b.do(func() error {
		var first error
		note := func(r result, what string) {
			if err := b.check(r, "%s", what); first == nil {
				first = err
			}
		}
		for _, m := range b.memories {
			note(b.MemFree(m.at), "free memory")
		}
		if b.staging != nil {
			note(b.HostFree(unsafe.Pointer(&b.staging[0])), "free memory of the host")
		}
		if b.module != 0 {
			note(b.ModuleUnload(b.module), "unload kernels")
		}
		if b.stream != 0 {
			note(b.StreamDestroy(b.stream), "free a stream")
		}
		return first
	})
	if release := b.check(b.ContextRelease(b.device), "close %s", b.info.Name); err == nil {
		err = release
	}
	b.err = fmt.Errorf("CUDA: %s is closed", b.info.Name)
	return err
}
