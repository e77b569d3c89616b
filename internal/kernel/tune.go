package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/cpu"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// Tuning is how panel kernels on x86 load weights: what they prefetch, and how many panels one token takes at a time.
// No output depends on it.
type Tuning struct {
	Name  string // for programs
	About string // for people
	// read from memory at a time, each a stream, 4 by a GEMV of two bits only; from a cache a GEMM takes two wherever
	// it can
	Panels int
	Tokens int // of a tile, at most
	// the same, where sums are scaled. If it is less, only the first tile may have more: it waits for memory. It is six
	// where a core has no loads to spare for tiles that take half of the rows at a time
	Scaled int

	dense, opened int          // thresholds of DenseTiles and Int8First with 512 bits; 0 = never
	vector, batch asm.Prefetch // one panel at a time: with one token, or few (family.few); with several
}

// The prefetch rules: lines a fixed number of bytes ahead, or 16 lines of the next page one after the other.
func ahead(bytes int) asm.Prefetch { return asm.Prefetch{Ahead: bytes, Page: -1, Line: 64} }

// every is ahead, but for kernels that prefetch fewer lines otherwise: they prefetch every line, nearer.
var every = asm.Prefetch{Ahead: 12 << 10, Page: -1, Line: 64, Every: 6 << 10}

var ramp = asm.Prefetch{Ahead: 4096, Page: -4096, Ramp: 4095}

// pairAhead is the rule for pairs of panels and several tokens, which advance slowly: there it pays to prefetch every
// line of both.
var pairAhead = ahead(4096)

// Kernels on AVX2 use only the prefetch distance of a rule, and prefetch every line.
var (
	oneStream = Tuning{"one-stream",
		"one token: one panel at a time, every second line prefetched 3 KiB ahead; several: up to 12 in a tile, " +
			"every line 12 KiB ahead",
		1, 12, 12, 0, 0, ahead(3 << 10), ahead(12 << 10)}
	everyLine = Tuning{"every-line",
		"one token: one panel at a time, every line prefetched 6 KiB ahead; several: up to 12 in a tile, where sums " +
			"are scaled 6 in all but the first, every line",
		1, 12, 6, 0, 0, every, every}
	ramps = Tuning{"ramps", "one token: two panels at a time, four of two bits, 16 lines of the next page of each " +
		"prefetched in the course of a page; several: up to 6 in a tile, every line", 4, 6, 6, 13, 24, ramp, ramp}
	twoStreams = Tuning{"two-streams",
		"one token: two panels of codes of four or eight bits at a time, one of narrower weights; every line " +
			"prefetched 2 KiB ahead",
		2, 6, 6, 0, 0, ahead(2 << 10), ahead(2 << 10)}
)

// Tunings lists them.
func Tunings() []Tuning { return []Tuning{oneStream, everyLine, ramps, twoStreams} }

// tunings lists the best tuning found, by CPUID: on Zen 4 and Zen 5 a second stream costs a quarter of the bandwidth of
// a core; Zen 5, which reads faster, waits for lines that are not prefetched; on Zen 3 a second stream gains a tenth,
// and skipping a line costs half; the prefetcher of Sapphire and Emerald Rapids works page by page, and a core that
// reads one stream stays far below its bandwidth (docs/KERNELS.md). Zen 5 servers have data paths of 512 bits, mobile
// ones of the same family, with other models, of 256. If several lines fit a CPU, the first one wins.
var tunings = []struct {
	vendor   string // "" for every vendor
	families []int  // nil for all
	models   int    // those below it; 0 = all
	avx512   bool   // for CPUs that have it
	Tuning
	why string
}{
	{"AuthenticAMD", []int{26}, 0x20, true, everyLine,
		"Zen 5 servers: measured on family 26 model 2, 2026-12-01, revision 37d319e4"},
	{"AuthenticAMD", []int{25}, 0, true, oneStream,
		"Zen 4: measured on family 25 model 17, 2026-11-23, revision 5d74e817; one token 2026-12-01, " +
			"revision 37988728"},
	{"AuthenticAMD", []int{23, 25}, 0, false, twoStreams,
		"AMD without AVX-512: measured on Zen 3, family 25 model 1, 2026-11-23, revision 5d74e817"},
	{"GenuineIntel", []int{6}, 0, false, ramps,
		"Intel: measured on Sapphire and Emerald Rapids, family 6 models 143 and 207, 2026-11-23, revision daa02fd6"},
	{"", nil, 0, false, oneStream, unknownCPU},
}

// unknownCPU is the reason if the last line of the table was taken: on x86 TuneBy then measures.
const unknownCPU = "not measured on this CPU"

// CPU identifies this CPU by CPUID.
type CPU struct {
	Vendor        string // "" where there is no CPUID
	Family, Model int
	AVX512        bool
}

// String is "" where there is no CPUID.
func (c CPU) String() string {
	if c.Vendor == "" {
		return ""
	}
	return fmt.Sprintf("%s family %d model %d", c.Vendor, c.Family, c.Model)
}

// tuned is the tuning of this process.
var (
	tunedFor        = thisCPU()
	tuned, tunedWhy = tuningOf(tunedFor)
)

// Tuned says which tuning was chosen, for what CPU, and why; the CPU is empty on architectures without a choice.
func Tuned() (t Tuning, c CPU, why string) { return tuned, tunedFor, tunedWhy }

// Tune puts another tuning in the place of the one that was chosen, to measure it.
func Tune(t Tuning) { tuned = t }

func tuningOf(c CPU) (t Tuning, why string) {
	for _, t := range tunings {
		if t.vendor == "" || t.vendor == c.Vendor && (c.AVX512 || !t.avx512) &&
			(t.families == nil || slices.Contains(t.families, c.Family)) && (t.models == 0 || c.Model < t.models) {
			return t.Tuning, t.why
		}
	}
	panic("kernel: the last line of the table fits every CPU")
}

func thisCPU() (c CPU) {
	if asm.Arch != "amd64" {
		return c
	}
	var name, signature [4]uint32 // EAX, EBX, ECX, EDX
	asm.CPUID(&name, 0)
	asm.CPUID(&signature, 1)
	var vendor []byte
	for _, word := range []uint32{name[1], name[3], name[2]} {
		vendor = binary.LittleEndian.AppendUint32(vendor, word)
	}
	c = cpuOf(signature[0])
	c.Vendor, c.AVX512 = string(vendor), cpu.X86.HasAVX512F
	return c
}

// cpuOf extracts family and model from leaf 1 of CPUID: the extended family counts if the family is 15, the extended
// model if it is 6 or 15.
func cpuOf(signature uint32) (c CPU) {
	field := func(at, bits int) int { return int(signature >> at & (1<<bits - 1)) }
	c.Family, c.Model = field(8, 4), field(4, 4)
	if c.Family == 6 || c.Family == 15 {
		c.Model |= field(16, 4) << 4
	}
	if c.Family == 15 {
		c.Family += field(20, 8)
	}
	return c
}
