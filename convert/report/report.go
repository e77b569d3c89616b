// Package report lists what a conversion did to every tensor: as a table for programs (Arrow, Parquet) or as one
// self-contained page for people (HTML).
package report

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// Report describes one conversion.
type Report struct {
	Tool   string // program and version
	Source string // name of the checkpoint, without its folder
	File   string // name of the packed file, without its folder
	Recipe string // the choices, as the user would type them
	Rules  string // of the recipe, as a recipe file; "" = none
	Rows   []Row  // by name
}

// Row describes the result for one tensor.
type Row struct {
	Tensor   string
	Shape    []int
	DType    string // in the checkpoint
	Rule     string // the quantizer, or "keep"
	Layout   string // "" = kept
	Alphabet string
	Scale    string // tensor, row or group:N; "" = kept
	Scales   Scales
	Codes    []Code
	RelError *float64 // ‖W − Ŵ‖/‖W‖; nil when it was not measured
	BytesIn  int64
	BytesOut int64 // scales and padding included
	Seconds  float64
}

// Scales summarizes the scales of a tensor.
type Scales struct {
	Count          int64
	Min, Max, Mean float64
}

// Code is one value of the alphabet and how often it occurs.
type Code struct {
	Value int32 `parquet:"value"`
	Count int64 `parquet:"count"`
}

// Codes pairs the values of an alphabet with their counts, in its order.
func Codes(a pack.Alphabet, counts []int64) []Code {
	codes := make([]Code, 0, len(counts))
	for i, n := range counts[:min(len(counts), len(a.Values))] {
		codes = append(codes, Code{int32(a.Values[i]), n})
	}
	return codes
}

// ScalesOf summarizes scales.
func ScalesOf(scales []float32) Scales {
	s := Scales{Count: int64(len(scales))}
	for i, v := range scales {
		x := float64(v)
		if i == 0 {
			s.Min, s.Max = x, x
		}
		s.Min, s.Max = min(s.Min, x), max(s.Max, x)
		s.Mean += x / float64(len(scales))
	}
	return s
}

// Format is the file format of a report.
type Format string

// The formats, which are also the file name extensions that choose them.
const (
	Arrow   Format = "arrow"
	Parquet Format = "parquet"
	HTML    Format = "html"
)

// FormatOf chooses the format by the extension of a file name.
func FormatOf(path string) (Format, error) {
	f := Format(strings.TrimPrefix(filepath.Ext(path), "."))
	switch f {
	case Arrow, Parquet, HTML:
		return f, nil
	}
	return "", fmt.Errorf("%w: report %s: the name must end in .arrow, .parquet or .html", pack.ErrUnsupported, path)
}

// Write writes the report.
func (r *Report) Write(w io.Writer, f Format) error {
	switch f {
	case Arrow:
		return r.arrow(w)
	case Parquet:
		return r.parquet(w)
	case HTML:
		return r.html(w)
	}
	return fmt.Errorf("%w: report format %q", pack.ErrUnsupported, f)
}

// place splits the name of a tensor into the number of its layer, nil outside of the layers, and the module in it:
// "model.layers.3.mlp.up_proj.weight" is 3 and "mlp.up_proj".
func place(tensor string) (layer *int32, module string) {
	parts := strings.Split(strings.TrimSuffix(tensor, ".weight"), ".")
	for i, p := range parts[:len(parts)-1] {
		if n, err := strconv.ParseInt(p, 10, 32); err == nil && n >= 0 {
			l := int32(n)
			return &l, strings.Join(parts[i+1:], ".")
		}
	}
	return nil, strings.Join(parts, ".")
}
