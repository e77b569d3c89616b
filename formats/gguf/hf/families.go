package hf

import (
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/model"
)

// family describes a llama.cpp architecture and the corresponding Hugging Face model.
type family struct {
	arch         string // general.architecture
	architecture string // in config.json
	modelType    string
	when         func(k *keys) bool // which files are of this model, of models with one architecture; nil = the others
	activation   string
	computes     model.Activation // "" = that of activation
	actKey       string           // key of the activation in config.json
	layerNorm    bool             // norms subtract the mean
	eps          string           // key of the epsilon in config.json; "" = rms_norm_eps, or usualEps of LayerNorms
	permuted     bool             // rows of q and k are interleaved pairs, not halves
	partial      bool             // config.json says which share of a head rotates
	plusOne      bool             // norms are stored as 1 + w
	experts      *mixture         // nil = no experts
	biases       biases           // of linear layers that llama.cpp reads
	head         head             // what llama.cpp knows of output.weight
	square       bool             // heads share the embedding length, whatever attention.key_length is
	scales       bool             // .scale tensors apply to all matrices of blocks
	alone        bool             // not compared with the llama.cpp of other programs
	rope         []string         // tensors with factors of the rotary embedding
	keys         []string         // further keys
	// block tensors with other names than blockNames, and outer ones; with .weight or .bias, complete names; "" = none
	names  map[string]string
	local  layers // blocks with a sliding window
	bases  bool   // these may have a base of rotations of their own
	latent bool   // multi-head latent attention
	convs  bool   // blocks without key/value heads have a short convolution
	xielu  bool   // keys have the parameters of activations, which are tensors of a checkpoint
	blocks string // prefix of the blocks' tensors in checkpoints; "" = usualBlocks
	still  layers // blocks that do not rotate
	// a key may give windows to other blocks than local; then the others do not rotate, in architectures with still
	patterned bool
	more      func(f *File, k *keys, c map[string]any)
	fits      func(d *model.Description) error // further demands of llama.cpp
}

// layers selects blocks of a model; nil = none of them.
type layers func(block, layers int) bool

// biases says which linear layers of a block may have one.
type biases int

const (
	anyBias biases = iota
	noBias
	qkvBias
	attentionBiases // and the output of attention
)

// usualBlocks is the prefix of the tensors of blocks in most checkpoints.
const usualBlocks = "model.layers."

// head is what llama.cpp knows of output.weight.
type head int

const (
	anyHead  head = iota
	ownHead       // it is required
	tiedHead      // it is not read: the head is the embedding
)

// usualEps is the epsilon of LayerNorms that have none in config.json (OLMo).
const usualEps = 1e-5

// families are the supported architectures.
var families = []family{
	{arch: "llama", architecture: "LlamaForCausalLM", modelType: "llama", activation: "silu", permuted: true,
		scales: true, rope: []string{ropeFreqs}, more: llamaConfig},
	{arch: "llama", architecture: "MixtralForCausalLM", modelType: "mixtral", activation: "silu", permuted: true,
		experts: &mixture{normalizes: true}, scales: true, alone: true, names: mixtralNames, rope: []string{ropeFreqs},
		more: mixtralConfig},
	{arch: "qwen2", architecture: "Qwen2ForCausalLM", modelType: "qwen2", activation: "silu"},
	{arch: "qwen3", architecture: "Qwen3ForCausalLM", modelType: "qwen3", activation: "silu", scales: true,
		more: attentionBias},
	{arch: "phi3", architecture: "Phi3ForCausalLM", modelType: "phi3", activation: "silu", partial: true,
		names: phi3Names, keys: []string{slidingWindow}, rope: []string{ropeLong, ropeShort}, more: phi3Config},
	{arch: "gemma", architecture: "GemmaForCausalLM", modelType: "gemma", activation: "gelu_pytorch_tanh",
		plusOne: true, head: tiedHead},
	{arch: "gemma2", architecture: "Gemma2ForCausalLM", modelType: "gemma2", activation: "gelu_pytorch_tanh",
		actKey: "hidden_activation", plusOne: true, head: tiedHead, names: postNormNames, keys: gemmaKeys,
		local: allBut(2), more: gemma2Config, fits: queriesScaled(gemma2Largest)},
	{arch: "gemma3", architecture: "Gemma3ForCausalLM", modelType: "gemma3_text", activation: "gelu_pytorch_tanh",
		actKey: "hidden_activation", plusOne: true, names: postNormNames, keys: gemmaKeys, local: allBut(6),
		bases: true, more: gemma3Config, fits: queriesScaled(gemma3Largest)},
	{arch: "minicpm", architecture: "MiniCPMForCausalLM", modelType: "minicpm", activation: "silu", permuted: true,
		keys: []string{embeddingScale, residualScale, logitScale}, rope: []string{ropeFreqs, ropeLong, ropeShort},
		more: minicpmConfig},
	{arch: "qwen2moe", architecture: "Qwen2MoeForCausalLM", modelType: "qwen2_moe", activation: "silu",
		experts: &mixture{}, head: ownHead, alone: true, names: qwenExpertNames, more: qwen2moeConfig},
	{arch: "qwen3moe", architecture: "Qwen3MoeForCausalLM", modelType: "qwen3_moe", activation: "silu",
		experts: &mixture{normalizes: true}, alone: true, names: qwenExpertNames, more: qwen3moeConfig},
	{arch: "olmoe", architecture: "OlmoeForCausalLM", modelType: "olmoe", activation: "silu", experts: &mixture{},
		head: ownHead, alone: true, names: qwenExpertNames, more: olmoeConfig},
	{arch: "granite", architecture: "GraniteForCausalLM", modelType: "granite", activation: "silu", permuted: true,
		keys: graniteKeys, more: graniteConfig},
	{arch: "granitemoe", architecture: "GraniteMoeForCausalLM", modelType: "granitemoe", activation: "silu",
		permuted: true, experts: &mixture{normalizes: true}, alone: true, names: graniteExpertNames, keys: graniteKeys,
		more: granitemoeConfig},
	{arch: "gpt-oss", architecture: "GptOssForCausalLM", modelType: "gpt_oss", activation: "silu",
		computes: model.ClampedSwiGLU, experts: &mixture{normalizes: true}, head: ownHead, alone: true,
		names: gptossNames, keys: []string{slidingWindow}, local: allBut(2), more: gptossConfig,
		fits: clampedAsGptOss},
	{arch: "glm4moe", architecture: "Glm4MoeForCausalLM", modelType: "glm4_moe", activation: "silu", partial: true,
		experts: &mixture{score: model.Sigmoid, keyed: true, silent: true, leading: true, counted: true}, alone: true,
		biases: qkvBias, names: glm4moeNames, more: glm4moeConfig},
	{arch: "deepseek2", architecture: "DeepseekV3ForCausalLM", modelType: "deepseek_v3", when: scored(model.Sigmoid),
		activation: "silu", experts: &mixture{score: model.Sigmoid, keyed: true, leading: true, counted: true},
		alone: true, biases: noBias, latent: true, names: deepseek3Names, keys: latentKeys, more: deepseek3Config,
		fits: fitsLatent},
	{arch: "deepseek2", architecture: "DeepseekV2ForCausalLM", modelType: "deepseek_v2", activation: "silu",
		experts: &mixture{keyed: true, silent: true, leading: true, counted: true}, alone: true, biases: noBias,
		latent: true, names: deepseek2Names, keys: latentKeys, more: deepseek2Config, fits: fitsLatent},
	{arch: "dots1", architecture: "Dots1ForCausalLM", modelType: "dots1", activation: "silu",
		experts: &mixture{score: model.Sigmoid, keyed: true, leading: true, counted: true}, alone: true,
		biases: qkvBias, head: ownHead, names: deepseekExpertNames, more: dots1Config, fits: ownKeys},
	{arch: "minimax-m2", architecture: "MiniMaxM2ForCausalLM", modelType: "minimax_m2", activation: "silu",
		partial: true, experts: &mixture{score: model.Sigmoid, normalizes: true}, alone: true, biases: noBias,
		head: ownHead, names: minimaxNames, more: minimaxConfig},
	{arch: "ernie4_5-moe", architecture: "Ernie4_5_MoeForCausalLM", modelType: "ernie4_5_moe", activation: "silu",
		experts: &mixture{normalizes: true, leading: true, counted: true, every: true}, alone: true, biases: noBias,
		names: ernieExpertNames, more: ernieMoEConfig},
	{arch: "hunyuan-moe", architecture: "HunYuanMoEV1ForCausalLM", modelType: "hunyuan_v1_moe", activation: "silu",
		experts: &mixture{normalizes: true, counted: true}, alone: true, biases: qkvBias, names: hunyuanExpertNames,
		more: hunyuanMoEConfig},
	{arch: "bitnet", architecture: "BitNetForCausalLM", modelType: "bitnet", activation: "silu", scales: true,
		head: tiedHead},
	{arch: "bitnet-b1.58", architecture: "BitNetForCausalLM", modelType: "bitnet", activation: "relu2",
		head: tiedHead},
	{arch: "bitnet-25", architecture: "BitNetForCausalLM", modelType: "bitnet", activation: "relu2", head: tiedHead},
	{arch: "smollm3", architecture: "SmolLM3ForCausalLM", modelType: "smollm3", activation: "silu", permuted: true,
		alone: true, biases: noBias, still: every(4), more: smollm3Config},
	{arch: "olmo2", architecture: "Olmo3ForCausalLM", modelType: "olmo3", when: given(slidingWindow),
		activation: "silu", alone: true, biases: noBias, head: ownHead, square: true, names: onlyPostNormNames,
		keys: []string{slidingWindow, windowPattern}, local: allBut(4), patterned: true,
		more: olmo3Config, fits: oneBase},
	{arch: "olmo2", architecture: "Olmo2ForCausalLM", modelType: "olmo2", activation: "silu", alone: true,
		biases: noBias, head: ownHead, square: true, names: onlyPostNormNames},
	{arch: "seed_oss", architecture: "SeedOssForCausalLM", modelType: "seed_oss", activation: "silu", alone: true,
		biases: qkvBias, names: afterNames, more: biasKey("attention_bias")},
	{arch: "exaone4", architecture: "Exaone4ForCausalLM", modelType: "exaone4", activation: "silu", alone: true,
		biases: noBias, square: true, names: onlyPostNormNames, keys: []string{slidingWindow, windowPattern},
		rope: []string{ropeFreqs}, local: exaoneWindows, still: exaoneStill, patterned: true,
		more: exaone4Config},
	{arch: "hunyuan-dense", architecture: "HunYuanDenseV1ForCausalLM", modelType: "hunyuan_v1_dense",
		activation: "silu", alone: true, biases: noBias, names: hunyuanNames},
	{arch: "arcee", architecture: "ArceeForCausalLM", modelType: "arcee", activation: "relu2", permuted: true,
		alone: true, biases: noBias, rope: []string{ropeFreqs}, more: llamaConfig},
	{arch: "ernie4_5", architecture: "Ernie4_5ForCausalLM", modelType: "ernie4_5", activation: "silu", alone: true,
		biases: noBias},
	{arch: "glm4", architecture: "Glm4ForCausalLM", modelType: "glm4", activation: "silu", alone: true, partial: true,
		biases: qkvBias, names: glm4Names, more: biasKey("attention_bias")},
	{arch: "chatglm", architecture: "GlmForCausalLM", modelType: "glm", activation: "silu", alone: true, partial: true,
		biases: qkvBias, square: true, names: glmNames, more: biasKey("attention_bias")},
	{arch: "command-r", architecture: "CohereForCausalLM", modelType: "cohere", activation: "silu", layerNorm: true,
		eps: "layer_norm_eps", alone: true, biases: noBias, head: tiedHead, square: true, names: oneNormNames,
		keys: []string{logitScale}, more: cohereConfig, fits: cohereNorms},
	{arch: "cohere2", architecture: "Cohere2ForCausalLM", modelType: "cohere2", activation: "silu", layerNorm: true,
		eps: "layer_norm_eps", alone: true, biases: noBias, head: tiedHead, square: true, names: oneNormNames,
		keys: []string{slidingWindow, windowPattern, logitScale}, local: allBut(4), still: every(4),
		patterned: true, more: cohere2Config},
	{arch: "starcoder2", architecture: "Starcoder2ForCausalLM", modelType: "starcoder2",
		activation: "gelu_pytorch_tanh", layerNorm: true, eps: "norm_epsilon", alone: true, square: true,
		names: starcoder2Names, fits: allBiased},
	{arch: "stablelm", architecture: "StableLmForCausalLM", modelType: "stablelm", activation: "silu", layerNorm: true,
		eps: "layer_norm_eps", alone: true, partial: true, biases: qkvBias, head: ownHead, square: true,
		keys: []string{parallelResidual}, more: stablelmConfig},
	{arch: "nemotron", architecture: "NemotronForCausalLM", modelType: "nemotron", activation: "relu2",
		layerNorm: true, eps: "norm_eps", alone: true, partial: true, plusOne: true, head: ownHead, square: true,
		more: nemotronConfig},
	{arch: "olmo", architecture: "OlmoForCausalLM", modelType: "olmo", activation: "silu", layerNorm: true,
		permuted: true, alone: true, biases: noBias, square: true, keys: []string{clampQKV}, more: olmoConfig},
	{arch: "gpt2", architecture: "GPT2LMHeadModel", modelType: "gpt2", activation: "gelu_new",
		actKey: "activation_function", layerNorm: true, eps: "layer_norm_epsilon", alone: true, square: true,
		blocks: "h.", names: gpt2Names, still: every(1), more: gpt2Config, fits: usualScores},
	{arch: "apertus", architecture: "ApertusForCausalLM", modelType: "apertus", activation: "xielu", alone: true,
		biases: attentionBiases, head: ownHead, names: apertusNames, rope: []string{ropeFreqs}, xielu: true,
		more: apertusConfig},
	{arch: "lfm2", architecture: "Lfm2ForCausalLM", modelType: "lfm2", activation: "silu", eps: "norm_eps",
		alone: true, biases: noBias, square: true, convs: true, names: lfm2Names, keys: []string{convWidth},
		more: lfm2Config, fits: fitsConvs},
	{arch: "lfm2moe", architecture: "Lfm2MoeForCausalLM", modelType: "lfm2_moe", activation: "silu", eps: "norm_eps",
		experts: &mixture{score: model.Sigmoid, normalizes: true, leading: true}, alone: true, biases: noBias,
		square: true, convs: true, names: lfm2ExpertNames, keys: []string{convWidth}, more: lfm2moeConfig,
		fits: fitsConvs},
	{arch: "phi2", architecture: "PhiForCausalLM", modelType: "phi", activation: "gelu_new", layerNorm: true,
		eps: "layer_norm_eps", alone: true, partial: true, head: ownHead, square: true, names: phiNames},
}

func architectures() string {
	var names []string
	for _, f := range families {
		if !slices.Contains(names, f.arch) {
			names = append(names, f.arch)
		}
	}
	return strings.Join(names, ", ")
}

// refusedKey returns why a file with this key is rejected; "" = it is not.
func refusedKey(key string) string {
	switch {
	case strings.HasPrefix(key, "prism.hadamard."):
		return "the weights are stored rotated (Hadamard transform), which is not supported"
	case strings.HasPrefix(key, "adapter."):
		return "an adapter, not a model"
	}
	return ""
}
