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
STEPS = 3e-5  # how far steps may be from a prompt, over the standard deviation of logits; up to 1.04e-5 are seen, by machine
DELTA = 1e-4  # the same for the gated delta rule, which transformers computes in float32 though the model is float64, in chunks in a prompt: 3.2e-5

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


LFM2_MOE = dict(architectures=["Lfm2MoeForCausalLM"], model_type="lfm2_moe", hidden_size=64, intermediate_size=96, moe_intermediate_size=40, num_hidden_layers=4, num_attention_heads=4,
                num_key_value_heads=2, vocab_size=96, max_position_embeddings=128, norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0, conv_L_cache=3, conv_bias=False, num_dense_layers=1,
                num_experts=6, num_experts_per_tok=2, use_expert_bias=True, routed_scaling_factor=1.5, norm_topk_prob=True, layer_types=["conv", "full_attention", "conv", "full_attention"])


def lfm2_moe():
    new = {**LFM2_MOE, "rope_parameters": dict(rope_theta=1e6, rope_type="default"), "tie_word_embeddings": True, "dtype": "float32"}
    yield "new", new
    yield "old", {**LFM2_MOE, "rope_theta": 1e6, "torch_dtype": "float32", "tie_embedding": True}
    yield "no bias of the choice", {**new, "use_expert_bias": False}
    yield "not normalized", {**new, "norm_topk_prob": False}
    yield "no scale", {**new, "routed_scaling_factor": 1.0}
    yield "biases, own head", {**new, "conv_bias": True, "tie_word_embeddings": False}
    yield "no dense layer", {**new, "num_dense_layers": 0}
    yield "defaults", without(new, "num_dense_layers", "num_experts_per_tok", "use_expert_bias", "norm_topk_prob", "routed_scaling_factor", "conv_bias", "conv_L_cache", "norm_eps", "rope_parameters",
                              "tie_word_embeddings")


GRANITE_MOE = {**GRANITE, "intermediate_size": 40, "num_local_experts": 6, "num_experts_per_tok": 2, "shared_intermediate_size": 96}


def granite_moe():
    new = {**GRANITE_MOE, "layer_types": ["linear_attention", "full_attention", "linear_attention"], "rope_parameters": dict(rope_theta=1e4, rope_type="default"), "dtype": "float32"}
    yield "experts", new
    yield "experts, old", {**GRANITE_MOE, "layer_types": ["mamba", "attention", "mamba"], "rope_theta": 10000, "torch_dtype": "float32", "position_embedding_type": "rope"}
    yield "all experts, biases", {**new, "num_experts_per_tok": 6, "mamba_proj_bias": True, "attention_bias": True}
    yield "one expert", {**new, "num_experts_per_tok": 1}
    yield "default experts", without(new, "num_local_experts", "num_experts_per_tok")


FALCON = dict(architectures=["FalconH1ForCausalLM"], model_type="falcon_h1", hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=24,
              vocab_size=96, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_act="silu", mamba_d_ssm=96, mamba_n_heads=6, mamba_d_head=16,
              mamba_d_state=16, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=16, mamba_conv_bias=True, mamba_proj_bias=False, mamba_norm_before_gate=False, mamba_rms_norm=False,
              projectors_bias=False, attention_bias=False, mlp_bias=False, tie_word_embeddings=False, attention_in_multiplier=0.8, attention_out_multiplier=0.9, embedding_multiplier=3.0,
              key_multiplier=0.6, lm_head_multiplier=0.5, mlp_multipliers=[0.9, 0.7], ssm_in_multiplier=1.25, ssm_multipliers=[0.9, 0.8, 0.7, 1.1, 0.6], ssm_out_multiplier=0.75)


def falcon_h1():
    new = {**FALCON, "rope_parameters": dict(rope_theta=1e5, rope_type="default"), "dtype": "float32", "time_step_limit": [0.0, {"__float__": "Infinity"}]}
    old = {**FALCON, "rope_theta": 1e11, "rope_scaling": None, "torch_dtype": "float32", "num_logits_to_keep": 1, "mamba_use_mlp": True}
    yield "new", new
    yield "old", old
    yield "norm behind the gate", {**new, "mamba_rms_norm": True, "mamba_n_groups": 2}
    yield "norm before the gate", {**new, "mamba_rms_norm": True, "mamba_norm_before_gate": True}
    yield "expanded", {**new, "mamba_d_ssm": None, "mamba_n_heads": 8}
    yield "biases", {**new, "mlp_bias": True, "projectors_bias": True, "tie_word_embeddings": True}
    yield "biases of inputs", {**new, "attention_bias": True, "mamba_proj_bias": True, "attention_in_multiplier": 1.0, "ssm_in_multiplier": 1.0}
    yield "no factors", without(old, *(k for k in old if "multiplier" in k))


NEXT = dict(architectures=["Qwen3NextForCausalLM"], model_type="qwen3_next", hidden_size=64, intermediate_size=96, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
            vocab_size=96, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_act="silu", linear_conv_kernel_dim=4, linear_key_head_dim=16,
            linear_value_head_dim=24, linear_num_key_heads=2, linear_num_value_heads=4, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=40, shared_expert_intermediate_size=48,
            norm_topk_prob=True, tie_word_embeddings=False, attention_bias=False)


def qwen3_next():
    new = {**NEXT, "rope_parameters": dict(rope_theta=1e5, rope_type="default", partial_rotary_factor=0.25), "dtype": "float32",
           "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention"]}
    old = {**NEXT, "rope_theta": 1e5, "rope_scaling": None, "partial_rotary_factor": 0.25, "torch_dtype": "float32", "full_attention_interval": 4, "decoder_sparse_step": 1, "mlp_only_layers": [],
           "use_sliding_window": False}
    yield "new", new
    yield "old", old
    yield "another interval", {**old, "full_attention_interval": 2}
    yield "dense layers, not normalized", {**old, "mlp_only_layers": [1], "decoder_sparse_step": 2, "norm_topk_prob": False}
    yield "biases, tied", {**new, "attention_bias": True, "tie_word_embeddings": True}
    yield "one key head", {**new, "linear_num_key_heads": 1, "linear_num_value_heads": 3}
    yield "as many key heads", {**new, "linear_num_key_heads": 3, "linear_num_value_heads": 3, "linear_conv_kernel_dim": 3}
    yield "half rotates, yarn", {**new, "rope_parameters": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=1e4, partial_rotary_factor=0.5)}
    yield "defaults", without(old, "partial_rotary_factor", "full_attention_interval", "decoder_sparse_step", "norm_topk_prob", "hidden_act", "rms_norm_eps", "attention_bias", "linear_conv_kernel_dim")


def qwen3_5():
    new = {**without(NEXT, "num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size", "norm_topk_prob"), "architectures": ["Qwen3_5ForCausalLM"],
           "model_type": "qwen3_5_text", "rope_parameters": dict(rope_theta=1e5, rope_type="default", partial_rotary_factor=0.25, mrope_section=[2, 1, 1], mrope_interleaved=True), "dtype": "float32",
           "layer_types": ["linear_attention"] * 3 + ["full_attention", "linear_attention"], "mamba_ssm_dtype": "float32", "attn_output_gate": True, "mtp_num_hidden_layers": 1,
           "mtp_use_dedicated_embeddings": False, "full_attention_interval": 4}
    yield "new", new
    yield "biases, tied", {**new, "attention_bias": True, "tie_word_embeddings": True}
    yield "one key head", {**new, "linear_num_key_heads": 1}
    yield "defaults", without(new, "layer_types", "rope_parameters", "hidden_act", "rms_norm_eps", "attention_bias", "linear_conv_kernel_dim", "mamba_ssm_dtype", "full_attention_interval", "tie_word_embeddings")


def qwen3_5_moe():
    new = {**without(NEXT, "norm_topk_prob", "intermediate_size"), "architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text", "dtype": "float32",
           "rope_parameters": dict(rope_theta=1e5, rope_type="default", partial_rotary_factor=0.25, mrope_section=[2, 1, 1], mrope_interleaved=True)}
    yield "new", new
    yield "all experts", {**new, "num_experts_per_tok": 6, "full_attention_interval": 2}


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


MAMBA2 = dict(architectures=["Mamba2ForCausalLM"], model_type="mamba2", hidden_size=64, num_hidden_layers=3, num_heads=8, head_dim=16, vocab_size=96, state_size=16, n_groups=1, conv_kernel=4, expand=2,
              layer_norm_epsilon=1e-5, bos_token_id=0, eos_token_id=2, pad_token_id=1, hidden_act="silu", use_bias=False, use_conv_bias=True, chunk_size=16, tie_word_embeddings=False)


def mamba2():
    new = {**MAMBA2, "dtype": "float32", "time_step_limit": [0.0, {"__float__": "Infinity"}], "time_step_rank": 4, "residual_in_fp32": True, "rescale_prenorm_residual": False}
    old = {**MAMBA2, "torch_dtype": "float32", "time_step_limit": [0.0, float("inf")], "rms_norm": True, "norm_before_gate": True, "intermediate_size": 128, "time_step_scale": 1.0,
           "time_step_init_scheme": "random", "time_step_rank": "auto"}
    yield "new", new
    yield "old", old
    yield "groups", {**new, "n_groups": 4}
    yield "biases, tied", {**new, "use_bias": True, "tie_word_embeddings": True}
    yield "no bias, narrow filters", {**new, "use_conv_bias": False, "conv_kernel": 2}
    yield "expanded", {**new, "expand": 3, "num_heads": 6, "head_dim": 32, "state_size": 24}
    yield "defaults", {**without(new, "use_bias", "use_conv_bias", "conv_kernel", "expand", "layer_norm_epsilon", "hidden_act", "tie_word_embeddings", "num_heads", "head_dim", "state_size", "n_groups",
                                 "time_step_limit", "chunk_size"), "hidden_size": 4096, "num_hidden_layers": 1}


MAMBA = dict(architectures=["MambaForCausalLM"], model_type="mamba", hidden_size=64, num_hidden_layers=3, vocab_size=96, state_size=16, conv_kernel=4, expand=2, layer_norm_epsilon=1e-5, bos_token_id=0,
             eos_token_id=2, pad_token_id=1, hidden_act="silu", use_bias=False, use_conv_bias=True, tie_word_embeddings=True, time_step_rank=5, dtype="float32")


def mamba(base=MAMBA):
    yield "new", base
    yield "old", {**without(base, "dtype"), "torch_dtype": "float32", "intermediate_size": 128, "d_inner": 128, "d_model": 64, "n_layer": 3, "fused_add_norm": True, "rms_norm": True, "ssm_cfg": {},
                  "pad_vocab_size_multiple": 8, "residual_in_fp32": True, "rescale_prenorm_residual": False, "time_step_scale": 1.0, "time_step_init_scheme": "random"}
    yield "biases, own head", {**base, "use_bias": True, "tie_word_embeddings": False}
    yield "no bias, narrow filters", {**base, "use_conv_bias": False, "conv_kernel": 2}
    yield "expanded", {**base, "expand": 3, "state_size": 24}
    yield "automatic rank", {**base, "time_step_rank": "auto", "hidden_size": 72}
    yield "defaults", without(base, "use_bias", "use_conv_bias", "conv_kernel", "expand", "layer_norm_epsilon", "hidden_act", "tie_word_embeddings", "state_size", "time_step_rank")


def falcon_mamba():
    base = {**MAMBA, "architectures": ["FalconMambaForCausalLM"], "model_type": "falcon_mamba"}
    yield from mamba(base)
    yield "another eps", {**base, "mixer_rms_eps": 1e-2}


JAMBA = dict(architectures=["JambaForCausalLM"], model_type="jamba", hidden_size=64, intermediate_size=80, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, vocab_size=96, rms_norm_eps=1e-5,
             max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_act="silu", num_experts=6, num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1, attn_layer_period=3,
             attn_layer_offset=1, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=5, mamba_conv_bias=True, mamba_proj_bias=False, tie_word_embeddings=False, dtype="float32")


def jamba():
    yield "new", JAMBA
    yield "old", {**without(JAMBA, "dtype"), "torch_dtype": "float32", "use_mamba_kernels": False, "num_logits_to_keep": 1, "router_aux_loss_coef": 0.001, "output_router_logits": False, "mamba_inner_layernorms": True}
    yield "dense", {**JAMBA, "num_experts": 1, "num_experts_per_tok": 1}
    yield "all experts, one each", {**JAMBA, "expert_layer_period": 1, "expert_layer_offset": 0, "num_experts_per_tok": 1}
    yield "attention first", {**JAMBA, "attn_layer_period": 4, "attn_layer_offset": 0}
    yield "attention alone", {**JAMBA, "attn_layer_period": 1, "attn_layer_offset": 0}
    yield "Mamba alone", {**JAMBA, "attn_layer_period": 8, "attn_layer_offset": 7}
    yield "biases, tied", {**JAMBA, "mamba_proj_bias": True, "tie_word_embeddings": True}
    yield "no bias, narrow filters", {**JAMBA, "mamba_conv_bias": False, "mamba_d_conv": 2}
    yield "automatic rank", {**JAMBA, "mamba_dt_rank": "auto", "mamba_expand": 3, "mamba_d_state": 24}
    yield "defaults", without(JAMBA, "num_experts_per_tok", "expert_layer_period", "expert_layer_offset", "attn_layer_period", "attn_layer_offset", "mamba_d_state", "mamba_d_conv", "mamba_expand",
                              "mamba_dt_rank", "mamba_conv_bias", "mamba_proj_bias", "tie_word_embeddings", "rms_norm_eps", "hidden_act") | {"num_key_value_heads": 4, "num_hidden_layers": 6}


FAMILIES = {"mamba": mamba, "falcon_mamba": falcon_mamba, "jamba": jamba, "mamba2": mamba2, "lfm2": lfm2, "lfm2_moe": lfm2_moe, "granitemoehybrid": granite, "granitemoehybrid with experts": granite_moe, "bamba": bamba,
            "falcon_h1": falcon_h1, "qwen3_next": qwen3_next, "qwen3_5": qwen3_5, "qwen3_5_moe": qwen3_5_moe}


def randomize(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in [*model.named_parameters(), *((n, b) for n, b in model.named_buffers() if n.endswith("expert_bias"))]:
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
    bound = DELTA if hasattr(model.config, "linear_key_head_dim") else STEPS
    with torch.no_grad():
        whole = model(torch.tensor([ids]), use_cache=False).logits[0].double()
        if "full_attention" not in (getattr(model.config, "layer_types", None) or []):
            return whole.numpy().astype(np.float32)
        cache, rows = transformers.DynamicCache(config=model.config), []
        for at, i in enumerate(ids):  # Bamba counts positions from 0 in every call where they are not given
            out = model(torch.tensor([[i]]), position_ids=torch.tensor([[at]]), past_key_values=cache, use_cache=True)
            rows.append(out.logits[0, 0].double())
    assert (torch.stack(rows) - whole).abs().max() < bound * whole.std(), "prompt and steps differ"
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
            model = AutoModelForCausalLM.from_config(copy.deepcopy(c), attn_implementation="eager", experts_implementation="eager").float()
            randomize(model, seed)
            model.save_pretrained(out)
            with open(os.path.join(out, "config.json"), "w") as f:
                json.dump(config, f)
            ids = np.random.default_rng(seed).integers(3, config["vocab_size"], TOKENS).tolist()
            with open(os.path.join(out, "tokens.json"), "w") as f:
                json.dump(ids, f)
            np.save(os.path.join(out, "logits.npy"), logits(model.double().eval(), ids))


main()
