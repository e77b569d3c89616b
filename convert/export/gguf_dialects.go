package export

import (
	"fmt"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/pack"
)

// Dialect is the target program of a GGUF: programs have their own block types and architectures.
type Dialect string

// The dialects.
const (
	LlamaCpp  Dialect = "llama.cpp"
	IK        Dialect = "ik"         // ik_llama.cpp
	BitnetCpp Dialect = "bitnet.cpp" // with its fork of llama.cpp
)

// Dialects lists the dialects, the default first.
func Dialects() []string { return []string{string(LlamaCpp), string(IK), string(BitnetCpp)} }

// dialect describes what a program can read.
type dialect struct {
	types []gguf.Type // types of stored matrices, from small to large
	apart bool        // .scale tensors multiply, in some architectures
	relu2 string      // the architecture that computes squared ReLU; "" if none does
	doubt string      // a summary's caveat about that architecture
}

var dialects = map[Dialect]dialect{
	LlamaCpp: {[]gguf.Type{gguf.Q1_0, gguf.TQ2_0, gguf.Q2_0, gguf.IQ1_S, gguf.IQ1_M, gguf.IQ2_XXS,
		gguf.IQ2_XS, gguf.IQ2_S, gguf.IQ3_XXS, gguf.IQ3_S, gguf.MXFP4, gguf.IQ4_XS, gguf.IQ4_NL, gguf.NVFP4, gguf.Q4_0,
		gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K},
		true, "", ""},
	IK: {[]gguf.Type{gguf.Q1_0, gguf.IQ2_BN, gguf.MXFP4, gguf.IQ4_XS, gguf.IQ4_NL, gguf.Q4_0,
		gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K}, false,
		"bitnet-b1.58", ""},
	BitnetCpp: {[]gguf.Type{gguf.I2_S, gguf.IQ4_XS, gguf.IQ4_NL, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1,
		gguf.Q8_0, gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K}, false, "bitnet-b1.58",
		"run the file with bitnet.cpp's own llama.cpp of 2024, which computes squared ReLU for architecture " +
			"bitnet-b1.58; newer ones were seen to compute SiLU (microsoft/BitNet issue 588)"},
}

func (d Dialect) open() (dialect, error) {
	if d == "" {
		d = LlamaCpp
	}
	known, ok := dialects[d]
	if !ok {
		return known, fmt.Errorf("%w: dialect %q; must be one of %s", pack.ErrUnsupported, d,
			strings.Join(Dialects(), ", "))
	}
	return known, nil
}
