package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// fake is a libcuda whose GPU has memory and computes nothing. Every function counts its calls, and can fail.
type fake struct {
	calls    []string
	fail     string // the function that fails
	with     result
	hang     bool // work never ends
	memory   map[uint64][]byte
	major    int32
	launched []launched
	params   int // bytes of the parameters of a launch that are kept
	driver   driver
}

// launched is a recorded launch.
type launched struct {
	config     config
	attributes []attribute
	param      []byte
}

const fakeAddress = 1 << 20

func newFake() *fake {
	f := &fake{memory: map[uint64][]byte{}, major: 9, with: 700}
	d := &f.driver
	d.ErrorName = func(r result, name **byte) result { *name = &[]byte(fmt.Sprintf("FAKE_%d\x00", r))[0]; return 0 }
	d.Init = func(uint32) result { return 0 }
	d.DriverVersion = func(v *int32) result { *v = 13000; return 0 }
	d.DeviceCount = func(n *int32) result { *n = 2; return 0 }
	d.DeviceGet = func(d *int32, i int32) result { *d = 40 + i; return 0 }
	d.DeviceName = func(name *byte, n, _ int32) result { copy(unsafe.Slice(name, n), "fake GPU"); return 0 }
	d.DeviceTotalMem = func(n *uint64, _ int32) result { *n = 1 << 30; return 0 }
	d.DeviceAttribute = func(v *int32, a, _ int32) result {
		*v = map[int32]int32{attributeMultiprocessors: 132, attributeMajor: f.major, attributeMinor: 0,
			attributeSharedMemory: 227 << 10}[a]
		return 0
	}
	d.ContextRetain = func(c *uintptr, _ int32) result { *c = 1; return 0 }
	d.MemInfo = func(free, total *uint64) result { *free, *total = 1<<29, 1<<30; return 0 }
	d.MemAlloc = f.alloc
	d.HostAlloc = func(at *unsafe.Pointer, n uint64) result {
		*at = unsafe.Pointer(unsafe.SliceData(make([]byte, n)))
		return success
	}
	d.MemUpload = func(to uint64, from *byte, n uint64, _ uintptr) result {
		copy(f.at(to), unsafe.Slice(from, n))
		return 0
	}
	d.MemDownload = func(to *byte, from, n uint64, _ uintptr) result { copy(unsafe.Slice(to, n), f.at(from)); return 0 }
	d.MemCopy = func(to, from, n uint64, _ uintptr) result { copy(f.at(to)[:n], f.at(from)); return 0 }
	d.ModuleLoad = func(m *uintptr, _ *byte) result { *m = 2; return 0 }
	d.ModuleFunction = func(fn *uintptr, _ uintptr, _ *byte) result { *fn = 3; return 0 }
	d.StreamCreate = func(s *uintptr, _ uint32) result { *s = 4; return 0 }
	d.StreamQuery = func(uintptr) result { return map[bool]result{true: notReady}[f.hang] }
	d.CaptureEnd = func(_ uintptr, g *uintptr) result { *g = 5; return 0 }
	d.GraphInstantiate = func(e *uintptr, _ uintptr, _ uint64) result { *e = 6; return 0 }
	d.Launch = f.launch
	f.wrap()
	return f
}

// wrap counts calls, lets the chosen function fail, and lets those that do nothing succeed.
func (f *fake) wrap() {
	v := reflect.ValueOf(&f.driver).Elem()
	for i := range v.NumField() {
		name, inner := v.Type().Field(i).Name, v.Field(i).Interface()
		call := reflect.ValueOf(inner)
		v.Field(i).Set(reflect.MakeFunc(call.Type(), func(args []reflect.Value) []reflect.Value {
			f.calls = append(f.calls, name)
			switch {
			case name == f.fail:
				return []reflect.Value{reflect.ValueOf(f.with)}
			case call.IsNil():
				return []reflect.Value{reflect.ValueOf(success)}
			}
			return call.Call(args)
		}))
	}
}

func (f *fake) alloc(at *uint64, n uint64) result {
	if n > 1<<20 {
		return outOfMemory
	}
	*at = fakeAddress * uint64(len(f.memory)+1)
	f.memory[*at] = make([]byte, n)
	return success
}

func (f *fake) at(address uint64) []byte {
	if large := address >> 40 << 40; large > 0 {
		return f.memory[large][address-large:]
	}
	return f.memory[address/fakeAddress*fakeAddress][address%fakeAddress:]
}

func (f *fake) launch(c *config, _ uintptr, params, _ *unsafe.Pointer) result {
	l := launched{config: *c, attributes: append([]attribute(nil), unsafe.Slice(c.attributes, c.count)...)}
	l.param = append(l.param, unsafe.Slice((*byte)(*params), f.params)...)
	f.launched = append(f.launched, l)
	return success
}

// finish is a step of a kernel with few buffers.
func finishStep(b device.Backend, t *testing.T) device.Step {
	op := device.Finish{N: 2, Vocab: 300, Step: 7, Cap: 30}
	s := device.Step{Kernel: device.KernelFinish, Constants: device.Words(op)}
	for range s.Kernel.Buffers() {
		m, err := b.Alloc(4096, device.Steps)
		if err != nil {
			t.Fatal(err)
		}
		s.Buffers = append(s.Buffers, device.Range{Memory: m, Offset: 256, Bytes: 2400})
	}
	return s
}

// use does everything that a backend can do.
func use(f *fake) (err error) {
	b, err := open(&f.driver, 1)
	if err != nil {
		return err
	}
	defer func() {
		if e := b.Close(); err == nil {
			err = e
		}
	}()
	m, err := b.Alloc(1024, device.Steps)
	if err != nil {
		return err
	}
	whole := device.Range{Memory: m, Bytes: 1024}
	data, got := bytes.Repeat([]byte{1, 2, 3, 4}, 64), make([]byte, 256)
	if err := b.Upload(whole.Part(256, 256), data); err != nil {
		return err
	}
	if err := b.Copy(whole.Part(512, 256), whole.Part(256, 256)); err != nil {
		return err
	}
	op := device.Finish{N: 1, Vocab: 64, Step: 1}
	c, err := b.Record([]device.Step{{Kernel: device.KernelFinish, Constants: device.Words(op),
		Buffers: []device.Range{whole, whole, whole}}})
	if err != nil {
		return err
	}
	if err := c.Run(20 * time.Millisecond); err != nil {
		return err
	}
	c.Free()
	if err := b.Download(got, whole.Part(512, 256)); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return errors.New("other bytes came back")
	}
	return nil
}

// TestUse: everything succeeds, and what was opened is closed.
func TestUse(t *testing.T) {
	f := newFake()
	if err := use(f); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{"MemAlloc", "MemFree"}, {"StreamCreate", "StreamDestroy"},
		{"ModuleLoad", "ModuleUnload"}, {"HostAlloc", "HostFree"}, {"ContextRetain", "ContextRelease"},
		{"GraphInstantiate", "GraphFree"}} {
		if a, b := f.count(pair[0]), f.count(pair[1]); a != b || a == 0 {
			t.Errorf("%d calls of %s, %d of %s", a, pair[0], b, pair[1])
		}
	}
}

func (f *fake) count(name string) (n int) {
	for _, c := range f.calls {
		if c == name {
			n++
		}
	}
	return n
}

// TestStaging: uploads larger than the staging memory, and many small ones, arrive.
func TestStaging(t *testing.T) {
	f := newFake()
	b, err := open(&f.driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := uint64(1 << 40)
	f.memory[at] = make([]byte, 3*stagingBytes)
	m := &memory{at, 3 * stagingBytes}
	data := make([]byte, 2*stagingBytes+4)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	for _, cut := range []int{len(data), 1 << 20, stagingBytes - 4} {
		clear(f.memory[at])
		for from := 0; from < len(data); from += cut {
			n := min(cut, len(data)-from)
			if err := b.Upload(device.Range{Memory: m, Offset: from, Bytes: n}, data[from:][:n]); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, len(data))
		if err := b.Download(got, device.Range{Memory: m, Bytes: len(data)}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, data) {
			t.Errorf("parts of %d bytes: others came back", cut)
		}
	}
	if f.count("StreamWait") < 6 {
		t.Errorf("%d waits", f.count("StreamWait"))
	}
}

// TestFaults: whichever function fails, its error is returned, and nothing hangs.
func TestFaults(t *testing.T) {
	good := newFake()
	if err := use(good); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i := range reflect.TypeFor[driver]().NumField() {
		name := reflect.TypeFor[driver]().Field(i).Name
		if good.count(name) == 0 || name == "GraphFree" { // whose failure changes nothing
			continue
		}
		f := newFake()
		f.fail = name
		if err := use(f); err == nil || !strings.Contains(err.Error(), "FAKE_700") {
			t.Errorf("%s fails, and the error is %v", name, err)
		}
		failed++
	}
	if failed < 25 {
		t.Errorf("%d functions failed", failed)
	}
}

// TestLost: after a GPU was lost, it is left alone.
func TestLost(t *testing.T) {
	f := newFake()
	b, err := open(&f.driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Record([]device.Step{finishStep(b, t)})
	if err != nil {
		t.Fatal(err)
	}
	f.hang = true
	if err := c.Run(30 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "within 30ms") {
		t.Errorf("a GPU that hangs: %v", err)
	}
	calls := len(f.calls)
	if err := c.Run(time.Second); err == nil {
		t.Error("a lost GPU computes")
	}
	c.Free()
	if err := b.Close(); err != nil || len(f.calls) != calls {
		t.Errorf("%v; after the loss, calls of %v", err, f.calls[calls:])
	}
}

// TestOpen: what cannot be opened says why.
func TestOpen(t *testing.T) {
	f := newFake()
	if _, err := open(&f.driver, 2); !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(),
		"there are 2 GPUs") {
		t.Error(err)
	}
	f.major = 7
	if _, err := open(&f.driver, 0); !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "7.0") {
		t.Error(err)
	}
	f = newFake()
	b, err := open(&f.driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Alloc(2<<20, device.Steps); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("too little memory: %v", err)
	}
	if _, err := b.Alloc(1<<10, device.Steps); err != nil {
		t.Errorf("after too little memory: %v", err)
	}
	if i := b.Info(); i.Name != "cuda:0" || i.Device != "fake GPU" || i.Driver != "CUDA 13.0" || i.Free != 1<<29 {
		t.Errorf("%+v", i)
	}
}

// TestRegister: the devices are found by name, and listed; without a driver, the reason is told.
func TestRegister(t *testing.T) {
	f := newFake()
	register(func() (*driver, error) { return &f.driver, nil })
	d := device.Drivers()
	last := d[len(d)-1]
	infos, err := last.List()
	if err != nil || last.Kind != "cuda" || len(infos) != 2 || infos[1].Name != "cuda:1" {
		t.Errorf("%v, %v", infos, err)
	}
	if b, err := last.Open(1); err != nil || b.Info().Name != "cuda:1" {
		t.Error(err)
	}
	missing := errors.New("no driver")
	register(func() (*driver, error) { return nil, missing })
	d = device.Drivers()
	if _, err := d[len(d)-1].List(); !errors.Is(err, missing) {
		t.Error(err)
	}
	if _, err := d[len(d)-1].Open(0); !errors.Is(err, missing) {
		t.Error(err)
	}
}

// TestStructs: Go lays the structs of the driver out as C does.
func TestStructs(t *testing.T) {
	c, a := config{}, attribute{}
	got := []uintptr{unsafe.Sizeof(c), unsafe.Offsetof(c.shared), unsafe.Offsetof(c.stream),
		unsafe.Offsetof(c.attributes),
		unsafe.Offsetof(c.count), unsafe.Sizeof(a), unsafe.Offsetof(a.value)}
	if want := []uintptr{56, 24, 32, 40, 48, 72, 8}; !reflect.DeepEqual(got, want) {
		t.Errorf("sizes and offsets %v, want %v", got, want)
	}
}

// TestLaunch: a launch has the grid, and as its parameter the addresses and then the constants.
func TestLaunch(t *testing.T) {
	f := newFake()
	b, err := open(&f.driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := finishStep(b, t)
	f.params = 8*len(s.Buffers) + 4*len(s.Constants)
	if _, err := b.Record([]device.Step{s}); err != nil {
		t.Fatal(err)
	}
	l := f.launched[0]
	if l.config.grid != [3]uint32{2, 2, 1} || l.config.block != [3]uint32{256, 1, 1} || l.config.stream != 4 {
		t.Errorf("%+v", l.config)
	}
	if len(l.attributes) != 1 || l.attributes[0].id != launchEarly || l.attributes[0].value[0] != 1 {
		t.Errorf("%+v", l.attributes)
	}
	for i, r := range s.Buffers {
		if got := binary.LittleEndian.Uint64(l.param[8*i:]); got != address(r) || got%fakeAddress != 256 {
			t.Errorf("buffer %d is at %#x", i, got)
		}
	}
	for i, w := range s.Constants {
		if got := binary.LittleEndian.Uint32(l.param[8*len(s.Buffers)+4*i:]); got != w {
			t.Errorf("constant %d is %d, want %d", i, got, w)
		}
	}
}

// TestApartLaunches: products that are apart are one launch, others are not.
func TestApartLaunches(t *testing.T) {
	for _, tokens := range []uint32{1, 2, 100} {
		f := newFake()
		b, err := open(&f.driver, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := b.Record(passOf(b, t, tokens))
		if err != nil || len(f.launched) != 5 {
			t.Errorf("%d tokens: %v, %d launches", tokens, err, len(f.launched))
		}
		c.Free()
	}
}

// passOf is two products that are apart, between other steps, a large one, and one that follows.
func passOf(b device.Backend, t *testing.T, tokens uint32) []device.Step {
	product := func(rows uint32) device.Step {
		op := device.Codes{N: tokens, Rows: rows, K: 64, QWords: 16, Lanes: 16, Bits: 2, Ternary: 1, Group: 64,
			ActGroup: 64}
		m, err := b.Alloc(4096, device.Steps)
		if err != nil {
			t.Fatal(err)
		}
		return device.Step{Kernel: device.KernelCodes, Constants: device.Words(op),
			Buffers: slices.Repeat([]device.Range{{Memory: m, Bytes: 4096}}, device.KernelCodes.Buffers())}
	}
	apart := product(64)
	apart.Apart = true
	return []device.Step{finishStep(b, t), product(64), apart, finishStep(b, t), product(300 * 64),
		product(64)}
}

// TestLacks: a kernel that the module does not have is refused, and not launched without blocks.
func TestLacks(t *testing.T) {
	f := newFake()
	b, err := open(&f.driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range b.Info().Lacks {
		step := device.Step{Kernel: k, Constants: make([]uint32, k.Constants())}
		if _, err := b.Record([]device.Step{step}); !errors.Is(err, pack.ErrUnsupported) || len(f.launched) != 0 {
			t.Errorf("%s: %v, %d launches", k, err, len(f.launched))
		}
	}
}
