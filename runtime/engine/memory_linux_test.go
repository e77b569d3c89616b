package engine

import (
	"os"
	"path/filepath"
	"testing"
)

// put writes a file of a fake system.
func put(t *testing.T, root, name, text string) string {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCgroupLeft: the smallest remainder of the group and its ancestors counts, and page cache that can be reclaimed is
// free.
func TestCgroupLeft(t *testing.T) {
	root := t.TempDir()
	self := put(t, root, "self", "1:cpu:/old\n0::/a/b\n")
	group := func(name, limit, used, stat string) {
		put(t, root, name+"/memory.max", limit+"\n")
		put(t, root, name+"/memory.current", used+"\n")
		put(t, root, name+"/memory.stat", stat)
	}
	check := leaves(t, self, root)
	check("no files", 0, false)
	group("a/b", "max", "500", "")
	check("no limit", 0, false)
	group("a", "1000", "400", "anon 100\ninactive_file 300\nactive_file 50\n")
	check("a limit around", 900, true)
	group("a/b", "700", "600", "inactive_file 0\n")
	check("the smaller remainder", 100, true)
	group("a/b", "700", "900", "inactive_file 0\n")
	check("more used than allowed", 0, true)
	group("a/b", "5000", "0", "")
	check("the smaller remainder is around", 900, true)
}

// leaves returns what checks how much memory the groups below root leave to a process.
func leaves(t *testing.T, self, root string) func(what string, want int, limited bool) {
	return func(what string, want int, limited bool) {
		t.Helper()
		if left, ok := cgroupLeft(self, root); left != want || ok != limited {
			t.Errorf("%s: %d, %v; want %d, %v", what, left, ok, want, limited)
		}
	}
}

// TestCgroup1Left: memory may be limited by groups of version 1, below a folder of their own, or by both versions.
func TestCgroup1Left(t *testing.T) {
	const unlimited = "9223372036854771712" // as Linux gives it
	root := t.TempDir()
	self := put(t, root, "self", "12:name=systemd:/s\n5:hugetlb,memory:/a/b:c\n4:cpu:/x\n0::/two\n")
	group := func(name, limit, used, stat string) {
		put(t, root, "memory/"+name+"/memory.limit_in_bytes", limit+"\n")
		put(t, root, "memory/"+name+"/memory.usage_in_bytes", used+"\n")
		put(t, root, "memory/"+name+"/memory.stat", stat)
	}
	check := leaves(t, self, root)
	check("no files", 0, false)
	for _, name := range []string{"", "a", "a/b:c"} {
		group(name, unlimited, "500", "inactive_file 1\n")
	}
	check("no limit", 0, false)
	group("", "2000", "600", "")
	check("the root, as containers see their group", 1400, true)
	group("a", "1000", "400", "inactive_file 5\ntotal_cache 400\ntotal_inactive_file 300\n")
	check("a limit around", 900, true)
	group("a/b:c", "700", "600", "inactive_file 50\n")
	check("the smaller remainder", 100, true)
	put(t, root, "two/memory.max", "90\n")
	put(t, root, "two/memory.current", "20\n")
	check("version 2 leaves less", 70, true)
	put(t, root, "two/memory.max", "900\n")
	check("version 1 leaves less", 100, true)
	group("x", "1", "1", "")
	group("s", "1", "1", "")
	check("other controllers", 100, true)
}

func TestMemAvailable(t *testing.T) {
	path := put(t, t.TempDir(), "meminfo", "MemTotal: 100 kB\nMemFree: 3 kB\nMemAvailable:   50 kB\n")
	if n, ok := memAvailable(path); !ok || n != 50<<10 {
		t.Error(n, ok)
	}
	if _, ok := memAvailable(path + ".none"); ok {
		t.Error("no file tells how much there is")
	}
}
