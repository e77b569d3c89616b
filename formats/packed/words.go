package packed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// ScaleKind is the granularity of weight scales (FORMAT F9).
type ScaleKind string

// The kinds of scales.
const (
	ScaleTensor ScaleKind = "tensor"
	ScaleRow    ScaleKind = "row"
	ScaleGroup  ScaleKind = "group" // per Scale.Group columns of a row
)

// ScaleType is the type of stored scales (FORMAT F9).
type ScaleType string

// The types of scales.
const (
	ScaleF32  ScaleType = "F32"
	ScaleF16  ScaleType = "F16"
	ScaleBF16 ScaleType = "BF16"
	ScaleE8M0 ScaleType = "E8M0" // a power of two: the byte b of an MXFP4 block

	// ScaleF16I8 is a product: the columns of a run of FactorColumns share a float16, and each group has an int8.
	ScaleF16I8 ScaleType = "F16I8"
	// ScaleF16I8Eighths is an eighth of such a product, of which the float16 need not be divisible by 8.
	ScaleF16I8Eighths ScaleType = "F16I8/8"
)

// Factored reports whether scales are products of a float16 and an integer.
func (t ScaleType) Factored() bool { return t == ScaleF16I8 || t == ScaleF16I8Eighths }

// ActivationKind is the width of activations and the granularity of their scales (FORMAT F22).
type ActivationKind string

// The kinds of activations. Those of 8 bits are int8 codes (NUMERICS N14), those of 16 bits two planes of them (N83).
const (
	ActivationToken   ActivationKind = "token"
	ActivationGroup   ActivationKind = "group" // per Activation.Size columns of a token
	ActivationToken16 ActivationKind = "token16"
	ActivationGroup16 ActivationKind = "group16"
)

// Head is the form of the output head of a model.
type Head string

// The forms of the output head. In a recipe "" stands for HeadBF16.
const (
	HeadBF16   Head = "bf16"   // as in the checkpoint, whatever its type
	HeadInt8   Head = "int8"   // codes with one scale per row
	HeadInt6   Head = "int6"   // codes with one scale per group of 64 columns
	HeadInt4   Head = "int4"   // codes with one scale per group of 32 columns
	HeadScreen Head = "screen" // as in the checkpoint, with int8 rows in addition (F21)
)

// Heads lists the forms of the output head, the default first.
func Heads() []Head { return []Head{HeadBF16, HeadInt8, HeadInt6, HeadInt4, HeadScreen} }

// GoldenMode says which golden outputs are recorded in a file (package golden).
type GoldenMode string

// The golden modes.
const (
	GoldenNone   GoldenMode = "none"
	GoldenKernel GoldenMode = "kernel" // products of every packed tensor
	GoldenFull   GoldenMode = "full"   // and logits and texts, if the file holds a model
)

// GoldenModes lists the golden modes, from nothing to all.
func GoldenModes() []GoldenMode { return []GoldenMode{GoldenNone, GoldenKernel, GoldenFull} }

// Method is how a calibration text chooses scales (NUMERICS N37, N38).
type Method string

// The methods of calibration.
const (
	MeanSquare Method = "mean-square" // minimizes the error weighted by the mean square of each column
	GPTQ       Method = "gptq"        // also chooses codes sequentially, compensating earlier errors (error feedback)
)

// Methods lists the methods of calibration, the default first.
func Methods() []Method { return []Method{GPTQ, MeanSquare} }

// Check rejects values that are not in Heads; "" is the default. The error wraps pack.ErrUnsupported.
func (h Head) Check() error { return oneOf("head", h, "", Heads()) }

// Check rejects values that are not in GoldenModes. The error wraps pack.ErrUnsupported.
func (g GoldenMode) Check() error { return oneOf("golden outputs", g, GoldenNone, GoldenModes()) }

// Check rejects values that are not in Methods; "" is the default. The error wraps pack.ErrUnsupported.
func (m Method) Check() error { return oneOf("method", m, "", Methods()) }

// oneOf rejects a value that is neither the default nor in a list.
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
