// Package model says what a config.json and the tensor names of a checkpoint mean.
//
// One file per family maps its keys and names to a Description; the plan of convert, the reference model and the engine
// build from the Description alone and never ask for a family by name.
package model

import (
	"regexp"
	"strings"
)

// Description of a decoder-only transformer.
type Description struct {
	Family string // "bitnet", "llama", …
	Config
	Embed     string  // [Vocab, Hidden]
	Positions string  // [MaxPositions + FirstPosition, Hidden]: added to the embeddings; "" = none (GPT-2, OPT)
	EmbedNorm Norm    // of the embeddings (BLOOM)
	FinalNorm Norm    // [Hidden]
	Head      string  // [Vocab, Hidden]; equal to Embed when tied
	HeadBias  string  // [Vocab]; "" = none (Phi)
	Blocks    []Block // one per layer
	Quant     Quant   // what the checkpoint declares about its linear layers

	// Outside lists prefixes of the tensors of parts that are not described: the vision tower of a model whose text
	// part this is.
	Outside []string
	// Spare are tensors that the model does not use; a checkpoint may have them.
	Spare []Spare

	// Unread lists the unknown keys of config.json, as "object.key" for keys of an object: the author may mean a
	// different model by them.
	Unread []string
}

// Spare names tensors that a checkpoint has for other uses than the next token, by their common prefix.
type Spare struct{ Prefix, Use string }

// Config holds the numbers of a Description. Zero means absent where a comment says so.
type Config struct {
	Hidden, Intermediate, Layers int
	Heads, KVHeads, HeadDim      int
	Global                       *HeadShape // of blocks that are not Local; nil = as in all blocks (Gemma 4)
	Vocab, MaxPositions          int
	NormEps                      float32
	Rope                         Rope
	Activation                   Activation
	GateAlpha, GateLimit         float32 // of ClampedSwiGLU
	// attention span in tokens, including the token's own position; 0 = unlimited. Applies to blocks with Block.Local
	SlidingWindow int
	Chunked       bool    // spans of these blocks start at multiples of SlidingWindow instead (Llama 4)
	LayerNorm     bool    // norms subtract the mean (N40); otherwise they are RMSNorms
	NormPlusOne   bool    // norms multiply by 1 + w (Gemma, Nemotron)
	EmbedScale    float32 // 0 = none; embeddings are multiplied by it (Gemma, Granite, MiniCPM)
	FirstPosition int     // row of Positions that belongs to the first token (OPT)
	ALiBi         bool    // scores grow with the position of the key, by a slope per head (BLOOM)
	// 0 = none; the output of a block is multiplied by it before the residual addition (Granite, MiniCPM)
	ResidualScale             float32
	Parallel                  bool    // attention and MLP read the same residual stream (Cohere, Phi)
	LogitDivisor              float32 // 0 = none; logits are divided by it (Granite, MiniCPM)
	LogitScale                float32 // 0 = none; logits are multiplied by it (Cohere)
	ClipQKV                   float32 // 0 = none; queries, keys and values lie within ± it (OLMo)
	HeadNorm                  HeadNorm
	Latent                    *Latent      // nil = keys and values of each head are cached
	Streams                   *Streams     // nil = one residual stream
	LayerInputs               *LayerInputs // nil = none
	RotateFirst               bool         // QNorm and KNorm follow the rotation (HunYuan)
	AttnScale                 float32      // 0 = 1/sqrt(HeadDim)
	AttnSoftcap, LogitSoftcap float32      // 0 = none; c·tanh(x/c)
	BOS                       int          // −1 = none
	EOS                       []int
}

// HeadShape is the number and size of the key/value heads of a block (NUMERICS N75). Queries have the same size.
type HeadShape struct{ KVHeads, HeadDim int }

// HeadShape returns that of a block.
func (c *Config) HeadShape(b *Block) HeadShape {
	if c.Global != nil && !b.Local {
		return *c.Global
	}
	return HeadShape{c.KVHeads, c.HeadDim}
}

// AttentionInputs is the number of outputs of the query, key and value linear layers of a block for a token; with
// latent attention those of all queries, of the latent vector, and of the key that heads share.
func (c *Config) AttentionInputs(b *Block) int {
	shape := c.HeadShape(b)
	if b.MLA != nil {
		return c.Heads*(c.Latent.Nope+c.Rope.Dim) + shape.HeadDim
	}
	return (c.Heads + 2*shape.KVHeads) * shape.HeadDim
}

// HeadShapes lists those of all blocks, once each.
func (c *Config) HeadShapes() []HeadShape {
	list := []HeadShape{{c.KVHeads, c.HeadDim}}
	if c.Global != nil {
		list = append(list, *c.Global)
	}
	return list
}

// Latent is multi-head latent attention (NUMERICS N51). The KV cache holds one vector per token for all heads: Rank
// values, of which keys and values of the heads are products, and the rotated values of all keys. KVHeads is 1, and
// HeadDim is Rank and Rope.Dim together.
type Latent struct {
	Rank        int
	Nope, Value int     // values of a key that do not rotate, and of a value, per head
	NormEps     float32 // of the norms in front of QUp and KVUp
	// 0 = none; scores are multiplied by the square of 1 + MScale·ln(Factor)/10
	MScale, Factor float64
}

// HeadNorm is what QNorm and KNorm normalize.
type HeadNorm string

// The forms of head norms.
const (
	EachHead  HeadNorm = ""      // each head, all with the same HeadDim weights
	WholeHead HeadNorm = "whole" // all heads at once (OLMo 2)
	OwnHead   HeadNorm = "own"   // each head with its own weights, [heads, HeadDim] (Cohere, StableLM)
)

// Activation is the activation function of an MLP (NUMERICS N19).
type Activation string

// The activations.
const (
	SiLU          Activation = "silu"
	ReLU2         Activation = "relu2"     // the square of ReLU (BitNet)
	GELUTanh      Activation = "gelu_tanh" // GELU by its tanh approximation (Gemma)
	GELU          Activation = "gelu"      // by the error function (GPT-NeoX)
	ReLU          Activation = "relu"      // OPT
	XIELU         Activation = "xielu"     // with parameters per block (Apertus)
	ClampedSwiGLU Activation = "clamped_swiglu"
)

// Rope is the rotary embedding. Scaling applies to Theta, not to LocalTheta.
type Rope struct {
	Pairs      bool // values 2i and 2i + 1 rotate together; otherwise i and i + Dim/2
	Theta      float64
	LocalTheta float64 // 0 = Theta; base for blocks with Block.Local (Gemma 3)
	Dim        int     // rotated values per head; HeadDim unless the rotation is partial
	LocalDim   int     // 0 = Dim; of blocks with Block.Local, where LocalTheta is not 0 (Gemma 4)
	Rotating   int     // 0 = Dim; values per head whose pairs have a frequency, from the first: others have 0 (Gemma 4)
	// llama3 scaling; Factor 0 = none
	Factor, LowFreqFactor, HighFreqFactor float64
	OriginalMaxPositions                  int
	Alpha                                 float64 // 0 = none; the base is Theta·Alpha^(Dim/(Dim − 2)) (HunYuan)
	// linear scaling of positions; 0 = none
	Linear   float64
	Yarn     *Yarn     // nil = none
	LongRope *LongRope // nil = none
	// 0 = none; the base is Theta·a^(Dim/(Dim − 2)) with a = Dynamic·(n / OriginalMaxPositions) − (Dynamic − 1) for a
	// text of n tokens, more than OriginalMaxPositions
	Dynamic float64
	// 0 = none; rotated queries are multiplied by 1 + QueryBeta·ln(1 + ⌊p / OriginalMaxPositions⌋) (Ministral 3)
	QueryBeta float64
	// 0 = none; queries that do not rotate are multiplied by 1 + StillBeta·ln(1 + ⌊(p + 1) / StillSpan⌋) (Llama 4)
	StillBeta float64
	StillSpan int
}

// Yarn stretches slow pairs by Factor, leaves fast ones alone, and blends between (arXiv 2309.00071).
type Yarn struct {
	Factor             float64
	BetaFast, BetaSlow float64 // rotations within OriginalMaxPositions at which the blend starts and ends
	Whole              bool    // the ends of the blend are rounded to whole pairs
	Attention          float64 // cosines and sines are multiplied by it; 0 = m(1), with m(x) = 1 + x·ln(Factor)/10
	// if not 0, and Attention is, they are multiplied by m(MScale)/m(MScaleAllDim)
	MScale, MScaleAllDim float64
}

// LongRope divides each frequency by its own factor (arXiv 2402.13753): by Short in texts of up to OriginalMaxPositions
// tokens, by Long in longer ones.
type LongRope struct {
	Short, Long []float64 // one per pair; Long nil = Short in all texts
	Extension   float64   // positions that the long factors reach, over OriginalMaxPositions
	Attention   float64   // as in Yarn; 0 = sqrt(1 + ln(Extension)/ln(OriginalMaxPositions))
}

// Stage numbers the rotations of a text of n tokens, where they depend on n (NUMERICS N67): 0 for all texts of up to
// OriginalMaxPositions tokens.
func (r *Rope) Stage(n int) int {
	switch {
	case n <= r.OriginalMaxPositions || !r.Staged():
		return 0
	case r.Dynamic != 0:
		return n
	}
	return 1
}

// Staged reports whether rotations depend on the length of the text.
func (r *Rope) Staged() bool { return r.Dynamic != 0 || r.LongRope != nil && r.LongRope.Long != nil }

// FixedPositions is the number of positions of texts whose rotations do not depend on their length.
func (c *Config) FixedPositions() int {
	if c.Rope.Staged() {
		return min(c.MaxPositions, c.Rope.OriginalMaxPositions)
	}
	return c.MaxPositions
}

// Linear names one matrix of a block and its optional bias.
type Linear struct {
	Weight string // name of the tensor, shape [Out, In]
	Bias   string // "" = none; [rows of the tensor], for experts [Experts, rows of the tensor]
	In     int
	Out    int
	Scale  float32 // 0 = none; the outputs, bias included, are multiplied by it (Falcon-H1)
	Rows   Rows    // rows of the stored tensor that belong to this layer; zero value = all (fused tensors: Phi-3)

	// Experts is the number of experts, 0 = a single matrix. With experts the tensor has the shape [Experts, Out, In],
	// and Rows applies to each of them. A checkpoint may have one tensor per expert instead: Each is their name, with *
	// for the number; "" = it has not.
	Experts int
	Each    string

	// Turned says that the tensor is transposed, [In, Out] or [Experts, In, Out], as in GPT-2 and gpt-oss with floats.
	Turned bool
}

// Rows is a range [From, To) of rows of a stored tensor; with a Step the first Run rows of every Step ones, 1 if Run is
// 0: every second row (gpt-oss), or those of each head (GPT-NeoX).
type Rows struct{ From, To, Step, Run int }

// steps returns Step and Run, 1 where they are not given.
func (r Rows) steps() (step, run int) { return max(r.Step, 1), max(r.Run, 1) }

// Len is the number of rows.
func (r Rows) Len() int {
	step, run := r.steps()
	return (r.To-r.From)/step*run + min((r.To-r.From)%step, run)
}

// At is row i of them in the tensor.
func (r Rows) At(i int) int {
	step, run := r.steps()
	return r.From + i/run*step + i%run
}

// Index is the inverse of At; false for rows of the tensor that are not among them.
func (r Rows) Index(row int) (int, bool) {
	step, run := r.steps()
	at := row - r.From
	return at/step*run + at%step, row >= r.From && row < r.To && at%step < run
}

// Norm names the tensors of a norm (NUMERICS N13, N40). The zero value skips the step.
type Norm struct {
	Weight string // if it contains a *, each head has its own tensor, and * stands for its number (StableLM)
	Bias   string // "" = none
	Bare   bool   // neither: the vector is normalized only (OLMo)
}

// Skipped reports whether there is no such norm.
func (n Norm) Skipped() bool { return n == Norm{} }

// Of returns the weights of the norm of a head, if each has its own tensor.
func (n Norm) Of(head int) string { return expertName(n.Weight, head) }

// Apart reports whether each head has its own tensor.
func (n Norm) Apart() bool { return strings.Contains(n.Weight, "*") }

// Block names the tensors of one layer. An empty name means that the step is skipped.
type Block struct {
	AttnNorm     Norm
	Q, K, V, O   Linear // empty in a block without attention
	AttnGate     Linear // its sigmoid multiplies the output of attention (NUMERICS N63); empty = none
	MLA          *MLA   // of a model with Latent: K makes the latent vector, and V is empty
	Mixer        *Mixer // recurrent layer in place of attention, or beside it (Falcon-H1); nil = none
	QNorm, KNorm Norm   // over each head, or all (Qwen3, Gemma 3, OLMo 2)
	AttnSubNorm  Norm   // before O (BitNet)
	Sinks        string // [Heads]: attention sink per head (gpt-oss)
	AttnPostNorm Norm   // on the output of O, before the residual (Gemma 2)
	FFNNorm      Norm   // in a parallel model with one norm the same as AttnNorm
	Gate         Linear // empty if the MLP is not gated, or if there are only Experts
	Up           Linear // empty if there are only Experts
	Down         Linear
	Experts      *Experts   // nil = a dense MLP
	ActParams    *ActParams // of XIELU
	FFNSubNorm   Norm       // before Down (BitNet)
	FFNPostNorm  Norm
	VNorm        Norm        // over each value head (Gemma 3n)
	KVOf         int         // number of the block, from 1, whose keys and values this one reads; 0 = its own
	Sparsity     float32     // share of the gates of the MLP that are cut to zero (STREAMS N71)
	AltUp        *AltUp      // with Streams
	Laurel       *Laurel     // nil = none
	LayerInput   *LayerInput // with LayerInputs
	Scalar       string      // [1]: the residual stream is multiplied by it behind the block (Gemma 4); "" = none
	KeysAsValues bool        // V is empty: values are the outputs of K before norm and rotation (Gemma 4)
	Local        bool        // sliding-window attention
	NoRope       bool        // queries and keys are not rotated (SmolLM3, EXAONE 4)
}

// MLA names the further tensors of multi-head latent attention.
type MLA struct {
	QNorm  Norm   // in front of QUp
	QUp    Linear // empty: Q makes the queries
	KVNorm Norm   // of the first Latent.Rank values of K
	KVUp   string // [Heads·(Nope + Value), Rank]; floats
}

// ActParams names the parameters of XIELU (NUMERICS N42), one number each.
type ActParams struct{ AlphaP, AlphaN, Beta, Eps string }

// Quant is what a checkpoint declares about the weights of its linear layers.
type Quant struct {
	Declared Declared
	// ScaleDivides: a stored weight_scale is 1/mean|W| and divides (bitlinear); otherwise it multiplies.
	ScaleDivides bool
	// Masters is what config.json says of weights that are Masters: "w_bits is 0".
	Masters string
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
	// Masters: floats that a program of training quantizes before each product, unless they are quantized already.
	Masters Declared = "master weights"
	// Imported: codes of another format; package quantized knows which modules have them.
	Imported Declared = "imported"
)

// attention returns the linear layers of the attention of a block, if it has any, in evaluation order.
func (b *Block) attention() []*Linear {
	switch x := b.MLA; {
	case !b.HasAttention():
		return nil
	case b.KVOf != 0:
		return []*Linear{&b.Q, &b.O}
	case b.KeysAsValues:
		return []*Linear{&b.Q, &b.K, &b.O}
	case x == nil && b.AttnGate.Weight != "":
		return []*Linear{&b.Q, &b.AttnGate, &b.K, &b.V, &b.O}
	case x == nil:
		return []*Linear{&b.Q, &b.K, &b.V, &b.O}
	case x.QUp.Weight == "":
		return []*Linear{&b.Q, &b.K, &b.O}
	default:
		return []*Linear{&b.Q, &x.QUp, &b.K, &b.O}
	}
}

// Linears returns the linear layers of a block in evaluation order.
func (b *Block) Linears() []*Linear {
	list := b.attention()
	if x := b.Laurel; x != nil {
		list = append(list, &x.Left, &x.Right)
	}
	if m := b.Mixer; m != nil {
		list = append(list, m.inputs()...)
		if m.Selective != nil {
			list = append(list, &m.Selective.Params)
		}
		list = append(list, &m.Out)
	}
	if m := b.Experts; m != nil {
		list = append(list, &m.Gate, &m.Up, &m.Down)
	}
	if b.Gate.Weight != "" {
		list = append(list, &b.Gate)
	}
	if b.Up.Weight != "" {
		list = append(list, &b.Up, &b.Down)
	}
	if x := b.LayerInput; x != nil {
		list = append(list, &x.Gate, &x.Projection)
	}
	return list
}
