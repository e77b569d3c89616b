package engine

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// availableMemory is the memory that this process can still allocate without making others swap: what the kernel
// reports, bounded by what the control group leaves.
func availableMemory() int {
	free := unknownMemory
	if n, ok := memAvailable("/proc/meminfo"); ok {
		free = n
	}
	if n, ok := cgroupLeft("/proc/self/cgroup", "/sys/fs/cgroup"); ok {
		free = min(free, n)
	}
	return free
}

func memAvailable(path string) (int, bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) == 3 && fields[0] == "MemAvailable:" {
			kib, err := strconv.Atoi(fields[1])
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// cgroupLeft is the smallest remainder of the memory limits of the control group (version 2) and its ancestors. Page
// cache counts as used there but can be reclaimed: inactive_file is what the kernel would reclaim first.
func cgroupLeft(self, root string) (left int, ok bool) {
	text, err := os.ReadFile(self)
	if err != nil {
		return 0, false
	}
	_, path, found := strings.Cut(string(text), "0::")
	if !found {
		return 0, false
	}
	path, _, _ = strings.Cut(path, "\n")
	for dir := filepath.Clean("/" + path); ; dir = filepath.Dir(dir) {
		if n, limited := groupLeft(filepath.Join(root, dir)); limited && (!ok || n < left) {
			left, ok = n, true
		}
		if dir == "/" {
			return left, ok
		}
	}
}

func groupLeft(dir string) (int, bool) {
	limit, ok := number(filepath.Join(dir, "memory.max"))
	if !ok {
		return 0, false // "max": no limit
	}
	used, ok := number(filepath.Join(dir, "memory.current"))
	if !ok {
		return 0, false
	}
	text, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	for _, line := range strings.Split(string(text), "\n") {
		if name, value, _ := strings.Cut(line, " "); name == "inactive_file" {
			cache, _ := strconv.Atoi(value)
			used -= cache
		}
	}
	return max(0, limit-used), true
}

func number(path string) (int, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return n, err == nil
}
