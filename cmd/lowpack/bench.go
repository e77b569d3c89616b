package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/plot"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/runtime/engine"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name: "bench",
		Usage: "measure a packed model, the kernels, a server, the choices for a checkpoint, or the " +
			"limits of this machine",
		ArgsUsage: "FILE",
		UsageText: "lowpack bench FILE [flags]\n  lowpack bench kernels [flags]\n  lowpack bench machine [flags]\n  " +
			"lowpack bench serve URL [flags]\n  lowpack bench recommend CHECKPOINT [flags]\n  lowpack bench report " +
			"-o FILE.json [flags]\n  lowpack bench chart FILE [flags]",
		Description: `FILE is a packed model: tokens per second of prefill, and of decode for several batch sizes and context depths; and how
long and how much memory the first token takes.

` + benchMethod + `

  lowpack bench model.safetensors
  lowpack bench model.safetensors --threads 0 --batch 1 --json > before.json
  lowpack bench model.safetensors --threads 0 --batch 1 --compare before.json
  lowpack bench model.safetensors --svg tokens-per-second.svg
  lowpack bench model.safetensors --device vulkan --model-only
  lowpack bench kernels --layout vnni4i --tokens 1,128
  lowpack bench machine`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "prefill", Aliases: []string{"prompt"}, Value: "128,512",
				Usage: "prefill: tokens per prompt, as a `LIST`"},
			between(1, maxTokens, &cli.IntFlag{Name: "generate", Value: 128, Usage: "decode `N` tokens per sequence"}),
			&cli.StringFlag{Name: "batch", Value: "1,8,32", Usage: "decode: sequences at once, as a `LIST`"},
			&cli.StringFlag{Name: "context", Value: "128,2048,8000",
				Usage: "decode: tokens in front of those that are timed (context depth), as a `LIST`"},
			cacheTypeFlag(),
			deviceFlag("compute on this `DEVICE`"),
			deviceLayersFlag(),
			numaFlag(),
			&cli.BoolFlag{Name: modelOnly, Usage: "measure nothing: with --device vulkan, count what the passes ask " +
				"of a device, and estimate the time that they take on some GPUs; needs no device and no driver"},
			compareFlag(),
		}, benchFlags()...),
		Action: runBench,
		Subcommands: []*cli.Command{benchKernelsCommand(), benchMachineCommand(), benchServeCommand(),
			benchRecommendCommand(), benchReportCommand(), benchChartCommand()},
	}
}

// benchMethod describes the method common to all measurements.
const benchMethod = `Every figure is the median of repetitions after a warm-up, with the distance between their quartiles; a fraction of a
limit is taken within one turn of measuring both. What spreads too much is noise: it is marked, left out of plots, and
the exit code is 3. A kernel whose result is wrong has no figures, and the exit code is 1.`

// benchFlags are the flags common to all measurements.
func benchFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "threads", Value: "1,0", Usage: "threads that compute, as a `LIST`; 0 = one per CPU"},
		maxSpreadFlag(),
		besideFlag("svg", "draw a chart of the results to `FILE`"),
		jsonFlag(),
	}
}

func maxSpreadFlag() cli.Flag {
	return number(0, true, math.MaxFloat32,
		&cli.Float64Flag{Name: "max-spread", Value: 10, Usage: "more than `PERCENT` between the quartiles is noise"})
}

// benchTime is the flag of measurements that can be repeated at will.
func benchTime() cli.Flag {
	return &cli.DurationFlag{Name: "time", Value: 250 * time.Millisecond,
		Usage: "repeat each measurement for this `DURATION`",
		Action: func(_ *cli.Context, d time.Duration) error {
			if d <= 0 || d > time.Hour {
				return usagef("invalid --time %v: must be above 0 and at most 1h", d)
			}
			return nil
		}}
}

func benchMeter(c *cli.Context, p *progress) bench.Meter {
	return bench.Meter{Time: c.Duration("time"), MaxSpread: c.Float64("max-spread") / 100, Memory: autoMeter.Memory,
		Progress: func(done, total int, at string) { p.set(int64(done), int64(total), at) }}
}

func runBench(c *cli.Context) error {
	name := c.Args().First()
	if hint := didYouMean(name, []string{"kernels", "machine", "serve", "recommend", "report", "chart"}); hint != "" {
		if _, err := os.Stat(name); err != nil {
			return usagef("%s: no such file, and no such word%s", name, hint)
		}
	}
	const want = "FILE, or one of the words kernels, machine, serve, recommend, report and chart"
	if err := wantArgs(c, 1, want); err != nil {
		return err
	}
	if err := checkModelOnly(c); err != nil {
		return err
	}
	before, err := earlier(c)
	if err != nil {
		return err
	}
	if name, err = packedPath(name); err != nil {
		return err
	}
	p := newCounter(besideResult(c), "bench", things("measurements"))
	o := bench.ModelOptions{Meter: benchMeter(c, p), Generate: c.Int("generate"),
		Cache: engine.CacheType(c.String("kv-cache-type")), Peak: peakMemory, Device: c.String("device"),
		DeviceLayers: c.Int("device-layers"), NUMA: numaMode(c),
		Opened: func(e *engine.Engine) { noteNodes(c, e) }}
	for name, list := range map[string]*[]int{"prefill": &o.Prompts, "batch": &o.Batches, "context": &o.Contexts,
		"threads": &o.Threads} {
		if *list, err = intList(c, name); err != nil {
			return err
		}
	}
	if c.Bool(modelOnly) {
		return countDevice(c, p, name, o)
	}
	r, err := bench.Model(c.Context, name, o)
	p.done()
	return showBench(c, r, err, func(w io.Writer, r *bench.ModelReport) { printModelBench(w, r, before) })
}

// measured is a report of package bench; nil if there is none.
type measured interface {
	comparable
	Plot() plot.Chart
}

// showBench prints and draws a report, if there is one, and returns the error that came with it.
func showBench[R measured](c *cli.Context, r R, failed error, show func(io.Writer, R)) error {
	var none R
	if r == none {
		return failed
	}
	if svg := c.String("svg"); svg != "" {
		if err := writeFile(svg, func(w io.Writer) error { return plot.SVG(w, r.Plot()) }); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, r); err != nil {
			return err
		}
	} else {
		show(c.App.Writer, r)
	}
	if errors.Is(failed, bench.ErrNoise) {
		return fmt.Errorf("%w (--max-spread)", failed)
	}
	return failed
}

// listBounds are the bounds of the numbers in flags that take a list.
var listBounds = map[string][2]int{
	"threads": {0, maxThreads},
	"prefill": {1, maxTokens},
	"batch":   {1, 1 << 10},
	"context": {1, maxTokens},
	"tokens":  {1, 1 << 16},
}

// intList reads a flag that is a list of numbers, such as 1,8,32.
func intList(c *cli.Context, name string) (list []int, err error) {
	for _, s := range strings.Split(c.String(name), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		b := listBounds[name]
		if err != nil || n < b[0] || n > b[1] {
			return nil, usagef("invalid value %q for --%s: want a list of integers between %d and %d, such as 1,8",
				c.String(name), name, b[0], b[1])
		}
		list = append(list, n)
	}
	return list, nil
}

// printModelBench prints the report as text, compared with an earlier one if there is one.
func printModelBench(w io.Writer, r, before *bench.ModelReport) {
	fmt.Fprintf(w, "%s: %s model in layout %s, %s; a step reads %s of weights; KV cache in %s\n",
		printable.Line(r.File),
		r.Family, strings.Join(r.Layouts, ", "), size(r.FileBytes), size(int64(r.WeightBytes)), r.KVCacheType)
	printHost(w, &r.Host)
	if r.Device != "" {
		fmt.Fprintf(w, "computed by %s\n", printable.Line(r.Device))
	}
	line := fmt.Sprintf("first token after %.0f ms %s", 1e3*r.FirstToken.Seconds.Median,
		spreadText(r.FirstToken.Seconds.Spread, r.FirstToken.Noise))
	if peak := r.FirstToken.PeakBytes; peak > 0 {
		line += fmt.Sprintf(", with a peak of %s of memory: the file and %s", size(peak),
			size(max(0, peak-r.FileBytes)))
	}
	fmt.Fprintln(w, line)
	printBefore(w, before)
	fmt.Fprintln(w)
	header := []string{"", "threads", "tokens/s", "IQR", "ms/pass", "bytes/token", "roof", "of roof"}
	if before != nil {
		header = append(header, "before", "speedup")
	}
	rows := [][]string{header}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Refused != "" {
			continue
		}
		label := row.Label()
		if row.DeviceLayers > 0 {
			label += fmt.Sprintf(", %s on the device", counted(row.DeviceLayers, "layer"))
		}
		cells := []string{label, strconv.Itoa(row.Threads), bench.Digits(row.TokensPerSec),
			spreadText(spreadOf(&row.Figures), row.Noise),
			bench.Digits(1e3 * row.Seconds.Median), size(int64(row.BytesPerToken)), limitText(&row.Figures),
			partText(&row.Figures)}
		rows = append(rows, append(cells, comparison(before, row)...))
	}
	table(w, map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 7: true, 8: true, 9: true}, rows)
	told := map[string]bool{}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Refused != "" && !told[row.Label()] {
			told[row.Label()] = true
			fmt.Fprintf(w, "%s: not measured: %s\n", row.Label(), row.Refused)
		}
	}
}

func printHost(w io.Writer, h *bench.Host) {
	name := h.CPU
	if name == "" {
		name = "CPU"
	}
	isas := make([]string, len(h.ISAs))
	for i, isa := range h.ISAs {
		isas[i] = string(isa)
	}
	fmt.Fprintf(w, "%s, %s, %s; %s\n", name, bench.Threads(h.Threads), strings.Join(isas, " "), h.Platform)
}

func spreadOf(f *bench.Figures) float64 { return max(f.Seconds.Spread, f.Fraction.Spread) }

func spreadText(spread float64, noise bool) string {
	text := "± " + percentText(spread)
	if noise {
		text = "NOISE " + text
	}
	return text
}

func percentText(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// partText is the fraction of the nearer limit.
func partText(f *bench.Figures) string {
	if f.Bound == "" {
		return "–"
	}
	return percentText(f.Fraction.Median)
}

// limitText names the nearer limit and its speed; none is known of a device.
func limitText(f *bench.Figures) string {
	if f.Bound == "" {
		return "–"
	}
	if f.Bound == bench.Multiply {
		return "multiply " + bench.Digits(f.PeakGOPS) + " GOPS"
	}
	return "memory " + bench.Digits(f.ReadGBs) + " GB/s"
}
