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

// usualLevels stand for the caches where the system does not tell: sizes that lie inside L1, L2 and L3 of any machine
// of the day, named by what they are.
var usualLevels = []level{{"24 KiB", 32 << 10, 1}, {"192 KiB", 256 << 10, 1}, {"1.5 MiB", 2 << 20, 1}}

// Memory that no cache holds, as far as there are reasons to read so much of it.
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

// levelsIn reads what Linux tells of the first CPU.
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

// kib reads a size such as 32K; 0 if it is none.
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

// share is the memory that each of some threads may read and find in this level again: three quarters of what is its
// part, for there is other data too.
func (l level) share(threads int) int { return l.bytes / min(threads, l.sharers) * 3 / 4 }

// memorySize is how much to read so that it comes from memory: four times the last caches of all threads together.
func memorySize(levels []level, threads int) int {
	last := levels[len(levels)-1]
	return min(max(fewestMemory, 4*last.bytes*((threads+last.sharers-1)/last.sharers)), mostMemory)
}
