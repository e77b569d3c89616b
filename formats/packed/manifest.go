// Package packed reads and writes the packed file: a safetensors file in the profile of docs/FORMAT.md.
//
// [Open] checks everything that costs no reading of data and maps the file; [File.Tensor] gives the bytes of a tensor,
// [Codes] and [Scales] what they mean. [Create] plans the place of every byte from [Contents], and [Writer.Commit] puts
// the complete file at its target. Rules are numbered F1 and up, and errors name the one that a file breaks.
package packed

import (
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/pack"
)

// FormatVersion is the version of the profile that this program writes.
const FormatVersion = 2

// Names of tensors and metadata keys (docs/FORMAT.md).
const (
	ManifestKey       = "lowpack.manifest"
	ManifestDigestKey = "lowpack.manifest.sha256"
	PackedSuffix      = ".packed"
	ScaleSuffix       = ".scale"
	ZeroSuffix        = ".zero"
	MinSuffix         = ".min"
	OrderSuffix       = ".order"
	FilePrefix        = "lowpack/"       // embedded files: lowpack/config.json, lowpack/tokenizer.json …
	GoldenName        = "lowpack/golden" // Arrow IPC stream
	Align             = 64               // bytes; start of the data and size of every packed tensor
)

// Manifest describes a packed file. Its canonical JSON form (fields in this order, no white space, no HTML escaping)
// is the value of lowpack.manifest.
type Manifest struct {
	Format int    `json:"format"`
	Tool   string `json:"tool"`   // "lowpack 0.1.0"
	Family string `json:"family"` // model family; "" = weights only

	Activation Activation       `json:"activation"`        // of all quantized linear layers
	Pooling    *pooling.Pooling `json:"pooling,omitempty"` // of embeddings; nil = the model makes none
	Scoring    *scoring.Scoring `json:"scoring,omitempty"` // of documents; nil = the model makes no scores

	Packed []Entry `json:"packed"` // quantized tensors, by name
	// every other tensor of the file except entry data and golden outputs, in file order
	Plain   []Plain  `json:"plain"`
	Golden  string   `json:"golden"`  // SHA-256 of lowpack/golden, hex; "" = none
	Sources []Source `json:"sources"` // the files that convert read, by name
	Recipe  Recipe   `json:"recipe"`
}

// Activation says how activations become codes (NUMERICS N14, N83): of 8 or 16 bits, with one scale per token, or one
// per group of Size columns.
type Activation struct {
	Kind ActivationKind `json:"kind"`
	Size int            `json:"size,omitempty"` // 32, 64 or 128 columns per group; 0 = a scale per token
}

// Entry describes one quantized tensor: a matrix, or the matrices of several experts, all of one shape. A weight is
// (code − zero point) · scale, or (code − lowest code of the alphabet) · scale + minimum.
type Entry struct {
	Name   string    `json:"name"`  // as in the checkpoint, for example "model.layers.0.mlp.up_proj.weight"
	Shape  []int     `json:"shape"` // M, K, without padding; E, M, K of E experts
	Layout pack.Spec `json:"layout"`
	Bytes  int       `json:"bytes"` // PackedSize of one matrix; each is zero-padded to a multiple of Align
	Scale  Scale     `json:"scale"`
	Zero   bool      `json:"zero,omitempty"`  // has zero points, one per scale (Zeros)
	Min    bool      `json:"min,omitempty"`   // has minima, one per scale (Minima)
	Order  bool      `json:"order,omitempty"` // has a column order (Order)
	// rule that made the codes: "absmean", "import-u8", "ternary-values", "int8-row" …
	Quantizer string `json:"quantizer"`
	// Calibrated says that the scales, and with method gptq the codes, were chosen with the text of Recipe.Calibration,
	// not by the quantizer's rule.
	Calibrated bool   `json:"calibrated,omitempty"`
	SHA256     string `json:"sha256"` // of the stored tensor, padding included
	ScaleSHA   string `json:"scale_sha256"`
	ZeroSHA    string `json:"zero_sha256,omitempty"`
	MinSHA     string `json:"min_sha256,omitempty"`
	OrderSHA   string `json:"order_sha256,omitempty"`
	CodesSHA   string `json:"codes_sha256"` // layout-independent digest (FORMAT rule on codes)
}

// Scale says how many scales a matrix has: one ("tensor"), one per row ("row"), or one per row and group of columns
// ("group", row-major [M][ceil(K/Group)]); and how they are stored.
type Scale struct {
	Kind   ScaleKind `json:"kind"`
	Group  int       `json:"group,omitempty"`
	DType  ScaleType `json:"dtype"`            // "" in a plan means ScaleF32
	Signed bool      `json:"signed,omitempty"` // scales may be negative
}

// Plain is a tensor stored unchanged, or an embedded file.
type Plain struct {
	Name   string            `json:"name"`
	DType  safetensors.DType `json:"dtype"`
	Shape  []int             `json:"shape"`
	SHA256 string            `json:"sha256"`
}

// Source is a file of the checkpoint.
type Source struct {
	Name   string `json:"name"` // relative to the checkpoint, '/'-separated
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Recipe holds the user's choices that change the bytes of the file. Empty fields are filled in by the conversion.
type Recipe struct {
	// Quant is how floats become codes: the name of a rule of package quantize, "auto" (what the checkpoint declares,
	// or what its values are already; the default), or "none".
	Quant string `json:"quant"`
	// Layout is the name of a layout of package pack, and Params are the block factors that differ from its defaults.
	Layout string         `json:"layout"`
	Params map[string]int `json:"params,omitempty"`
	// Scale is tensor, row or group:N, in the form of Scale.String; "" = the quantizer's preference.
	Scale string `json:"scale,omitempty"`
	// Activation is in the form of Activation.String; "" = what matches the weights.
	Activation string     `json:"activation,omitempty"`
	Head       Head       `json:"head,omitempty"` // "" = HeadBF16
	Golden     GoldenMode `json:"golden"`         // the default is GoldenFull
	// AllowLossy permits quantizing floats that nothing declares to be low-bit.
	AllowLossy bool `json:"allow_lossy,omitempty"`
	// Include are glob patterns of names: only tensors that match one of them are quantized; none = all.
	Include []string `json:"include,omitempty"`
	Rules   []Rule   `json:"rules,omitempty"` // for single tensors; the first match decides

	Calibration *Calibration `json:"calibration,omitempty"` // nil = none; a conversion sets it
}

// Calibration says how scales were chosen for a text (QUANTIZATION N37, N38).
type Calibration struct {
	Method Method `json:"method"`
	Text   string `json:"text_sha256"` // of the whole text, in UTF-8
	Tokens int    `json:"tokens"`      // number of tokens read, spread over the text
	// SelfSeed is the seed of a text that the model wrote itself (QUANTIZATION N73); 0 = a text was given.
	SelfSeed uint64 `json:"self_seed,omitempty"`
}

// Rule of a recipe file: the first rule whose pattern matches the name of a tensor decides. Its fields, where set,
// replace the recipe's fields of the same name.
type Rule struct {
	Match  string         `json:"match" yaml:"match"` // glob over the tensor name
	Quant  string         `json:"quant,omitempty" yaml:"quant"`
	Layout string         `json:"layout,omitempty" yaml:"layout"`
	Params map[string]int `json:"params,omitempty" yaml:"params"`
	Scale  string         `json:"scale,omitempty" yaml:"scale"`
	Keep   bool           `json:"keep,omitempty" yaml:"keep"` // as in the checkpoint; excludes the four above
}
