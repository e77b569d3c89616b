package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/align"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/numa"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/internal/version"
)

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON on standard output, for programs"}
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// build describes this binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// ISAs lists the instruction sets that kernels of this binary can use on this CPU, best first.
	ISAs []kernel.ISA `json:"instruction_sets"`
	// ISA is the one that is chosen.
	ISA kernel.ISA `json:"instruction_set"`
	// Tiles reports whether GEMM uses the tile registers of AMX, or why not; "" if there is no choice.
	Tiles string `json:"tiles"`
	// Tuning is how kernels on x86 load weights, for which CPU, and why.
	Tuning tuning `json:"tuning"`
	// Thresholds are the numbers of tokens from which kernels multiply in another way.
	Thresholds []kernel.Threshold `json:"thresholds"`
	// NUMA is what this process may use of the machine: nodes with their CPUs, cores, L3 caches.
	NUMA numa.Topology `json:"numa"`
	// Choices is the file that Tuning and Thresholds come from.
	Choices usedChoices `json:"choices"`
}

type tuning struct {
	Name  string `json:"name"`
	About string `json:"about"`
	CPU   string `json:"cpu"` // "" if there is no choice
	Why   string `json:"why"`
}

func tuned() tuning {
	t, cpu, why := kernel.Tuned()
	return tuning{t.Name, t.About, cpu.String(), why}
}

func buildInfo() build {
	return build{Version: fullVersion(), Revision: revision(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		ISAs:     kernel.Available(), ISA: kernel.Best(), Tiles: kernel.TileRegisters(), Tuning: tuned(),
		Thresholds: kernel.Thresholds(), NUMA: numa.Here()}
}

// fullVersion is the version of this program.
func fullVersion() string { return version.Full(version.Version, revision()) }

// pseudo is the end of the version of a module that has no tag: the start of its commit.
var pseudo = regexp.MustCompile(`-([0-9a-f]{12})$`)

// revision is the commit of the source: as recorded by make build, by go build, or, of a module that go install
// fetched, by its version.
func revision() string {
	if version.Revision != "" {
		return version.Revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	switch commit := settings["vcs.revision"]; {
	case commit == "" && pseudo.MatchString(info.Main.Version):
		return pseudo.FindStringSubmatch(info.Main.Version)[1]
	case commit == "" && strings.HasPrefix(info.Main.Version, "v"):
		return info.Main.Version // a tag
	case commit == "":
		return "unknown"
	case settings["vcs.modified"] == "true":
		return commit + "+dirty"
	default:
		return commit
	}
}

// table prints rows as aligned columns, two spaces apart. Columns whose index is in right are aligned to the right.
func table(w io.Writer, right map[int]bool, rows [][]string) {
	for _, r := range rows {
		for i, cell := range r {
			r[i] = printable.Line(cell)
		}
	}
	for _, line := range align.Rows(rows, func(column int) bool { return right[column] }) {
		fmt.Fprintln(w, line)
	}
}

// size prints a number of bytes as people read it.
func size(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 10_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(n)/1e9)
}
