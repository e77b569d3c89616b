// Package model says what a config.json and the tensor names of a checkpoint mean.
//
// One file per family maps its keys and names to a Description; the plan of convert, the reference model and the engine
// build from the Description alone and never ask for a family by name.
package model

import "regexp"

// Description of a decoder-only transformer.
type Description struct {
	Family string // "bitnet", "llama", …
	Config
	Embed     string  // [Vocab, Hidden]
	FinalNorm string  // [Hidden]
	Head      string  // [Vocab, Hidden]; equal to Embed when tied
	Blocks    []Block // one per layer
	Quant     Quant   // what the checkpoint declares about its linear layers

	// Unread lists the unknown keys of config.json, as "object.key" for keys of an object: the author may mean a
	// different model by them.
	Unread []string
}

// Config holds the numbers of a Description. Zero means absent where a comment says so.
type Config struct {
	Hidden, Intermediate, Layers int
	Heads, KVHeads, HeadDim      int
	Vocab, MaxPositions          int
	NormEps                      float32
	Rope                         Rope
	Activation                   Activation
	GateAlpha, GateLimit         float32 // of ClampedSwiGLU
	// attention span in tokens, including the token's own position; 0 = unlimited. Applies to blocks with Block.Local
	SlidingWindow int
	NormPlusOne   bool    // RMSNorm multiplies by 1 + w (Gemma)
	EmbedScale    float32 // 0 = none; embeddings are multiplied by it (Gemma, Granite, MiniCPM)
	// 0 = none; the output of a block is multiplied by it before the residual addition (Granite, MiniCPM)
	ResidualScale             float32
	LogitDivisor              float32 // 0 = none; logits are divided by it (Granite, MiniCPM)
	WholeHeadNorms            bool    // QNorm and KNorm are norms over all heads at once (OLMo 2)
	RotateFirst               bool    // QNorm and KNorm follow the rotation (HunYuan)
	AttnScale                 float32 // 0 = 1/sqrt(HeadDim)
	AttnSoftcap, LogitSoftcap float32 // 0 = none; c·tanh(x/c)
	BOS                       int     // −1 = none
	EOS                       []int
}

// Activation is the activation function of a gated MLP (NUMERICS N19).
type Activation string

// The activations.
const (
	SiLU          Activation = "silu"
	ReLU2         Activation = "relu2"     // the square of ReLU (BitNet)
	GELUTanh      Activation = "gelu_tanh" // GELU by its tanh approximation (Gemma)
	ClampedSwiGLU Activation = "clamped_swiglu"
)

// Rope is the rotary embedding, half-split form. Scaling applies to Theta, not to LocalTheta.
type Rope struct {
	Theta      float64
	LocalTheta float64 // 0 = Theta; base for blocks with Block.Local (Gemma 3)
	Dim        int     // rotated values per head; HeadDim unless the rotation is partial
	// llama3 scaling; Factor 0 = none
	Factor, LowFreqFactor, HighFreqFactor float64
	OriginalMaxPositions                  int
	Alpha                                 float64 // 0 = none; the base is Theta·Alpha^(Dim/(Dim − 2)) (HunYuan)
	// linear scaling of positions; 0 = none
	Linear   float64
	Yarn     *Yarn     // nil = none
	LongRope *LongRope // nil = none
}

// Yarn stretches slow pairs by Factor, leaves fast ones alone, and blends between (arXiv 2309.00071).
type Yarn struct {
	Factor             float64
	BetaFast, BetaSlow float64 // rotations within OriginalMaxPositions at which the blend starts and ends
	Whole              bool    // the ends of the blend are rounded to whole pairs
	Attention          float64 // cosines and sines are multiplied by it; 0 = 1 + ln(Factor)/10
}

// LongRope divides each frequency by its own factor (arXiv 2402.13753). The factors for short contexts apply here, so
// MaxPositions is OriginalMaxPositions: with the long factors, all earlier keys would have to be rotated again.
type LongRope struct {
	Short     []float64 // one per pair
	Extension float64   // positions that the long factors reach, over OriginalMaxPositions
	Attention float64   // as in Yarn; 0 = sqrt(1 + ln(Extension)/ln(OriginalMaxPositions))
}

// Linear names one matrix of a block and its optional bias.
type Linear struct {
	Weight string // name of the tensor, shape [Out, In]
	Bias   string // "" = none; [Out], for experts [Experts, rows of the tensor], and then Rows applies to both
	In     int
	Out    int
	Rows   Rows // rows of the stored tensor that belong to this layer; zero value = all (fused tensors: Phi-3)

	// Experts is the number of experts, 0 = a single matrix. With experts the tensor has the shape [Experts, Out, In],
	// and Rows applies to each of them. A checkpoint may have one tensor per expert instead: Each is their name, with *
	// for the number; "" = it has not.
	Experts int
	Each    string

	// Turned says that the tensor is transposed, [Experts, In, Out], as in gpt-oss with floats.
	Turned bool
}

// Rows is a range [From, To) of rows of a stored tensor; with a Step of 2 every second row.
type Rows struct{ From, To, Step int }

// Len is the number of rows.
func (r Rows) Len() int { return (r.To - r.From + max(r.Step, 1) - 1) / max(r.Step, 1) }

// HeadNorms returns the sizes of QNorm and KNorm.
func (c *Config) HeadNorms() (q, k int) {
	if c.WholeHeadNorms {
		return c.Heads * c.HeadDim, c.KVHeads * c.HeadDim
	}
	return c.HeadDim, c.HeadDim
}

// Block names the tensors of one layer. An empty name means that the step is skipped.
type Block struct {
	AttnNorm     string
	Q, K, V, O   Linear
	QNorm, KNorm string // RMSNorm over each head, or all (Qwen3, Gemma 3, OLMo 2)
	AttnSubNorm  string // RMSNorm before O (BitNet)
	Sinks        string // [Heads]: attention sink per head (gpt-oss)
	AttnPostNorm string // RMSNorm on the output of O, before the residual (Gemma 2)
	FFNNorm      string
	Gate, Up     Linear // empty if there are only Experts
	Down         Linear
	Experts      *Experts // nil = a dense MLP
	FFNSubNorm   string   // RMSNorm before Down (BitNet)
	FFNPostNorm  string
	Local        bool // sliding-window attention
	NoRope       bool // queries and keys are not rotated (SmolLM3, EXAONE 4)
}

// Quant is what a checkpoint declares about the weights of its linear layers.
type Quant struct {
	Declared Declared
	// ScaleDivides: a stored weight_scale is 1/mean|W| and divides (bitlinear); otherwise it multiplies.
	ScaleDivides bool
	// Float names the linear layers that stay floats (modules_to_not_convert), see Keeps.
	Float    []string
	patterns []*regexp.Regexp // of Float, for prefix matches
}

// Declared is the kind of weights that a config.json declares.
type Declared string

// The kinds. Packed and AbsMean follow from quantization_config or from the family itself; with Nothing the data
// decides.
const (
	Nothing Declared = ""        // floats, without any declaration
	Packed  Declared = "packed"  // U8 codes, four rows per byte, with weight_scale
	AbsMean Declared = "absmean" // float master weights, trained to be used as absmean ternary
	// Imported: codes of another format; package quantized knows which modules have them.
	Imported Declared = "imported"
)

// Linears returns the linear layers of a block in evaluation order.
func (b *Block) Linears() []*Linear {
	list := []*Linear{&b.Q, &b.K, &b.V, &b.O}
	if m := b.Experts; m != nil {
		list = append(list, &m.Gate, &m.Up, &m.Down)
	}
	if b.Gate.Weight != "" {
		list = append(list, &b.Gate, &b.Up, &b.Down)
	}
	return list
}
