package device

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// mostBlock is the largest allocation that slots share.
const mostBlock = 256 << 20

// slot is a range of memory that a plan asks for before any is taken.
type slot struct {
	Range
	what string
	use  Use
	fill func() ([]byte, error) // what it holds; nil = nothing yet
}

// arena gathers slots, and gives them memory.
type arena struct {
	backend Backend
	info    Info
	slots   []*slot
	total   int
}

// has is an error unless the device has a kernel for something.
func (a *arena) has(k Kernel, what string) error {
	if slices.Contains(a.info.Lacks, k) {
		return fmt.Errorf("%w: %s: device %s has no kernel for that, the CPU does (--device cpu)", pack.ErrUnsupported,
			what, a.info.Name)
	}
	return nil
}

// room asks for bytes.
func (a *arena) room(what string, bytes int, use Use) *slot {
	s := &slot{what: what, use: use}
	s.Bytes = max(4, (bytes+3)&^3)
	a.slots = append(a.slots, s)
	a.total += a.aligned(s.Bytes)
	return s
}

// holding asks for memory that holds bytes, which fill returns when they are needed.
func (a *arena) holding(what string, bytes int, fill func() ([]byte, error)) *slot {
	s := a.room(what, bytes, Steps)
	s.fill = fill
	return s
}

// array asks for memory that holds numbers; none is a word that nothing reads.
func array[T float32 | uint32 | int8 | byte](a *arena, what string, x []T) *slot {
	if len(x) == 0 {
		return a.room(what, 4, Steps)
	}
	return a.holding(what, len(x)*int(unsafe.Sizeof(x[0])), func() ([]byte, error) { return bytesOf(x), nil })
}

func (a *arena) aligned(n int) int { return (n + a.info.Align - 1) / a.info.Align * a.info.Align }

// fits is an error that wraps pack.ErrLimit if the device has too little memory free.
func (a *arena) fits() error {
	const mib = 1 << 20
	if a.total > a.info.Free {
		return fmt.Errorf("%w: device %s (%s) needs %d MiB for weights, KV cache and passes, and has %d MiB free; "+
			"ask for a shorter context or fewer sequences, or compute with --device cpu", pack.ErrLimit, a.info.Name,
			a.info.Device,
			a.total/mib, a.info.Free/mib)
	}
	return nil
}

// allocate takes the memory of all slots and uploads what they hold. It takes none if the device has too little free.
func (a *arena) allocate() error {
	if err := a.fits(); err != nil {
		return err
	}
	for _, use := range []Use{Host, Steps} {
		if err := a.place(use); err != nil {
			return err
		}
	}
	for _, s := range a.slots {
		if s.fill == nil {
			continue
		}
		data, err := s.fill()
		if err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if err := a.upload(s, data); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// upload fills a slot, whose last word may be longer than the data.
func (a *arena) upload(s *slot, data []byte) error {
	whole := len(data) &^ 3
	if whole > 0 {
		if err := a.backend.Upload(s.Part(0, whole), data[:whole]); err != nil {
			return err
		}
	}
	if rest := data[whole:]; len(rest) > 0 {
		var word [4]byte
		copy(word[:], rest)
		return a.backend.Upload(s.Part(whole, 4), word[:])
	}
	return nil
}

// place gives memory to the slots of one use, several of them in one allocation.
func (a *arena) place(use Use) error {
	var waiting []*slot
	size := 0
	flush := func() error {
		if len(waiting) == 0 {
			return nil
		}
		m, err := a.backend.Alloc(size, use)
		if err != nil {
			return fmt.Errorf("%d bytes, for %s and others: %w", size, waiting[0].what, err)
		}
		at := 0
		for _, s := range waiting {
			s.Memory, s.Offset = m, at
			at += a.aligned(s.Bytes)
		}
		waiting, size = waiting[:0], 0
		return nil
	}
	for _, s := range a.slots {
		if s.use != use {
			continue
		}
		n := a.aligned(s.Bytes)
		if n > a.info.MaxAlloc {
			return fmt.Errorf("%w: %s takes %d bytes; device %s allocates %d at once", pack.ErrLimit, s.what, n,
				a.info.Name, a.info.MaxAlloc)
		}
		if size > 0 && size+n > min(mostBlock, a.info.MaxAlloc) {
			if err := flush(); err != nil {
				return err
			}
		}
		waiting, size = append(waiting, s), size+n
	}
	return flush()
}

// bytesOf is the memory of numbers.
func bytesOf[T float32 | uint32 | int8 | byte | Token](x []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)))
}
