#!/usr/bin/env python3
"""Miniatures of families with recurrent layers, for forms of their config.json, and their logits in float64 by transformers.

  recurrent.py OUT [FAMILY…]    writes OUT/FORM: config.json as the form has it, weights, tokens.json and logits.npy

Weights are random and have few values near 0 where a model's own initialization would make a layer vanish.
"""
import copy, json, os, sys, warnings

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")
import numpy as np, torch, transformers
from transformers import AutoConfig, AutoModelForCausalLM

transformers.logging.set_verbosity(50)
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
TOKENS = 40

LFM2 = dict(architectures=["Lfm2ForCausalLM"], model_type="lfm2", hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=96, max_position_embeddings=128, norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0, conv_L_cache=3, conv_bias=False,
            block_multiple_of=16, block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=True)
NEW = dict(intermediate_size=96, layer_types=["conv", "full_attention", "conv"], rope_parameters=dict(rope_theta=1e6, rope_type="default"), tie_word_embeddings=True, dtype="float32")
OLD = dict(block_ff_dim=96, full_attn_idxs=[1], rope_theta=1e6, torch_dtype="float32", block_dim=64, conv_dim=64, conv_dim_out=64, num_heads=4, block_norm_eps=1e-5,
           block_use_swiglu=True, block_use_xavier_init=True, conv_use_xavier_init=True, block_mlp_init_scale=1.0, block_out_init_scale=1.0, use_pos_enc=True)


def without(config, *keys):
    return {k: v for k, v in config.items() if k not in keys}


def lfm2():
    new, old = {**LFM2, **NEW}, {**LFM2, **OLD}
    yield "new", new
    yield "old", old
    yield "biases", {**new, "conv_bias": True}
    yield "wide filters", {**old, "conv_L_cache": 5}
    yield "narrow filters", {**new, "conv_L_cache": 2}
    yield "not adjusted", {**new, "block_auto_adjust_ff_dim": False}
    yield "multiplier", {**old, "block_ffn_dim_multiplier": 1.3, "block_multiple_of": 8}
    yield "both widths", {**old, "intermediate_size": 160}
    yield "no convolution", without({**new, "layer_types": None}, "layer_types")
    yield "convolutions alone", {**old, "full_attn_idxs": []}
    yield "own head", {**new, "tie_word_embeddings": False}
    yield "own head, old", {**old, "tie_embedding": False}
    yield "both kinds", {**new, "full_attn_idxs": [0, 1, 2]}
    yield "yarn", {**new, "rope_parameters": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=1e4)}
    yield "defaults", without(new, "norm_eps", "conv_L_cache", "conv_bias", "rope_parameters", "tie_word_embeddings", "block_ffn_dim_multiplier")


GRANITE = dict(architectures=["GraniteMoeHybridForCausalLM"], model_type="granitemoehybrid", hidden_size=64, intermediate_size=80, shared_intermediate_size=96,
               num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, vocab_size=96, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1,
               eos_token_id=2, pad_token_id=0, hidden_act="silu", attention_bias=False, attention_multiplier=0.2, embedding_multiplier=3, logits_scaling=2, residual_multiplier=0.5,
               num_local_experts=0, num_experts_per_tok=0, mamba_n_heads=8, mamba_d_head=16, mamba_d_state=16, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=16,
               mamba_conv_bias=True, mamba_proj_bias=False, tie_word_embeddings=True, position_embedding_type="nope")


def granite():
    new = {**GRANITE, "layer_types": ["linear_attention", "full_attention", "linear_attention"], "rope_parameters": dict(rope_theta=1e4, rope_type="default"), "dtype": "float32",
           "time_step_limit": [0.0, {"__float__": "Infinity"}]}
    old = {**GRANITE, "layer_types": ["mamba", "attention", "mamba"], "rope_theta": 10000, "rope_scaling": None, "torch_dtype": "float32", "init_method": "mup", "normalization_function": "rmsnorm"}
    yield "new", new
    yield "old", old
    yield "block types", without({**old, "layers_block_type": ["attention", "mamba", "attention"]}, "layer_types")
    yield "rope", {**new, "position_embedding_type": "rope"}
    yield "no positions", without(new, "position_embedding_type")
    yield "biases", {**new, "mamba_proj_bias": True, "attention_bias": True}
    yield "no bias", {**new, "mamba_conv_bias": False}
    yield "groups", {**new, "mamba_n_groups": 2, "mamba_n_heads": 4, "mamba_d_head": 32}
    yield "heads by size", {**new, "mamba_d_head": "auto", "mamba_n_heads": 16}
    yield "a wide state", {**new, "mamba_d_state": 24, "mamba_d_conv": 3}
    yield "own head", {**new, "tie_word_embeddings": False}
    yield "Mamba-2 alone", without(new, "layer_types")
    yield "attention alone", {**new, "layer_types": ["full_attention"] * 3}
    yield "defaults", without(new, "mamba_chunk_size", "mamba_conv_bias", "mamba_proj_bias", "mamba_n_groups", "mamba_d_conv", "mamba_expand", "time_step_limit", "rms_norm_eps",
                              "embedding_multiplier", "logits_scaling", "residual_multiplier", "num_key_value_heads", "hidden_act", "tie_word_embeddings")


BAMBA = dict(architectures=["BambaForCausalLM"], model_type="bamba", hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=96, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_act="silu", attn_layer_indices=[1], mamba_n_heads=8,
             mamba_d_head=16, mamba_d_state=16, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=16, mamba_conv_bias=True, mamba_proj_bias=False,
             attention_bias=False, mlp_bias=False, tie_word_embeddings=False)


def bamba():
    new = {**BAMBA, "rope_parameters": dict(rope_theta=1e4, rope_type="default", partial_rotary_factor=0.5), "dtype": "float32", "time_step_limit": [0.0, {"__float__": "Infinity"}]}
    old = {**BAMBA, "rope_theta": 10000.0, "torch_dtype": "float32", "time_step_limit": [0.0, float("inf")], "attn_rotary_emb": 8, "num_logits_to_keep": 1}
    yield "new", new
    yield "old", old
    yield "biases", {**new, "mamba_proj_bias": True, "attention_bias": True, "mlp_bias": True}
    yield "groups", {**old, "mamba_n_groups": 2}
    yield "Mamba-2 alone", {**new, "attn_layer_indices": None}
    yield "tied", {**old, "tie_word_embeddings": True}
    yield "yarn", {**new, "rope_parameters": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=1e4)}


FAMILIES = {"lfm2": lfm2, "granitemoehybrid": granite, "bamba": bamba}


def randomize(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            r = torch.randn(p.shape, generator=g)
            if "norm" in name and p.dim() == 1:
                r = 1 + 0.2 * r
            elif p.dim() == 1:
                r = 0.3 * r
            elif "embed" in name:
                r = 0.6 * r
            else:
                r = 1.2 * r / p.shape[-1] ** 0.5
            p.copy_(r.to(torch.bfloat16).float())


def logits(model, ids):
    """Of a prompt, and the same token by token, which must agree (5.23 keeps states in float32); transformers needs attention for the latter."""
    with torch.no_grad():
        whole = model(torch.tensor([ids]), use_cache=False).logits[0].double()
        if "full_attention" not in (getattr(model.config, "layer_types", None) or []):
            return whole.numpy().astype(np.float32)
        cache, rows = transformers.DynamicCache(config=model.config), []
        for at, i in enumerate(ids):  # Bamba counts positions from 0 in every call where they are not given
            out = model(torch.tensor([[i]]), position_ids=torch.tensor([[at]]), past_key_values=cache, use_cache=True)
            rows.append(out.logits[0, 0].double())
    assert (torch.stack(rows) - whole).abs().max() < 1e-5 * whole.std(), "prompt and steps differ"
    return whole.numpy().astype(np.float32)


def main():
    for family, forms in FAMILIES.items():
        if family not in (sys.argv[2:] or FAMILIES):
            continue
        for seed, (name, config) in enumerate(forms()):
            out = os.path.join(sys.argv[1], f"{family}, {name}")
            os.makedirs(out)
            with open(os.path.join(out, "config.json"), "w") as f:
                json.dump(config, f)
            c = AutoConfig.from_pretrained(out)
            model = AutoModelForCausalLM.from_config(copy.deepcopy(c), attn_implementation="eager").float()
            randomize(model, seed)
            model.save_pretrained(out)
            with open(os.path.join(out, "config.json"), "w") as f:
                json.dump(config, f)
            ids = np.random.default_rng(seed).integers(3, config["vocab_size"], TOKENS).tolist()
            with open(os.path.join(out, "tokens.json"), "w") as f:
                json.dump(ids, f)
            np.save(os.path.join(out, "logits.npy"), logits(model.double().eval(), ids))


main()
