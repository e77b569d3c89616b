package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/convert/report"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/provenance"
	"github.com/lowpack/lowpack/internal/version"
)

// beside names the files that convert writes in addition to the packed one; empty names are files not requested.
type beside struct {
	report     string
	format     report.Format
	provenance string
}

func besideFlags() []cli.Flag {
	return []cli.Flag{
		besideFlag("report", "write a per-tensor report to `FILE` (.html, .arrow, .parquet)"),
		besideFlag("provenance", "write an unsigned in-toto statement about the conversion to `FILE`"),
	}
}

// besideOf reads the flags, and refuses values that would otherwise fail only after the conversion.
func besideOf(c *cli.Context) (b beside, err error) {
	b.report, b.provenance = c.String("report"), c.String("provenance")
	for _, path := range []string{b.report, b.provenance} {
		if path == "" {
			continue
		}
		if c.Bool("dry-run") {
			return b, usagef("--dry-run converts nothing: there is nothing that %s could tell", path)
		}
	}
	if b.report != "" {
		if b.format, err = report.FormatOf(b.report); err != nil {
			return b, usagef("%v", err)
		}
	}
	return b, nil
}

// write writes the requested files, after the conversion.
func (b *beside) write(p *convert.Plan, checkpoint, target string) error {
	if b.report != "" {
		r := report.Report{Tool: version.Tool, Source: baseName(checkpoint), File: filepath.Base(target),
			Recipe: recipeText(&p.Recipe), Rows: p.Report()}
		if len(p.Recipe.Rules) > 0 {
			r.Rules = rulesText(p.Recipe.Rules)
		}
		if err := writeFile(b.report, func(w io.Writer) error { return r.Write(w, b.format) }); err != nil {
			return err
		}
	}
	if b.provenance == "" {
		return nil
	}
	text, err := statementOf(target)
	if err != nil {
		return err
	}
	return writeFile(b.provenance, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// baseName is the name of a checkpoint without its folder, also for "." and names that end in a slash.
func baseName(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return filepath.Base(whole)
	}
	return filepath.Base(path)
}

// statementOf is the provenance statement about a packed file.
func statementOf(path string) ([]byte, error) {
	f, err := packed.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f.Whole()); err != nil {
		return nil, err
	}
	return provenance.Statement(filepath.Base(path), hex.EncodeToString(h.Sum(nil)), f.Manifest())
}

// readStatement reads a provenance statement; nil for no name.
func readStatement(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	return readSmall(path, provenance.MaxSize)
}

// recipeText writes the choices of a recipe as flags.
func recipeText(r *packed.Recipe) string {
	words := []string{"--layout " + r.Layout}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		words = append(words, fmt.Sprintf("--param %s=%d", name, r.Params[name]))
	}
	for _, f := range []struct{ name, value, usual string }{
		{"quant", r.Quant, convert.QuantAuto}, {"scale", r.Scale, ""}, {"head", string(r.Head), ""},
		{"activation", r.Activation, ""},
		{"golden", string(r.Golden), string(packed.GoldenFull)},
	} {
		if f.value != f.usual {
			words = append(words, "--"+f.name+" "+f.value)
		}
	}
	for _, pattern := range r.Include {
		words = append(words, fmt.Sprintf("--include '%s'", pattern))
	}
	if r.AllowLossy {
		words = append(words, "--allow-lossy")
	}
	if len(r.Rules) > 0 {
		words = append(words, fmt.Sprintf("--recipe with %d rules", len(r.Rules)))
	}
	return strings.Join(words, " ")
}
