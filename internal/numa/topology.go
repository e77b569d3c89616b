// Package numa reads which CPUs share a memory controller, a cache or a core, and binds threads to CPUs. On systems
// other than Linux there is one node.
package numa

import (
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Topology is what the process may use of a machine.
type Topology struct {
	Nodes []Node `json:"nodes"` // at least one, ascending
	Cores int    `json:"cores"` // physical ones; 0 = unknown
	L3    int    `json:"l3"`    // last-level caches; 0 = unknown
}

// Node is a set of CPUs with memory of their own.
type Node struct {
	ID   int   `json:"id"`
	CPUs []int `json:"cpus"` // ascending; nil = unknown
}

// CPUs lists the CPUs of all nodes, node by node.
func (t *Topology) CPUs() (list []int) {
	for _, n := range t.Nodes {
		list = append(list, n.CPUs...)
	}
	return list
}

// maxCPUs is what an affinity mask holds (sched_setaffinity of package unix). A larger number is taken for damage.
const maxCPUs = 1024

// The files of Linux: Documentation/ABI/stable/sysfs-devices-node, Documentation/admin-guide/cputopology.rst and
// proc(5). All lists look like 0-3,8.
const (
	statusFile = "proc/self/status"
	nodeDir    = "sys/devices/system/node/"
	cpuDir     = "sys/devices/system/cpu/"
)

// Read reads the topology below the root directory of a system: the CPUs that are online and that the process may use,
// by affinity and cpuset, divided by node. A node without such CPUs is left out. CPUs of a node whose memory the
// process may not use, or that has none, belong to the first node with memory. Whatever is missing or contradicts
// itself gives one node.
func Read(root fs.FS) Topology {
	r := reader{root}
	allowed, ok := r.field(statusFile, "Cpus_allowed_list:")
	if !ok || len(allowed) == 0 {
		return Topology{Nodes: []Node{{}}}
	}
	if online, ok := r.list(cpuDir + "online"); ok { // a mask has CPUs that are not, such as those of nosmt
		if on := common(allowed, online); len(on) > 0 {
			allowed = on
		}
	}
	t := Topology{Nodes: []Node{{CPUs: allowed}}}
	t.Cores = r.groups(allowed, "/topology/thread_siblings_list")
	t.L3 = r.groups(allowed, "/cache/index3/shared_cpu_list")
	if nodes := r.nodes(allowed); len(nodes) > 0 {
		t.Nodes = nodes
	}
	return t
}

type reader struct{ root fs.FS }

// nodes divides CPUs by node; nil = the files do not.
func (r reader) nodes(allowed []int) (nodes []Node) {
	online, ok := r.list(nodeDir + "online")
	if !ok {
		return nil
	}
	memory := r.memory(online)
	var homeless, all []int
	for _, id := range online {
		cpus, ok := r.list(nodeDir + "node" + strconv.Itoa(id) + "/cpulist")
		if !ok {
			return nil
		}
		cpus = common(cpus, allowed)
		all = append(all, cpus...)
		switch {
		case len(cpus) == 0:
		case slices.Contains(memory, id):
			nodes = append(nodes, Node{id, cpus})
		default:
			homeless = append(homeless, cpus...)
		}
	}
	slices.Sort(all)
	if !slices.Equal(all, allowed) || len(nodes) == 0 { // a CPU is in no node, or in two
		return nil
	}
	nodes[0].CPUs = append(nodes[0].CPUs, homeless...)
	slices.Sort(nodes[0].CPUs)
	return nodes
}

// memory lists the nodes whose memory the process may use.
func (r reader) memory(online []int) []int {
	list := online
	if allowed, ok := r.field(statusFile, "Mems_allowed_list:"); ok {
		list = common(list, allowed)
	}
	if has, ok := r.list(nodeDir + "has_memory"); ok {
		list = common(list, has)
	}
	return list
}

// common lists the numbers of a that b has, too.
func common(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(n int) bool { return !slices.Contains(b, n) })
}

// groups counts the different lists that CPUs have in a file; 0 = one has none.
func (r reader) groups(cpus []int, file string) int {
	first := map[int]bool{}
	for _, c := range cpus {
		list, ok := r.list(cpuDir + "cpu" + strconv.Itoa(c) + file)
		if !ok || len(list) == 0 {
			return 0
		}
		first[list[0]] = true
	}
	return len(first)
}

func (r reader) list(name string) ([]int, bool) {
	text, err := fs.ReadFile(r.root, name)
	if err != nil {
		return nil, false
	}
	return parse(strings.TrimSpace(string(text)))
}

// field reads a list from a line of a file.
func (r reader) field(name, key string) ([]int, bool) {
	text, err := fs.ReadFile(r.root, name)
	if err != nil {
		return nil, false
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			return parse(strings.TrimSpace(value))
		}
	}
	return nil, false
}

// parse reads a list such as 0-3,8; "" is empty. Numbers ascend.
func parse(text string) (list []int, ok bool) {
	if text == "" {
		return nil, true
	}
	next := 0
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err != nil || err2 != nil || from < next || to < from || to >= maxCPUs {
			return nil, false
		}
		for ; from <= to; from++ {
			list = append(list, from)
		}
		next = to + 1
	}
	return list, true
}
