package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/pack"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show what a packed file or a checkpoint holds",
		ArgsUsage: "PATH",
		UsageText: "lowpack inspect PATH [--tensors] [--json]",
		Description: `PATH is a packed file, a model directory, a bare safetensors file, a GGUF, or ORG/NAME of a model on the hub, which is downloaded. A summary comes
first, then the tensors by kind. Headers, small files and golden outputs are read; use verify to check the data. To tell
what convert would do with a checkpoint, its weights are read where that is quick.

  lowpack inspect model.safetensors
  lowpack inspect MODEL_DIR --tensors`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "tensors", Usage: "list every tensor"},
			jsonFlag(),
		},
		Action: inspect,
	}
}

func inspect(c *cli.Context) error {
	if err := wantArgs(c, 1, "PATH"); err != nil {
		return err
	}
	path, err := checkpointOf(c, c.Args().First())
	if err != nil {
		return err
	}
	v, err := inspectPath(c.Context, path)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, v)
	}
	v.Notes = shown(c, v.Notes, v.Details)
	v.print(c.App.Writer, c.Bool("tensors"))
	return nil
}

// inspection is the output of `lowpack inspect --json`.
type inspection struct {
	Path     string             `json:"path"`
	Kind     string             `json:"kind"` // "packed file" or "checkpoint"
	Bytes    int64              `json:"bytes"`
	Summary  facts              `json:"summary"`
	Model    *model.Description `json:"model,omitempty"`
	Manifest *packed.Manifest   `json:"manifest,omitempty"`
	Tensors  []tensorLine       `json:"tensors"`
	Example  string             `json:"chat_example,omitempty"` // a conversation rendered by the model's chat template
	Notes    []string           `json:"notes,omitempty"`
	Details  []string           `json:"details,omitempty"` // notes that need no action
}

type tensorLine struct {
	Name  string  `json:"name"`
	Shape []int   `json:"shape"`
	Kind  string  `json:"kind"` // dtype, or alphabet and layout
	Scale string  `json:"scale,omitempty"`
	Bytes int64   `json:"bytes"`
	Bits  float64 `json:"bits_per_weight"`
}

func inspectPath(ctx context.Context, path string) (v *inspection, err error) {
	err = openModel(path, func(f *packed.File) error {
		if v, err = packedHead(path, f); err == nil {
			v.factsOfPacked(f)
		}
		return err
	}, func(ck *checkpoint.Checkpoint) error {
		if v, err = checkpointHead(path, ck); err == nil {
			v.factsOfCheckpoint(ctx, ck)
		}
		return err
	})
	return v, err
}

// headOf reads the headers and the configuration of a model.
func headOf(path string) (v *inspection, err error) {
	err = openModel(path, func(f *packed.File) error {
		if v, err = packedHead(path, f); err == nil {
			v.sizeUp(f.Embedded)
		}
		return err
	}, func(ck *checkpoint.Checkpoint) error {
		if v, err = checkpointHead(path, ck); err == nil {
			v.sizeUp(ck.File)
		}
		return err
	})
	return v, err
}

// openModel opens the packed file or checkpoint at a path.
func openModel(path string, asPacked func(*packed.File) error, asCheckpoint func(*checkpoint.Checkpoint) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return filekind.Missing(path, err)
	}
	if info.Mode().IsRegular() && !checkpoint.IsGGUF(path) {
		f, err := packed.Open(path)
		if err == nil {
			defer f.Close()
			return asPacked(f)
		}
		if !errors.Is(err, packed.ErrNotPacked) {
			return err
		}
	}
	ck, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	defer ck.Close()
	return asCheckpoint(ck)
}

// packedHead reads the header of a packed file.
func packedHead(path string, f *packed.File) (*inspection, error) {
	v := &inspection{Path: path, Kind: "packed file", Bytes: f.Size(), Manifest: f.Manifest()}
	var err error
	if v.Model, err = packed.Describe(f); errors.Is(err, pack.ErrUnsupported) {
		v.Notes = append(v.Notes, err.Error())
	} else if err != nil {
		return nil, err
	}
	for i := range v.Manifest.Packed {
		e := &v.Manifest.Packed[i]
		v.add(e.Name, e.Shape, e.Layout.Alphabet+" "+e.Layout.Name, scaleText(e), e.AllBytes())
	}
	for _, p := range v.Manifest.Plain {
		t, err := f.Tensor(p.Name)
		if err != nil {
			return nil, err
		}
		v.add(p.Name, p.Shape, string(p.DType), "", int64(len(t.Data)))
	}
	return v, nil
}

// checkpointHead reads the headers and the configuration of a checkpoint.
func checkpointHead(path string, ck *checkpoint.Checkpoint) (*inspection, error) {
	v := &inspection{Path: path, Kind: "checkpoint", Notes: ck.Warnings(), Details: ck.Details()}
	for _, s := range ck.Sources() {
		v.Bytes += s.Size
	}
	for _, t := range ck.Tensors() {
		kind, bytes := t.Stored()
		v.add(t.Name, t.Shape, kind, "", bytes)
	}
	if ck.Config() == nil {
		v.Notes = append(v.Notes, "there is no config.json: weights alone can be converted and verified, not run; "+
			"put it beside them to run the model")
		return v, nil
	}
	generation, _ := ck.File("generation_config.json")
	scheme, err := quantized.Parse(ck.Config(), ck)
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	if scheme != nil {
		v.Details = append(v.Details, scheme.Details...)
	}
	lookup := func(name string) (quantized.Tensor, bool) {
		t, ok := ck.Lookup(name)
		return quantized.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape}, ok
	}
	var names []string
	for _, t := range ck.Tensors() {
		names = append(names, t.Name)
	}
	if _, err := scheme.Layers(names, lookup); err != nil { // before shapes, whose errors would hide the format
		return nil, filerr.Named(path, err)
	}
	d, err := model.Parse(ck.Config(), generation, scheme.Shapes(lookup))
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	v.Model, v.Notes = d, append(v.Notes, d.Notes()...)
	return v, nil
}

func (v *inspection) add(name string, shape []int, kind, scale string, bytes int64) {
	n := weights(shape)
	t := tensorLine{Name: name, Shape: shape, Kind: kind, Scale: scale, Bytes: bytes}
	if n > 0 {
		t.Bits = float64(bytes) * 8 / float64(n)
	}
	v.Tensors = append(v.Tensors, t)
}

// scaleText describes the scale granularity and type, and other parameters that weights share.
func scaleText(e *packed.Entry) string {
	text := e.Scale.String() + " " + string(e.Scale.DType)
	if e.Zero {
		text += " zero"
	}
	if e.Min {
		text += " min"
	}
	if e.Order {
		text += " order"
	}
	return text
}

func (v *inspection) print(w io.Writer, tensors bool) {
	fmt.Fprintf(w, "%s: %s, %s\n", printable.Line(v.Path), v.Kind, size(v.Bytes))
	table(w, nil, v.factRows())
	fmt.Fprintln(w)
	rows := [][]string{{"tensors", "kind", "scale", "weights", "bytes", "bits/weight"}}
	if tensors {
		rows[0] = []string{"tensor", "kind", "scale", "shape", "bytes", "bits/weight"}
		for _, t := range v.Tensors {
			rows = append(rows, []string{t.Name, t.Kind, t.Scale, shapeText(t.Shape), strconv.FormatInt(t.Bytes, 10),
				fmt.Sprintf("%.2f", t.Bits)})
		}
	} else {
		rows = append(rows, v.groups()...)
	}
	table(w, map[int]bool{3: true, 4: true, 5: true}, rows)
	for _, n := range v.Notes {
		noteTo(w, n)
	}
	if v.Example != "" {
		fmt.Fprintf(w, "\nA conversation in this model's format:\n%s\n", indent(v.Example))
	}
}

// groups sums tensors of one kind up.
func (v *inspection) groups() [][]string {
	type key struct{ kind, scale string }
	var order []key
	count, total, bytes := map[key]int{}, map[key]int64{}, map[key]int64{}
	for _, t := range v.Tensors {
		k := key{t.Kind, t.Scale}
		if strings.HasPrefix(t.Name, packed.FilePrefix) {
			k.kind = "embedded files"
		}
		if count[k] == 0 {
			order = append(order, k)
		}
		count[k]++
		total[k] += weights(t.Shape)
		bytes[k] += t.Bytes
	}
	var rows [][]string
	for _, k := range order {
		bits := ""
		if total[k] > 0 {
			bits = fmt.Sprintf("%.2f", float64(bytes[k])*8/float64(total[k]))
		}
		rows = append(rows, []string{strconv.Itoa(count[k]), k.kind, k.scale, strconv.FormatInt(total[k], 10),
			strconv.FormatInt(bytes[k], 10), bits})
	}
	return rows
}

// weights is the number of elements of a tensor.
func weights(shape []int) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= int64(d)
	}
	return n
}

func shapeText(shape []int) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", "×") }

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
