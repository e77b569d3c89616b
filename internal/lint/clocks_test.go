package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// clocked are the tests that may use the clock of the machine, each with the reason why no verdict depends on how fast
// it is.
var clocked = map[string]string{
	"cmd/lowpack/child_test.go": "the deadline of the test binary",
	"cmd/lowpack/crash_test.go": "signals come at random moments; bounds of time hold with LOWPACK_LONG " +
		"alone",
	"cmd/lowpack/during_linux_test.go":         "looks again whether a process has opened or mapped a file",
	"cmd/lowpack/serve_test.go":                "a client that reads late; the answer is the same however late",
	"cmd/lowpack/slurm_test.go":                "daemons of Slurm, with LOWPACK_LONG",
	"convert/memory_test.go":                   "looks at a process now and then; its high-water mark misses no moment",
	"convert/speed_test.go":                    "benchmarks",
	"internal/kernel/fraction_test.go":         "benchmarks",
	"convert/process_test.go":                  "processes are killed at random moments",
	"internal/kernel/pool_test.go":             "workers fall asleep and wake at many moments",
	"internal/lint/order_test.go":              "names functions of clocks, and calls none",
	"runtime/server/schedule/schedule_test.go": "clients leave at random moments",
	"runtime/server/soak_test.go":              "clients that read slowly and leave, for LOWPACK_SOAK",
}

var clock = regexp.MustCompile(`\btime\.(Sleep|Since|Until|After|NewTimer|NewTicker|AfterFunc)\(|\bcontext\.With(Timeout|Deadline)|\.Set(Read|Write)?Deadline\(`)

// TestClocks: tests do not look at the clock, which goes on while other work has the processor. Exempt are the clock of
// testing/synctest, files of benchmarks, and what has a reason.
func TestClocks(t *testing.T) {
	var used []string
	for _, name := range textFiles(t) {
		if !strings.HasSuffix(name, "_test.go") || name == "internal/lint/clocks_test.go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		at := clock.FindIndex(text)
		if at == nil || strings.HasSuffix(name, "bench_test.go") || strings.Contains(string(text), "synctest.Test(") {
			continue
		}
		if used = append(used, name); clocked[name] == "" {
			line := 1 + strings.Count(string(text[:at[0]]), "\n")
			t.Errorf("%s:%d: %s: wait for an event (internal/testkit/wait), use testing/synctest, or bound processor "+
				"time "+
				"(internal/testkit/cpu)",
				name, line, text[at[0]:at[1]])
		}
	}
	for name := range clocked {
		if len(used) > 0 && !slices.Contains(used, name) {
			t.Errorf("%s needs no exemption", name)
		}
	}
}
