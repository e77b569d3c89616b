package engine

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
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

// memoryGroups is a version of control groups: the controller and the folder of its tree, and the names of what a group
// may take, of what it has and, in memory.stat, of the page cache that the kernel would reclaim first.
type memoryGroups struct{ controller, tree, limit, used, cache string }

// groupVersions may be mounted side by side, with memory in one of them.
var groupVersions = []memoryGroups{
	{"", "", "memory.max", "memory.current", "inactive_file"}, // version 2
	{"memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
}

// cgroupLeft is the smallest remainder of the memory limits of the control group and its ancestors.
func cgroupLeft(self, root string) (left int, ok bool) {
	text, err := os.ReadFile(self)
	if err != nil {
		return 0, false
	}
	for _, v := range groupVersions {
		if n, limited := v.left(string(text), filepath.Join(root, v.tree)); limited && (!ok || n < left) {
			left, ok = n, true
		}
	}
	return left, ok
}

// left is the smallest remainder in the groups of a tree. A container may see itself as the root of the tree, and its
// path as that outside: folders that are not there have no limit.
func (v *memoryGroups) left(self, root string) (left int, ok bool) {
	path, found := v.path(self)
	for dir := filepath.Clean("/" + path); found; dir = filepath.Dir(dir) {
		if n, limited := v.groupLeft(filepath.Join(root, dir)); limited && (!ok || n < left) {
			left, ok = n, true
		}
		if dir == "/" {
			break
		}
	}
	return left, ok
}

// path finds the group of this process in lines ID:CONTROLLERS:PATH; version 2 has no controllers there.
func (v *memoryGroups) path(self string) (path string, found bool) {
	for line := range strings.Lines(self) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), v.controller) {
			return fields[2], true
		}
	}
	return "", false
}

// groupLeft is what the limit of a group leaves. Page cache counts as used there, but can be reclaimed.
func (v *memoryGroups) groupLeft(dir string) (int, bool) {
	limit, ok := number(filepath.Join(dir, v.limit))
	if !ok || limit >= unknownMemory {
		return 0, false // no limit: "max", or in version 1 the largest number of whole pages
	}
	used, ok := number(filepath.Join(dir, v.used))
	if !ok {
		return 0, false
	}
	text, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	for _, line := range strings.Split(string(text), "\n") {
		if name, value, _ := strings.Cut(line, " "); name == v.cache {
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
