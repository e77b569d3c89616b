// Package packed reads and writes the packed file: a safetensors file in the profile of docs/FORMAT.md.
package packed

import "github.com/lowpack/lowpack/pack"

// FormatVersion is the version of the profile that this program writes.
const FormatVersion = 1

// Names of tensors and metadata keys (docs/FORMAT.md).
const (
	ManifestKey       = "lowpack.manifest"
	ManifestDigestKey = "lowpack.manifest.sha256"
	PackedSuffix      = ".packed"
	ScaleSuffix       = ".scale"
	FilePrefix        = "lowpack/"       // embedded files: lowpack/config.json, lowpack/tokenizer.json …
	GoldenName        = "lowpack/golden" // Arrow IPC stream
	Align             = 64               // bytes; start of the data and size of every packed tensor
)

// Manifest describes a packed file. Its canonical JSON form (fields in this order, no white space, no HTML escaping)
// is the value of lowpack.manifest.
type Manifest struct {
	Format  int      `json:"format"`
	Tool    string   `json:"tool"`    // "lowpack 0.1.0"
	Family  string   `json:"family"`  // model family; "" = weights only
	Packed  []Entry  `json:"packed"`  // quantized tensors, by name
	Plain   []Plain  `json:"plain"`   // every other tensor of the file but scales and golden outputs, in file order
	Golden  string   `json:"golden"`  // SHA-256 of lowpack/golden, hex; "" = none
	Sources []Source `json:"sources"` // the files that convert read, by name
	Recipe  Recipe   `json:"recipe"`
}

// Entry describes one quantized tensor.
type Entry struct {
	Name      string    `json:"name"`  // as in the checkpoint, for example "model.layers.0.mlp.up_proj.weight"
	Shape     [2]int    `json:"shape"` // M, K, without padding
	Layout    pack.Spec `json:"layout"`
	Bytes     int       `json:"bytes"` // PackedSize; the tensor itself is zero-padded to a multiple of Align
	Scale     Scale     `json:"scale"`
	Quantizer string    `json:"quantizer"` // rule that made the codes: "absmean", "import-u8", "ternary-values", "int8-row" …
	SHA256    string    `json:"sha256"`    // of the stored tensor, padding included
	ScaleSHA  string    `json:"scale_sha256"`
	CodesSHA  string    `json:"codes_sha256"` // layout-independent digest (FORMAT rule on codes)
}

// Scale says how many scales a tensor has: one ("tensor"), one per row ("row"), or one per row and group of columns
// ("group", row-major [M][ceil(K/Group)]).
type Scale struct {
	Kind  string `json:"kind"`
	Group int    `json:"group,omitempty"`
}

// Plain is a tensor stored as it was, or an embedded file.
type Plain struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	SHA256 string `json:"sha256"`
}

// Source is a file of the checkpoint.
type Source struct {
	Name   string `json:"name"` // relative to the checkpoint, '/'-separated
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Recipe holds the choices of the user that change the bytes of the file.
type Recipe struct {
	Quant      string         `json:"quant"`
	Layout     string         `json:"layout"`
	Params     map[string]int `json:"params,omitempty"`
	Scale      string         `json:"scale,omitempty"` // tensor, row or group:N, where the user chose one
	Head       string         `json:"head,omitempty"`
	Golden     string         `json:"golden"`
	AllowLossy bool           `json:"allow_lossy,omitempty"`
	Include    []string       `json:"include,omitempty"`
	Rules      []Rule         `json:"rules,omitempty"` // of --recipe, in order
}

// Rule of a recipe file: the first whose pattern matches the name of a tensor decides.
type Rule struct {
	Match  string         `json:"match" yaml:"match"` // glob over the tensor name
	Quant  string         `json:"quant,omitempty" yaml:"quant"`
	Layout string         `json:"layout,omitempty" yaml:"layout"`
	Params map[string]int `json:"params,omitempty" yaml:"params"`
	Scale  string         `json:"scale,omitempty" yaml:"scale"`
	Keep   bool           `json:"keep,omitempty" yaml:"keep"`
}
