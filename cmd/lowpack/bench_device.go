package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// modelOnly is the flag of bench that counts and computes instead of measuring.
const modelOnly = "model-only"

// countedKind is the kind of device whose dispatches bench --model-only counts.
const countedKind = "vulkan"

// checkModelOnly refuses what bench --model-only has no figures for.
func checkModelOnly(c *cli.Context) error {
	if !c.Bool(modelOnly) {
		return nil
	}
	for _, other := range []string{"compare", "svg", "threads", "max-spread"} {
		if c.IsSet(other) {
			return usagef("--%s and --%s cannot be combined: nothing is measured", modelOnly, other)
		}
	}
	switch name := c.String("device"); {
	case c.IsSet("device-layers"):
		return usagef("--%s and --device-layers cannot be combined: whole passes are counted", modelOnly)
	case name == countedKind:
		return nil
	case name == "" || name == device.CPU:
		return usagef("--%s counts what a device does: add --device %s; to measure the CPU, leave --%[1]s out",
			modelOnly, countedKind)
	default:
		return fmt.Errorf("%w: --%s with --device %s: it counts the dispatches of Vulkan, of no device in particular "+
			"(--device %s); CUDA makes others of the same steps", pack.ErrUnsupported, modelOnly, name, countedKind)
	}
}

// countDevice prints what the passes of a model ask of a device, and an estimate of the time that they take on GPUs.
func countDevice(c *cli.Context, p *progress, file string, o bench.ModelOptions) error {
	r, err := bench.Devices(c.Context, file, o)
	p.done()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, r)
	}
	printDeviceBench(c.App.Writer, r)
	return nil
}

// printDeviceBench prints the report as text: counts, then times.
func printDeviceBench(w io.Writer, r *bench.DeviceReport) {
	fmt.Fprintf(w, "%s: %s model; what its passes ask of a %s device\n\n", printable.Line(r.File), r.Family, r.Device)
	counts := [][]string{{"", "dispatches", "barriers", "submits", "weights", "KV read", "KV written", "vectors",
		"int8 mul-adds", "by matrices", "float mul-adds"}}
	times := [][]string{{""}}
	for _, g := range r.GPUs {
		times[0] = append(times[0], g.Name+", tokens/s", "bound")
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Refused != "" {
			continue
		}
		counts = append(counts, []string{row.Label(), strconv.Itoa(row.Dispatches), strconv.Itoa(row.Barriers),
			strconv.Itoa(row.Submits), size(int64(row.Weights)), size(int64(row.CacheRead)),
			size(int64(row.CacheWritten)), size(int64(row.Vectors)), millions(row.Int8),
			millions(row.Matrices), millions(row.Attention + row.Floats)})
		times = append(times, timesOf(row))
	}
	right := map[int]bool{}
	for column := 1; column < len(counts[0]); column++ {
		right[column] = true
	}
	table(w, right, counts)
	statement, method, _ := strings.Cut(r.Computed, "; ")
	fmt.Fprintf(w, "\n%s\n%s\n\n", statement, method)
	table(w, map[int]bool{1: true, 3: true, 5: true}, times)
	fmt.Fprintln(w)
	peaks := [][]string{}
	for _, g := range r.GPUs {
		peaks = append(peaks, []string{g.Name, bench.Digits(g.Bandwidth / 1e9), "GB/s,", bench.Digits(g.Int8 / 1e12),
			"int8 TOPS,", bench.Digits(g.Float32 / 1e12), "float32 TFLOPS: " + g.Source})
	}
	table(w, map[int]bool{1: true, 3: true, 5: true}, peaks)
	for i := range r.Rows {
		printRefused(w, &r.Rows[i])
	}
}

// timesOf are the cells of a row: tokens per second and what binds, on each GPU.
func timesOf(row *bench.DeviceRow) []string {
	cells := []string{row.Label()}
	for _, t := range row.Times {
		if t.Refused != "" {
			cells = append(cells, "–", "")
			continue
		}
		cells = append(cells, bench.Digits(t.TokensPerSec), t.Bound)
	}
	return cells
}

// printRefused says why a row, or a GPU in it, has no figures.
func printRefused(w io.Writer, row *bench.DeviceRow) {
	if row.Refused != "" {
		fmt.Fprintf(w, "%s: not counted: %s\n", row.Label(), row.Refused)
	}
	for _, t := range row.Times {
		if t.Refused != "" {
			fmt.Fprintf(w, "%s: %s: %s\n", row.Label(), t.GPU, t.Refused)
		}
	}
}

// millions prints a number of operations.
func millions(n int) string { return bench.Digits(float64(n)/1e6) + " M" }
