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
	check := func(what string, want int, limited bool) {
		t.Helper()
		if left, ok := cgroupLeft(self, root); left != want || ok != limited {
			t.Errorf("%s: %d, %v; want %d, %v", what, left, ok, want, limited)
		}
	}
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

func TestMemAvailable(t *testing.T) {
	path := put(t, t.TempDir(), "meminfo", "MemTotal: 100 kB\nMemFree: 3 kB\nMemAvailable:   50 kB\n")
	if n, ok := memAvailable(path); !ok || n != 50<<10 {
		t.Error(n, ok)
	}
	if _, ok := memAvailable(path + ".none"); ok {
		t.Error("no file tells how much there is")
	}
}
