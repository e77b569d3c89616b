package bench

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// level is one level of the caches.
type level struct {
	name    string
	bytes   int
	sharers int // CPUs that share one such cache
}

// usualLevels stand in for the caches if the system does not report them: sizes that fit in L1, L2 and L3 of current
// machines, named by size.
var usualLevels = []level{{"24 KiB", 32 << 10, 1}, {"192 KiB", 256 << 10, 1}, {"1.5 MiB", 2 << 20, 1}}

// Sizes of memory that no cache holds, within reason.
const (
	fewestMemory = 256 << 20
	mostMemory   = 2 << 30
)

// cacheLevels of the first CPU, the smallest first.
func cacheLevels() []level {
	if found := levelsIn(os.DirFS("/sys/devices/system/cpu")); len(found) > 0 {
		return found
	}
	return usualLevels
}

// levelsIn reads the caches of the first CPU from Linux's sysfs.
func levelsIn(sys fs.FS) (found []level) {
	for i := 0; ; i++ {
		dir := path.Join("cpu0/cache", fmt.Sprintf("index%d", i))
		read := func(name string) string {
			text, _ := fs.ReadFile(sys, path.Join(dir, name)) // no file: no text
			return strings.TrimSpace(string(text))
		}
		if read("level") == "" {
			return found
		}
		bytes := kib(read("size"))
		if read("type") != "Instruction" && bytes > 0 {
			found = append(found, level{"L" + read("level"), bytes, max(1, countCPUs(read("shared_cpu_list")))})
		}
	}
}

// kib parses a size such as 32K; 0 if it is invalid.
func kib(s string) int {
	digits, isKiB := strings.CutSuffix(s, "K")
	n, err := strconv.Atoi(digits)
	if err != nil || !isKiB {
		return 0
	}
	return n << 10
}

// countCPUs counts the CPUs in a list such as 0-3,8-11.
func countCPUs(list string) (n int) {
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.Atoi(first)
		b, errB := strconv.Atoi(last)
		if errA != nil || errB != nil || b < a {
			return 0
		}
		n += b - a + 1
	}
	return n
}

// share returns how much memory each of some threads may read so that it stays in this level: three quarters of its
// part, since other data need space too.
func (l level) share(threads int) int { return l.bytes / min(threads, l.sharers) * 3 / 4 }

// memorySize returns how much to read so that it comes from memory: four times the last-level caches of all threads
// together.
func memorySize(levels []level, threads int) int {
	last := levels[len(levels)-1]
	return min(max(fewestMemory, 4*last.bytes*((threads+last.sharers-1)/last.sharers)), mostMemory)
}
