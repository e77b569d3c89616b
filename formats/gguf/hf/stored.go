package hf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// Architecture describes how llama.cpp stores and computes models of a family of package model.
type Architecture struct {
	Name       string           // general.architecture
	Activation model.Activation // of MLPs, whatever a file says
	PlusOne    bool             // norms are stored as 1 + w
	Scales     bool             // .scale tensors apply to all matrices of blocks
	Alone      bool             // not compared with the llama.cpp of other programs
	Experts    bool             // blocks are mixtures of experts
	Keys       []string         // keys of its own, after the name of the architecture

	family *family
}

// otherFamilies maps families of package model to the model_type of another one that is stored in the same way, or to
// their own.
var otherFamilies = map[string]string{"mistral": "llama", "bitnet-1bitllm": "bitnet", "hunyuan": "hunyuan_v1_dense",
	"hunyuan_moe": "hunyuan_v1_moe"}

// ArchitectureOf returns the architecture of a family of package model, or the one of a name of its own.
func ArchitectureOf(name string) (Architecture, error) {
	kind := cmp.Or(otherFamilies[name], name)
	at := slices.IndexFunc(families, func(f family) bool { return f.modelType == kind })
	if at < 0 {
		at = slices.IndexFunc(families, func(f family) bool { return f.arch == kind })
	}
	if at < 0 {
		return Architecture{}, fmt.Errorf("%w: family %s has no supported llama.cpp architecture: must be one of %s",
			pack.ErrUnsupported, name, architectures())
	}
	f := &families[at]
	return Architecture{
		Name: f.arch, Activation: cmp.Or(f.computes, activations[f.activation]), PlusOne: f.plusOne, Scales: f.scales,
		Alone: f.alone, Experts: f.experts != nil, Keys: f.keys, family: f,
	}, nil
}

// otherNames maps modules of the first BitNet that later ones name differently, and those of GPT-2 that are transposed.
var otherNames = map[string]string{"self_attn.inner_attn_ln": "attn_sub_norm", "mlp.ffn_layernorm": "ffn_sub_norm",
	"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}

// Store returns the stored name of a checkpoint tensor and the number of heads in which its rows are permuted, 0 = not
// permuted.
func (a Architecture) Store(tensor string, heads, kvHeads int) (name string, permuted int, err error) {
	tensor = strings.TrimPrefix(tensor, "transformer.") // of GPT-2; checkpoints have it or not
	dot := strings.LastIndexByte(tensor, '.')
	if part := a.family.part(outerNames, tensor[:max(dot, 0)]); part != "" && a.family.has(part, tensor[dot:]) {
		return part + tensor[dot:], 0, nil
	}
	rest, ok := strings.CutPrefix(tensor, cmp.Or(a.family.blocks, usualBlocks))
	number, rest, ok2 := strings.Cut(rest, ".")
	for part, whole := range a.family.names {
		if whole == rest {
			return "blk." + number + "." + part, 0, nil
		}
	}
	dot = strings.LastIndexByte(rest, '.')
	if ok && ok2 && dot > 0 {
		part := cmp.Or(a.family.part(blockNames, rest[:dot]), otherNames[rest[:dot]])
		if part != "" && a.family.has(part, rest[dot:]) {
			return "blk." + number + "." + part + rest[dot:], a.heads(part, heads, kvHeads), nil
		}
	}
	return "", 0, fmt.Errorf("%w: unexpected tensor %q for architecture %s of llama.cpp", pack.ErrUnsupported,
		tensor, a.Name)
}

// part returns the GGUF name of a module, with the usual names of those that the family does not name; "" = unknown.
func (f *family) part(usual map[string]string, module string) string {
	if module == "" {
		return ""
	}
	for part, name := range f.names {
		if name == module {
			return part
		}
	}
	for part, name := range usual {
		if _, other := f.names[part]; name == module && !other {
			return part
		}
	}
	return ""
}

// has reports whether llama.cpp reads the tensor of a part that ends in .weight or .bias.
func (f *family) has(part, end string) bool {
	switch _, outer := outerNames[part]; {
	case outer:
		return end == ".weight" || end == ".bias" && f.layerNorm
	case end != ".bias" || f.biases == anyBias || strings.HasSuffix(part, "_norm"):
		return true
	case part == "attn_q" || part == "attn_k" || part == "attn_v":
		return f.biases != noBias
	}
	return part == "attn_output" && f.biases == attentionBiases
}

func (a Architecture) heads(part string, heads, kvHeads int) int {
	switch {
	case a.family.permuted && part == "attn_q":
		return heads
	case a.family.permuted && part == "attn_k":
		return kvHeads
	}
	return 0
}

// IsRouter reports whether a stored tensor is a router of experts or the gate of the shared expert.
func IsRouter(name string) bool { return strings.Contains(name, ".ffn_gate_inp") }

// RowIn returns the stored row of row m in a tensor of rows rows permuted in heads heads; heads = 0: not permuted.
func RowIn(m, rows, heads int) int {
	if heads == 0 {
		return m
	}
	dim := rows / heads
	head, i := m/dim, m%dim
	return head*dim + i%(dim/2)*2 + i/(dim/2)
}
