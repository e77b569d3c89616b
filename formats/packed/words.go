package packed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// ScaleKind is what shares a scale (FORMAT F9).
type ScaleKind string

// The kinds of scales.
const (
	ScaleTensor ScaleKind = "tensor"
	ScaleRow    ScaleKind = "row"
	ScaleGroup  ScaleKind = "group" // of Scale.Group columns of a row
)

// ScaleType is the type of stored scales (FORMAT F9).
type ScaleType string

// The types of scales.
const (
	ScaleF32  ScaleType = "F32"
	ScaleF16  ScaleType = "F16"
	ScaleBF16 ScaleType = "BF16"
	ScaleE8M0 ScaleType = "E8M0" // a power of two: the byte b of an MXFP4 block
)

// ActivationKind is what shares a scale of int8 activations (FORMAT F22).
type ActivationKind string

// The kinds of activation scales.
const (
	ActivationToken ActivationKind = "token"
	ActivationGroup ActivationKind = "group" // of Activation.Size columns of a token
)

// Head is the form of the output head of a model.
type Head string

// The forms of the output head. In a recipe "" stands for HeadBF16.
const (
	HeadBF16   Head = "bf16"   // as in the checkpoint, whatever its type
	HeadInt8   Head = "int8"   // codes with a scale per row
	HeadInt4   Head = "int4"   // codes with a scale per group of 32 columns
	HeadScreen Head = "screen" // as in the checkpoint, with int8 rows beside it (F21)
)

// Heads lists the forms of the output head, the default first.
func Heads() []Head { return []Head{HeadBF16, HeadInt8, HeadInt4, HeadScreen} }

// GoldenMode says how much of what a file must compute is recorded in it (package golden).
type GoldenMode string

// What is recorded.
const (
	GoldenNone   GoldenMode = "none"
	GoldenKernel GoldenMode = "kernel" // products of every packed tensor
	GoldenFull   GoldenMode = "full"   // and logits and texts, where the file holds a model
)

// GoldenModes lists what can be recorded, from nothing to all.
func GoldenModes() []GoldenMode { return []GoldenMode{GoldenNone, GoldenKernel, GoldenFull} }

// Method is how a calibration text chooses scales (NUMERICS N37, N38).
type Method string

// The methods of calibration.
const (
	MeanSquare Method = "mean-square" // the least error weighted by the mean square of each column
	GPTQ       Method = "gptq"        // and codes, one after another, to hide earlier errors (error feedback)
)

// Methods lists the methods of calibration, the default first.
func Methods() []Method { return []Method{MeanSquare, GPTQ} }

// Check refuses other words than those of Heads; "" is the default. The error wraps pack.ErrUnsupported.
func (h Head) Check() error { return oneOf("head", h, "", Heads()) }

// Check refuses other words than those of GoldenModes. The error wraps pack.ErrUnsupported.
func (g GoldenMode) Check() error { return oneOf("golden outputs", g, GoldenNone, GoldenModes()) }

// Check refuses other words than those of Methods; "" is the default. The error wraps pack.ErrUnsupported.
func (m Method) Check() error { return oneOf("method", m, "", Methods()) }

// oneOf refuses a word that is neither the usual one nor in a list.
func oneOf[W ~string](what string, word, usual W, list []W) error {
	if word == usual || slices.Contains(list, word) {
		return nil
	}
	names := make([]string, len(list))
	for i, w := range list {
		names[i] = string(w)
	}
	return fmt.Errorf("%w: %s %q; it is one of %s", pack.ErrUnsupported, what, word, strings.Join(names, ", "))
}
