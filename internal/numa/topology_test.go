package numa

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/fstest"
)

// tree is what a machine shows below /, as recorded.
type tree struct {
	cpus, mems string         // that the process may use
	online     string         // CPUs; "" = the file is missing
	nodes      map[int]string // CPUs by node
	memory     string         // nodes with memory; "" = the file is missing (before Linux 3.8)
	l3         []string
	cores      []string
}

func (t tree) files() fstest.MapFS {
	root := fstest.MapFS{}
	put := func(name, text string) { root[name] = &fstest.MapFile{Data: []byte(text)} }
	put(statusFile, "Name:\tlowpack\nCpus_allowed:\tff\nCpus_allowed_list:\t"+t.cpus+
		"\nMems_allowed:\t00000003\nMems_allowed_list:\t"+t.mems+"\n")
	online := ""
	for _, id := range slices.Sorted(maps.Keys(t.nodes)) {
		online += fmt.Sprintf(",%d", id)
		put(fmt.Sprintf("%snode%d/cpulist", nodeDir, id), t.nodes[id]+"\n")
	}
	put(nodeDir+"online", online[1:]+"\n")
	if t.online != "" {
		put(cpuDir+"online", t.online+"\n")
	}
	if t.memory != "" {
		put(nodeDir+"has_memory", t.memory+"\n")
	}
	for file, lists := range map[string][]string{
		"/cache/index3/shared_cpu_list": t.l3, "/topology/thread_siblings_list": t.cores} {
		for _, list := range lists {
			cpus, _ := parse(list)
			for _, c := range cpus {
				put(fmt.Sprintf("%scpu%d%s", cpuDir, c, file), list+"\n")
			}
		}
	}
	return root
}

// nodes and smt list ranges of n CPUs, and pairs of siblings.
func nodes(n, each int) map[int]string {
	m := map[int]string{}
	for i := range n {
		m[i] = fmt.Sprintf("%d-%d", i*each, (i+1)*each-1)
	}
	return m
}

func smt(n int) (list []string) {
	for i := range n / 2 {
		list = append(list, fmt.Sprintf("%d,%d", i, i+n/2))
	}
	return list
}

// each lists n groups of CPUs.
func each(n, size int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%d-%d", i*size, (i+1)*size-1))
	}
	return list
}

func TestRead(t *testing.T) {
	two := tree{cpus: "0-7", mems: "0-1", nodes: map[int]string{0: "0-1,4-5", 1: "2-3,6-7"}, memory: "0-1",
		l3: []string{"0-1,4-5", "2-3,6-7"}, cores: smt(8)}
	subset := func(cpus, mems string) tree { s := two; s.cpus, s.mems = cpus, mems; return s }
	one := tree{cpus: "0-1", mems: "0", nodes: nodes(1, 2), memory: "0", l3: each(1, 2), cores: each(2, 1)}
	nps4 := tree{cpus: "0-15", mems: "0-3", nodes: nodes(4, 4), memory: "0-3", l3: each(8, 2), cores: each(8, 2)}
	smtOff := tree{cpus: "0-3", mems: "0-1", online: "0,2-3", nodes: map[int]string{0: "0", 1: "2-3"}, memory: "0-1",
		l3: []string{"0", "2-3"}, cores: []string{"0", "2", "3"}}
	by := func(cpus, mems, memory string, nodes map[int]string) tree {
		return tree{cpus: cpus, mems: mems, nodes: nodes, memory: memory}
	}
	for _, c := range []struct {
		name string
		tree
		want      string
		cores, l3 int
	}{
		{"one node", one, "0:[0 1]", 2, 1},
		{"two sockets, SMT", two, "0:[0 1 4 5] 1:[2 3 6 7]", 4, 2},
		{"NPS4, an L3 for two CPUs", nps4, "0:[0 1 2 3] 1:[4 5 6 7] 2:[8 9 10 11] 3:[12 13 14 15]", 8, 8},
		{"offline CPUs", by("0,2-3", "0-1", "0-1", map[int]string{0: "0", 1: "2-3"}), "0:[0] 1:[2 3]", 0, 0},
		{"offline CPUs that the mask has", smtOff, "0:[0] 1:[2 3]", 3, 2},
		{"a node without CPUs", by("0-3", "0-2", "0-2", map[int]string{0: "0-1", 1: "2-3", 2: ""}),
			"0:[0 1] 1:[2 3]", 0, 0},
		{"a node without memory", by("0-3", "0", "0", nodes(2, 2)), "0:[0 1 2 3]", 0, 0},
		{"numbers with gaps", by("0-3", "0,8", "0,8", map[int]string{0: "0-1", 8: "2-3"}), "0:[0 1] 8:[2 3]", 0, 0},
		{"no file says where memory is", by("0-3", "0-1", "", nodes(2, 2)), "0:[0 1] 1:[2 3]", 0, 0},
		{"a cpuset of one socket", subset("2-3,6-7", "1"), "1:[2 3 6 7]", 2, 1},
		{"a cpuset of parts of both", subset("0,3", "0-1"), "0:[0] 1:[3]", 2, 2},
		{"CPUs of both, memory of one", subset("0-7", "1"), "1:[0 1 2 3 4 5 6 7]", 4, 2},
		{"a CPU that no node lists", by("0-4", "0-1", "", nodes(2, 2)), "0:[0 1 2 3 4]", 0, 0},
		{"a CPU that two nodes list", by("0-2", "0-1", "", map[int]string{0: "0-1", 1: "1-2"}), "0:[0 1 2]", 0, 0},
		{"one twice, one nowhere", by("0-3", "0-1", "", map[int]string{0: "0-2", 1: "2"}), "0:[0 1 2 3]", 0, 0},
		{"no memory", by("0-3", "", "", nodes(2, 2)), "0:[0 1 2 3]", 0, 0},
	} {
		got := Read(c.files())
		text := ""
		for _, n := range got.Nodes {
			text += fmt.Sprintf(" %d:%v", n.ID, n.CPUs)
		}
		if text[1:] != c.want || got.Cores != c.cores || got.L3 != c.l3 {
			t.Errorf("%s: %s, %d cores, %d caches; want %s, %d, %d", c.name, text[1:], got.Cores, got.L3, c.want,
				c.cores, c.l3)
		}
	}
}

// TestDamaged: with any file missing, empty or damaged there is still a node, with all CPUs that are known.
func TestDamaged(t *testing.T) {
	whole := tree{cpus: "0-3", mems: "0-1", online: "0-3", nodes: nodes(2, 2), memory: "0-1", l3: each(2, 2),
		cores: smt(4)}
	for name := range whole.files() {
		for _, text := range []string{"", "\x00", "3-0", "0-", "-1", "0-99999999999", "0,0", "2000", "a"} {
			root := whole.files()
			root[name] = &fstest.MapFile{Data: []byte(text + "\n")}
			if got := Read(root); len(got.Nodes) < 1 || name != statusFile && len(got.CPUs()) != 4 {
				t.Errorf("%s is %q: %+v", name, text, got)
			}
		}
		root := whole.files()
		delete(root, name)
		if got := Read(root); len(got.Nodes) < 1 || name != statusFile && len(got.CPUs()) != 4 {
			t.Errorf("without %s: %+v", name, got)
		}
	}
	if list, ok := parse("3-0"); ok {
		t.Errorf("3-0 is read as %v", list)
	}
	if got := Read(fstest.MapFS{}); len(got.Nodes) != 1 {
		t.Errorf("without any file: %+v", got)
	}
}

// TestHere: this machine has a node.
func TestHere(t *testing.T) {
	if got := Here(); len(got.Nodes) < 1 {
		t.Errorf("%+v", got)
	}
}
