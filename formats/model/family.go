package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/suggest"
	"github.com/lowpack/lowpack/pack"
)

// Info describes a family of models for lists and error messages.
type Info struct {
	Name          string   // as in Description.Family
	Architectures []string // values of `architectures` in config.json
	// values of `model_type` that belong to them, and identify the family if no architecture is given
	Types  []string
	Models string // well-known models, for a list
	Text   bool   // the text part of models that read images
}

type family struct {
	Info
	also     []string // further values of `model_type` in files that give the architecture
	defaults defaults
	bos, eos int // default tokens without generation_config.json; 0 = none
	// it reads use_bidirectional_attention and per_layer_config, which other families refuse
	layered  bool
	describe func(k *keys, has shapes) *Description
}

// shapes looks a tensor up. Without a checkpoint (nil) every tensor may be assumed to exist.
type shapes func(tensor string) (shape []int, ok bool)

// exists reports whether the tensors contain name; without a list of tensors the answer is absent.
func (s shapes) exists(name string, absent bool) bool {
	if s == nil {
		return absent
	}
	_, ok := s(name)
	return ok
}

// families in the order in which users see them; one file each.
var families = []family{bitnet, bitnet158, llama, mobilellm, mistral, ministral, ministral3, mixtral, qwen2, qwen2moe,
	qwen3, qwen3moe, phi, phi3, gemma, gemma2, gemma3, smollm3, granite, granitemoe, gptoss, olmo, olmo2, olmo3, olmoe,
	exaone4, hunyuan, minicpm, seedoss, cwm, arcee, ernie45, helium, glm, glm4, nemotron, starcoder2, stablelm, cohere,
	cohere2, apertus, qwen2vl, qwen25vl, qwen3vl, idefics3, smolvlm, mistral3, hunyuanMoE, dots1, glm4moe, ernieMoE,
	deepseek2, deepseek3, lfm2, lfm2moe, granitehybrid, bamba, gemma3vl,
	qwen3vlmoe, gpt2, gptneox, opt, bloom,
	qwen3next, qwen35, qwen35moe, qwen35vl, qwen35moevl,
	phimoe, falconH1, mamba2, llama4, llama4vl,
	gemma3n, gemma3nvl, minimaxM2, mamba, falconMamba, jamba,
	gemma4, gemma4vl, gemma4unified, gemma4unifiedvl}

//go:generate go run ../../internal/testkit/modeldocs ../../docs/MODELS.md ../../testdata/transformers

// Families lists the model families that Parse supports.
func Families() []Info {
	out := make([]Info, len(families))
	for i, f := range families {
		out[i] = f.Info
	}
	return out
}

// refusedFamilies are models of few bits under names of their own, by the beginning of an architecture or model_type in
// lower case, each with the reason.
var refusedFamilies = []struct{ prefix, why string }{{"bitnet2", noBitNet2}, {"bitnetv2", noBitNet2}}

const noBitNet2 = "the code of BitNet v2, which rotates the inputs of o_proj and down_proj, is not published, so " +
	"that nothing says what such weights stand for"

// find selects the family by architecture, or by model type if no architecture is given: some families share a type. If
// the two name different families the file is rejected: transformers builds the model of the type, and the weights may
// belong to another.
func find(architectures []string, modelType string) (*family, error) {
	for i := range families {
		f := &families[i]
		for _, a := range architectures {
			if slices.Contains(f.Architectures, a) || slices.Contains(f.Architectures, withHead(a)) {
				return f, f.agrees(a, modelType)
			}
		}
		if len(architectures) == 0 && slices.Contains(f.Types, modelType) {
			return f, nil
		}
	}
	name := cmp.Or(strings.Join(architectures, ", "), modelType)
	if name == "" {
		return nil, fmt.Errorf("%w: neither architectures nor model_type is given", pack.ErrCorrupt)
	}
	var known []string
	for _, f := range families {
		known = append(known, f.Architectures...)
	}
	for _, r := range refusedFamilies {
		if slices.ContainsFunc(append(architectures, modelType), func(s string) bool {
			return strings.HasPrefix(strings.ToLower(s), r.prefix)
		}) {
			return nil, fmt.Errorf("%w: model architecture %q: %s", pack.ErrUnsupported, name, r.why)
		}
	}
	return nil, fmt.Errorf("%w: model architecture %q; supported are %s%s", pack.ErrUnsupported, name, list(known),
		meant(name, known))
}

// withHead returns the architecture that makes logits of a base model: AutoModel of transformers saves Qwen3ForCausalLM
// as Qwen3Model, as checkpoints of embedding models are.
func withHead(architecture string) string {
	if base, ok := strings.CutSuffix(architecture, "Model"); ok {
		return base + "ForCausalLM"
	}
	return architecture
}

// meant suggests an architecture. The suffix that nearly all share is ignored in the comparison.
func meant(name string, known []string) string {
	const end = "ForCausalLM"
	var names []string
	for _, k := range known {
		names = append(names, strings.TrimSuffix(k, end))
	}
	word := suggest.DidYouMean(strings.TrimSuffix(name, end), names)
	if strings.HasSuffix(word, "ForConditionalGeneration?)") {
		return word
	}
	return strings.Replace(word, "?)", end+"?)", 1)
}

// agrees rejects a model_type that does not belong to the architecture.
func (f *family) agrees(architecture, modelType string) error {
	if modelType == "" || slices.Contains(f.Types, modelType) || slices.Contains(f.also, modelType) {
		return nil
	}
	return fmt.Errorf("%w: model_type %q does not go with architecture %s, and transformers would go by model_type; "+
		"correct the wrong one", pack.ErrUnsupported, modelType, architecture)
}
