package hf

import (
	"fmt"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// Architecture describes how llama.cpp stores models of a family of package model.
type Architecture struct {
	Name    string // general.architecture
	PlusOne bool   // norms are stored as 1 + w
	Scales  bool   // .scale tensors apply to all matrices of blocks
	NoHead  bool   // output.weight is ignored: the head is the embedding
	OwnHead bool   // output.weight is required

	Experts    bool // all blocks are mixtures of experts
	Normalizes bool // weights of the chosen experts sum to 1

	permuted bool
	family   *family
}

// ArchitectureOf returns the architecture of a family of package model.
func ArchitectureOf(name string) (Architecture, error) {
	arch := map[string]string{"mistral": "llama", "bitnet-1bitllm": "bitnet"}[name]
	if arch == "" {
		arch = name
	}
	for i := range families {
		f := &families[i]
		if f.arch != arch && f.modelType != arch {
			continue
		}
		return Architecture{
			Name: f.arch, PlusOne: f.plusOne, permuted: f.permuted, family: f,
			Experts: f.experts, Normalizes: f.normalizes, OwnHead: f.ownHead,
			Scales: f.arch == "llama" || f.arch == "qwen3" || f.arch == "bitnet",
			NoHead: strings.HasPrefix(f.arch, "bitnet") || f.arch == "gemma" || f.arch == "gemma2",
		}, nil
	}
	return Architecture{}, fmt.Errorf("%w: family %s has no supported llama.cpp architecture: must be one of %s",
		pack.ErrUnsupported, name, architectures())
}

// otherNames maps modules of the first BitNet that later ones name differently.
var otherNames = map[string]string{"self_attn.inner_attn_ln": "attn_sub_norm", "mlp.ffn_layernorm": "ffn_sub_norm"}

// Store returns the stored name of a checkpoint tensor and the number of heads in which its rows are permuted, 0 = not
// permuted.
func (a Architecture) Store(tensor string, heads, kvHeads int) (name string, permuted int, err error) {
	for name, outer := range outerNames {
		if outer == tensor {
			return name, 0, nil
		}
	}
	rest, ok := strings.CutPrefix(tensor, "model.layers.")
	number, rest, ok2 := strings.Cut(rest, ".")
	for part, whole := range a.family.names {
		if whole == rest {
			return "blk." + number + "." + part, 0, nil
		}
	}
	dot := strings.LastIndexByte(rest, '.')
	if ok && ok2 && dot > 0 {
		if part := a.part(rest[:dot]); part != "" {
			return "blk." + number + "." + part + rest[dot:], a.heads(part, heads, kvHeads), nil
		}
	}
	return "", 0, fmt.Errorf("%w: unexpected tensor %q for architecture %s of llama.cpp", pack.ErrUnsupported,
		tensor, a.Name)
}

// part returns the GGUF name of a module of a block; "" = unknown.
func (a Architecture) part(module string) string {
	for part, name := range a.family.names {
		if name == module {
			return part
		}
	}
	for part, name := range blockNames {
		if _, other := a.family.names[part]; name == module && !other {
			return part
		}
	}
	return otherNames[module]
}

func (a Architecture) heads(part string, heads, kvHeads int) int {
	switch {
	case a.permuted && part == "attn_q":
		return heads
	case a.permuted && part == "attn_k":
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
