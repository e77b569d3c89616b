package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/runtime/engine"
)

// compareFlag names an earlier report.
func compareFlag() cli.Flag {
	return inputFlag("compare", "print beside each figure that of an earlier report, which --json wrote to `FILE`")
}

// earlier reads the report to compare with; nil if there is none.
func earlier(c *cli.Context) (*bench.ModelReport, error) {
	file := c.String("compare")
	if file == "" {
		return nil, nil
	}
	if c.Bool("json") {
		return nil, usagef("--compare and --json cannot be combined")
	}
	text, err := readSmall(file, 1<<20)
	if err != nil {
		return nil, err
	}
	r, err := bench.ReadModel(text)
	return r, filerr.Named(file, err)
}

// comparison returns the cells that compare a row with an earlier report: its tokens per second, and the speedup. Noise
// is not compared.
func comparison(before *bench.ModelReport, row *bench.ModelRow) []string {
	if before == nil {
		return nil
	}
	old := before.Same(row)
	switch {
	case old == nil:
		return []string{"-", "-"}
	case old.Noise || row.Noise:
		return []string{bench.Digits(old.TokensPerSec), "NOISE"}
	}
	return []string{bench.Digits(old.TokensPerSec), fmt.Sprintf("%.2f ×", row.TokensPerSec/old.TokensPerSec)}
}

// printBefore describes the earlier report. Reports that do not name the KV cache type used the default.
func printBefore(w io.Writer, before *bench.ModelReport) {
	if before != nil {
		cache := cmp.Or(before.KVCacheType, engine.CacheF32)
		fmt.Fprintf(w, "before: %s, %s, %s, KV cache in %s\n", printable.Line(before.File),
			printable.Line(before.Host.Tool),
			printable.Line(before.Host.CPU), printable.Line(string(cache)))
	}
}
