package bench

import (
	"bufio"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/version"
)

// Host describes the origin of a report.
type Host struct {
	Tool     string       `json:"tool"`
	Go       string       `json:"go"`
	Platform string       `json:"platform"`
	CPU      string       `json:"cpu"`     // "" if unknown
	Threads  int          `json:"threads"` // that this process may run at once
	ISAs     []kernel.ISA `json:"isas"`    // that may be used, the best first
	Choices  string       `json:"choices"` // date of those measured on this CPU that kernels go by; "" = the tables
}

// ThisHost describes this process.
func ThisHost() Host { return host() }

func host() Host {
	return Host{
		Tool: version.Tool, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: cpuName(), Threads: runtime.GOMAXPROCS(0), ISAs: kernel.Available(),
		Choices: kernel.Taken(),
	}
}

func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	return cpuNameIn(f)
}

// cpuNameIn returns the name of the first CPU in /proc/cpuinfo.
func cpuNameIn(r io.Reader) string {
	for s := bufio.NewScanner(r); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// threadCounts replaces 0 by the number of threads that this process may run at once, and drops duplicates.
func threadCounts(list []int) (counts []int) {
	seen := map[int]bool{}
	for _, n := range list {
		if n == 0 {
			n = runtime.GOMAXPROCS(0)
		}
		if !seen[n] {
			seen[n], counts = true, append(counts, n)
		}
	}
	return counts
}
