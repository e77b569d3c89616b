#!/usr/bin/env python3
"""Miniatures of model families and forms of their config.json, with random weights, and the logits that transformers computes
in float64. Arguments: the folder to fill, and names of families; all without. Prints a JSON list of the folders' names.

A family is a class and its keys, then forms: each changes keys (None is null) or drops them (DROP). A form whose keys make
other tensors is a model of its own; "same" forms are other files of the same weights."""
import copy, json, os, sys, warnings

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")
import numpy, torch, transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

transformers.logging.set_verbosity(transformers.logging.CRITICAL)
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)

DROP = object()
TOKENS = [(i * i * 37 + i * 101 + 11) % 48 for i in range(40)]
SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=48, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
NORM = dict(rms_norm_eps=1e-5)
EARLY = dict(num_key_value_heads=DROP, intermediate_size=DROP)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)


def old(theta, scaling=None, **more):
    """The form of files before transformers 5."""
    return dict(rope_parameters=DROP, rope_theta=theta, rope_scaling=scaling, dtype=DROP, torch_dtype="float32", **more)


def partial(factor):
    return {
        "same old": old(20000.0, partial_rotary_factor=factor), "same without a factor": old(20000.0), "same outside": dict(rope_parameters=dict(rope_type="default", rope_theta=5000.0), partial_rotary_factor=factor),
        "same linear": old(20000.0, dict(rope_type="linear", factor=2.0), partial_rotary_factor=factor), "same another factor": dict(rope_parameters=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=0.75)),
        "same yarn": dict(rope_parameters=dict(YARN, rope_theta=5000.0, partial_rotary_factor=factor)), "same no rope": dict(rope_parameters=DROP),
    }


WHOLE = {"same old": old(20000.0), "same llama3": old(20000.0, LLAMA3), "same yarn": dict(rope_parameters=dict(YARN, rope_theta=5000.0)), "same no rope": dict(rope_parameters=DROP)}
BIASES = {"biases": dict(attention_bias=True, mlp_bias=True), "attention_bias": dict(attention_bias=True), "no attention_bias": dict(attention_bias=False)}
TIED = {"tied": dict(tie_word_embeddings=True), "untied": dict(tie_word_embeddings=False), "head_dim": dict(head_dim=24)}
TYPES = lambda *kinds: dict(num_hidden_layers=len(kinds), layer_types=[k + "_attention" for k in kinds])
MISTRAL3 = dict(YARN, rope_theta=1e6, llama_4_scaling_beta=0.1, mscale=1.0, mscale_all_dim=1.0)
GEMMA3N = dict(NORM, head_dim=16, sliding_window=8, num_hidden_layers=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"] * 2, num_kv_shared_layers=2, hidden_size_per_layer_input=12,
    vocab_size_per_layer_input=40, laurel_rank=8, activation_sparsity_pattern=[0.9, 0.0, 0.5, 0.95, 0.3, 0.0])
SLIDE, FULL = "sliding_attention", "full_attention"
ROPE4 = lambda full, sliding=dict(rope_type="default", rope_theta=5e3): dict(rope_parameters=dict(full_attention=full, sliding_attention=sliding))
EQUAL = dict(attention_k_eq_v=True, num_global_key_value_heads=1)
MIXED = dict(enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=24)
GEMMA4 = dict(NORM, head_dim=16, global_head_dim=32, sliding_window=8, num_hidden_layers=6, layer_types=[SLIDE, FULL] * 3, num_kv_shared_layers=2, final_logit_softcapping=30.0)
INPUTS4 = dict(hidden_size_per_layer_input=12, vocab_size_per_layer_input=48)
GEMMA4_FORMS = {**{k: TIED[k] for k in ("tied", "untied")}, "attention_bias": dict(attention_bias=True), "nothing shared": dict(num_kv_shared_layers=0), "four shared": dict(num_kv_shared_layers=4),
    "equal": EQUAL, "equal without a count": dict(attention_k_eq_v=True, num_kv_shared_layers=0), "equal biases": dict(EQUAL, attention_bias=True, num_kv_shared_layers=0), "count without equal": dict(num_global_key_value_heads=1),
    "wide": dict(use_double_wide_mlp=True), "heads": dict(head_dim=20, global_head_dim=12), "one size": dict(global_head_dim=16), "default size": dict(global_head_dim=DROP), "one kv": dict(num_key_value_heads=1),
    "default layers": dict(num_hidden_layers=13, layer_types=DROP), "last slides": dict(layer_types=[SLIDE, FULL, SLIDE, SLIDE, FULL, SLIDE]), "no window": dict(layer_types=[FULL] * 6, num_kv_shared_layers=1),
    "all full": dict(EQUAL, layer_types=[FULL] * 6, num_kv_shared_layers=0), "no rope": dict(rope_parameters=DROP), "one layer": dict(num_hidden_layers=1, layer_types=[SLIDE], num_kv_shared_layers=0),
    "same old": dict(per_layer_config=DROP, global_head_dim=32, dtype=DROP, torch_dtype="float32"), "same padded": dict(per_layer_config={f"{i:03}": dict(head_dim=32, num_key_value_heads=2) for i in (1, 3, 5)}),
    "same explicit": dict(head_dim=8, per_layer_config={str(i): dict(head_dim=16 + i % 2 * 16) for i in range(6)}), "same both": dict(global_head_dim=8, num_global_key_value_heads=4, attention_k_eq_v=False),
    "same linear": ROPE4(dict(rope_type="linear", factor=4.0, rope_theta=1e5)), "same default rope": ROPE4(dict(rope_type="default", rope_theta=1e5)), "same type": ROPE4(dict(type="proportional", rope_theta=1e5, partial_rotary_factor=0.5), dict(rope_theta=5e3)),
    "same yarn": ROPE4(dict(YARN, rope_theta=1e5)), "same llama3": ROPE4(dict(LLAMA3, rope_theta=1e5)), "same quarter": ROPE4(dict(rope_type="proportional", rope_theta=1e5, partial_rotary_factor=0.25)), "same no rope": dict(rope_parameters=DROP),
    "same odd": ROPE4(dict(rope_type="proportional", rope_theta=1e5, partial_rotary_factor=0.34)), "same factor": ROPE4(dict(rope_type="proportional", rope_theta=1e5, partial_rotary_factor=0.5, factor=3.0)), "same whole": ROPE4(dict(rope_type="proportional", rope_theta=1e5)),
    "same silu": dict(hidden_activation="silu"), "same gelu": dict(hidden_activation="gelu"), "same window": dict(sliding_window=3), "same default window": dict(sliding_window=DROP), "same cap": dict(final_logit_softcapping=2.0), "same no cap": dict(final_logit_softcapping=None),
    "same eps": dict(rms_norm_eps=1e-2), "same images": dict(use_bidirectional_attention="vision"), "same text": dict(use_bidirectional_attention=None), "same dropout": dict(attention_dropout=0.5),
    "same defaults": {k: DROP for k in ("tie_word_embeddings", "hidden_activation", "final_logit_softcapping", "attention_k_eq_v", "use_double_wide_mlp", "attention_bias", "use_bidirectional_attention", "rms_norm_eps", "enable_moe_block")}}
FAMILIES = {
    "seed_oss": ("SeedOss", dict(NORM, head_dim=16), {**WHOLE, **TIED, **BIASES, "out": dict(attention_bias=False, attention_out_bias=True), "all": dict(attention_out_bias=True, mlp_bias=True),
        "same default bias": dict(attention_bias=DROP)}),
    "ministral": ("Ministral", dict(NORM, head_dim=16, sliding_window=8), {**WHOLE, **TIED, "same types": TYPES("sliding", "full"), "same old types": old(1e4, layer_types=DROP)}),
    "ministral3": ("Ministral3", dict(NORM, head_dim=16, rope_parameters=MISTRAL3), {**TIED, "same window": dict(sliding_window=8), "same type": dict(rope_parameters={**{k: v for k, v in MISTRAL3.items() if k != "rope_type"}, "type": "yarn"}),
        "same mscale": dict(rope_parameters={**MISTRAL3, "mscale": 0.7, "mscale_all_dim": 0.4}), "same one mscale": dict(rope_parameters={**{k: v for k, v in MISTRAL3.items() if k != "mscale_all_dim"}, "mscale": 0.7}),
        "same attention_factor": dict(rope_parameters={**MISTRAL3, "attention_factor": 1.3}), "same default": dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, llama_4_scaling_beta=0.2, original_max_position_embeddings=8)),
        "same linear": dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=1e4, llama_4_scaling_beta=0.2, original_max_position_embeddings=8))}),
    "cwm": ("Cwm", dict(NORM, head_dim=16, sliding_window=8, num_hidden_layers=6), {**TIED, "mlp_bias": dict(mlp_bias=True), "same old": old(1e6, LLAMA3), "same no types": dict(layer_types=DROP), "same no rope": dict(rope_parameters=DROP),
        "same types": dict(layer_types=["sliding_attention", "full_attention"] * 3)}),
    "arcee": ("Arcee", dict(NORM), {**WHOLE, **TIED, **BIASES, "same silu": dict(hidden_act="silu")}),
    "ernie4_5": ("Ernie4_5", dict(NORM, head_dim=16), {**WHOLE, **TIED, "use_bias": dict(use_bias=True), "same no tie": dict(tie_word_embeddings=DROP)}),
    "helium": ("Helium", dict(NORM, head_dim=16), {**WHOLE, "tied": dict(tie_word_embeddings=True), **BIASES}),
    "glm": ("Glm", dict(NORM, head_dim=16), {**partial(0.5), **TIED, "no bias": dict(attention_bias=False), "same default bias": dict(attention_bias=DROP)}),
    "nemotron": ("Nemotron", dict(norm_eps=1e-5), {**partial(0.5), **TIED, **BIASES, "same silu": dict(hidden_act="silu")}),
    "starcoder2": ("Starcoder2", dict(norm_epsilon=1e-5), {**WHOLE, **TIED, "no bias": dict(use_bias=False), "same default bias": dict(use_bias=DROP), "same window": dict(sliding_window=8), "same no tie": dict(tie_word_embeddings=DROP)}),
    "stablelm": ("StableLm", dict(layer_norm_eps=1e-5, partial_rotary_factor=0.25), {**partial(0.25), "tied": dict(tie_word_embeddings=True), "use_qkv_bias": dict(use_qkv_bias=True), "parallel": dict(use_parallel_residual=True),
        "qk": dict(qk_layernorm=True), "all": dict(qk_layernorm=True, use_parallel_residual=True, use_qkv_bias=True)}),
    "olmo": ("Olmo", dict(), {**WHOLE, **TIED, "attention_bias": dict(attention_bias=True), "same clip": dict(clip_qkv=0.5), "same no clip": dict(clip_qkv=None), "clip biases": dict(attention_bias=True, clip_qkv=0.7)}),
    "cohere": ("Cohere", dict(layer_norm_eps=1e-5), {**WHOLE, **TIED, "attention_bias": dict(attention_bias=True), "qk": dict(use_qk_norm=True), "same scale": dict(logit_scale=0.3), "same default scale": dict(logit_scale=DROP), "same no tie": dict(tie_word_embeddings=DROP)}),
    "cohere2": ("Cohere2", dict(layer_norm_eps=1e-5, sliding_window=8, num_hidden_layers=5), {**WHOLE, "untied": dict(tie_word_embeddings=False), "attention_bias": dict(attention_bias=True), "same types": TYPES("sliding", "full", "full", "sliding", "sliding"),
        "same no types": dict(layer_types=DROP), "same pattern": dict(layer_types=DROP, sliding_window_pattern=3), "same hub": dict(layer_types=DROP, sliding_window_pattern=4, position_embedding_type="rope_gptj", rotary_pct=1.0, use_qk_norm=False, layer_switch=4,
        order_of_interleaved_layers="local_attn_first", use_gated_activation=True, use_parallel_block=True, use_parallel_embedding=True, use_embedding_sharing=True)}),
    "apertus": ("Apertus", dict(NORM), {**WHOLE, **TIED, "attention_bias": dict(attention_bias=True), "relu2": dict(hidden_act="relu2")}),
    "phi": ("Phi", dict(layer_norm_eps=1e-5), {**partial(0.5), "tied": dict(tie_word_embeddings=True), "qk": dict(qk_layernorm=True), "same silu": dict(hidden_act="gelu_pytorch_tanh")}),
    "gpt2": ("GPT2", dict(EARLY, n_embd=64, n_layer=2, n_head=4, n_positions=64, layer_norm_epsilon=1e-5), {"n_inner": dict(n_inner=96), "untied": dict(tie_word_embeddings=False), "same unscaled": dict(scale_attn_weights=False), "same relu": dict(activation_function="relu"),
        "same gelu": dict(activation_function="gelu"), "same silu": dict(activation_function="silu"), "same hub": dict(n_ctx=64, summary_type="cls_index", task_specific_params=dict(a=dict(b=1)), dtype=DROP, torch_dtype="float32"),
        "same usual names": dict(n_embd=DROP, hidden_size=64, n_layer=DROP, num_hidden_layers=2)}),
    "gpt_neox": ("GPTNeoX", dict(num_key_value_heads=DROP, layer_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=0.25)), {"tied": dict(tie_word_embeddings=True), "no bias": dict(attention_bias=False), "same sequential": dict(use_parallel_residual=False),
        "same old": dict(rope_parameters=DROP, rotary_pct=0.5, rotary_emb_base=20000, dtype=DROP, torch_dtype="float16", classifier_dropout=0.1), "same no rope": dict(rope_parameters=DROP), "same tanh": dict(hidden_act="gelu_fast"), "same new": dict(hidden_act="gelu_new"),
        "same yarn": dict(rope_parameters=dict(YARN, rope_theta=5000.0, partial_rotary_factor=0.5)), "same linear": dict(rope_parameters=DROP, rope_scaling=dict(type="linear", factor=2.0), rotary_pct=1.0)}),
    "opt": ("OPT", dict(EARLY, ffn_dim=96), {"untied": dict(tie_word_embeddings=False), "no bias": dict(enable_bias=False), "no weights of norms": dict(layer_norm_elementwise_affine=False), "no last norm": dict(_remove_final_layer_norm=True), "same gelu": dict(activation_function="gelu"),
        "same hub": dict(activation_dropout=0.0, word_embed_proj_dim=64, prefix="</s>", do_layer_norm_before=True, dtype=DROP, torch_dtype="float16")}),
    "bloom": ("Bloom", dict(EARLY, n_layer=2, n_head=4, layer_norm_epsilon=1e-5), {"untied": dict(tie_word_embeddings=False), "six heads": dict(hidden_size=72, n_head=6), "five heads": dict(hidden_size=80, n_head=5), "same hub": dict(hidden_size=DROP, n_embed=64, n_inner=None, seq_length=64,
        num_attention_heads=4, n_head=DROP, unk_token_id=0, offset_alibi=100, attention_softmax_in_fp32=True, bias_dropout_fusion=True, masked_softmax_fusion=True, skip_bias_add=True, skip_bias_add_qkv=False)}),
    "glm4": ("Glm4", dict(NORM, head_dim=16), {**partial(0.5), **TIED, "no bias": dict(attention_bias=False)}),
    "gemma3n_text": ("Gemma3n", GEMMA3N, {"untied": dict(tie_word_embeddings=False), "attention_bias": dict(attention_bias=True), "nothing shared": dict(num_kv_shared_layers=0), "widths": dict(intermediate_size=[96, 64, 32, 100, 7, 96]),
        "streams": dict(altup_num_inputs=3, altup_active_idx=1), "last stream": dict(altup_num_inputs=2, altup_active_idx=1), "unscaled": dict(altup_correct_scale=False), "rank": dict(laurel_rank=5, hidden_size_per_layer_input=7, head_dim=20),
        "default layers": dict(num_hidden_layers=12, layer_types=DROP, activation_sparsity_pattern=DROP, num_kv_shared_layers=5, intermediate_size=512), "shared by kind": dict(num_kv_shared_layers=4), "same old": old(1e5, dict(rope_type="linear", factor=4.0), rope_local_base_freq=5e3),
        "same yarn": dict(rope_parameters=dict(full_attention=dict(YARN, rope_theta=1e5), sliding_attention=dict(rope_type="default", rope_theta=5e3))), "same no rope": dict(rope_parameters=DROP), "same old no rope": dict(rope_parameters=DROP, dtype=DROP, torch_dtype="float32"),
        "same silu": dict(hidden_activation="silu"), "same gelu": dict(hidden_activation="gelu"), "same window": dict(sliding_window=3), "same types": dict(layer_types=["full_attention", "sliding_attention"] * 3), "same dense": dict(activation_sparsity_pattern=DROP),
        "same sparse": dict(activation_sparsity_pattern=[0.99, 0.5, 0.01, 0.97, 0.98, 0.999]), "same defaults": dict(altup_num_inputs=DROP, altup_active_idx=DROP, altup_correct_scale=DROP, altup_coef_clip=DROP, tie_word_embeddings=DROP, hidden_activation=DROP, final_logit_softcapping=DROP),
        "same clip": dict(altup_coef_clip=0.01), "same cap": dict(final_logit_softcapping=2.0)}),
    "gemma4_text": ("Gemma4", dict(GEMMA4, **INPUTS4), {**GEMMA4_FORMS, "no inputs": dict(hidden_size_per_layer_input=0, num_kv_shared_layers=0), "more rows": dict(vocab_size_per_layer_input=50, hidden_size_per_layer_input=7),
        "experts": MIXED, "experts alone": dict(MIXED, **EQUAL, hidden_size_per_layer_input=0, num_kv_shared_layers=0), "one expert": dict(MIXED, top_k_experts=1), "all experts": dict(MIXED, top_k_experts=6), "wide experts": dict(MIXED, moe_intermediate_size=64, use_double_wide_mlp=True),
        "same no experts": dict(num_experts=6, top_k_experts=2, moe_intermediate_size=24)}),
    "gemma4_unified_text": ("Gemma4Unified", GEMMA4, {**GEMMA4_FORMS, "same no inputs": dict(hidden_size_per_layer_input=0, vocab_size_per_layer_input=48, enable_moe_block=False)}),
}

# Models with images: the text part is what tokens of text alone compute.
TEXT = dict(SIZES)
TINY = dict(hidden_size=16, intermediate_size=16, num_attention_heads=2, num_hidden_layers=1)
QWEN_TOWER = dict(depth=1, num_heads=2, patch_size=4, temporal_patch_size=1, spatial_merge_size=1)
MROPE = dict(rope_type="default", mrope_section=[2, 3, 3], rope_theta=5000.0)
IDEFICS = dict(text_config=dict(TEXT, **NORM, model_type="llama"), vision_config=dict(TINY, image_size=16, patch_size=4), image_token_id=47, scale_factor=1)
FLAT = dict(text_config=DROP, **TEXT, **NORM, rope_theta=5000.0, rope_scaling=dict(type="mrope", mrope_section=[2, 3, 3]), torch_dtype="float32", dtype=DROP)
QWEN_MOE = dict(TEXT, **NORM, head_dim=16, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2, rope_parameters=dict(MROPE, mrope_interleaved=True))
GEMMA3 = dict(TEXT, **NORM, head_dim=16, sliding_window=8, query_pre_attn_scalar=24, layer_types=["sliding_attention", "full_attention"],
    rope_parameters=dict(full_attention=dict(rope_type="linear", factor=4.0, rope_theta=1e6), sliding_attention=dict(rope_type="default", rope_theta=1e4)))
GEMMA3_OLD = dict(TEXT, **NORM, head_dim=16, sliding_window=8, query_pre_attn_scalar=24, model_type="gemma3_text", sliding_window_pattern=2, rope_theta=1e6, rope_local_base_freq=1e4, rope_scaling=dict(rope_type="linear", factor=8.0))
NEXT = dict(TEXT, **NORM, head_dim=32, linear_key_head_dim=16, linear_value_head_dim=24, linear_num_key_heads=2, linear_num_value_heads=4, layer_types=["linear_attention", "full_attention"])
NEXT_TOWER = dict(QWEN_TOWER, hidden_size=16, intermediate_size=16, out_hidden_size=64, num_position_embeddings=16)
VISION = {
    "qwen2_vl": ("Qwen2VL", dict(text_config=dict(TEXT, **NORM, rope_parameters=MROPE), vision_config=dict(QWEN_TOWER, embed_dim=16, hidden_size=64), image_token_id=47, video_token_id=46), {"same flat": FLAT, "tied": dict(tie_word_embeddings=True)}),
    "qwen2_5_vl": ("Qwen2_5_VL", dict(text_config=dict(TEXT, **NORM, rope_parameters=MROPE, use_sliding_window=True, sliding_window=8, max_window_layers=1), vision_config=dict(QWEN_TOWER, hidden_size=16, intermediate_size=16, out_hidden_size=64, window_size=16), image_token_id=47, video_token_id=46), {"same flat": FLAT, "tied": dict(tie_word_embeddings=True)}),
    "qwen3_vl": ("Qwen3VL", dict(text_config=dict(TEXT, **NORM, head_dim=16, rope_parameters=dict(MROPE, mrope_interleaved=True)), vision_config=dict(QWEN_TOWER, hidden_size=16, intermediate_size=16, out_hidden_size=64, num_position_embeddings=16, deepstack_visual_indexes=[0]), image_token_id=47, video_token_id=46),
        {"tied": dict(tie_word_embeddings=True)}),
    "qwen3_vl_moe": ("Qwen3VLMoe", dict(text_config=QWEN_MOE, vision_config=dict(QWEN_TOWER, hidden_size=16, intermediate_size=16, out_hidden_size=64, num_position_embeddings=16, deepstack_visual_indexes=[0]), image_token_id=47, video_token_id=46),
        {"tied": dict(tie_word_embeddings=True), "dense": dict(text_config=dict(QWEN_MOE, mlp_only_layers=[0], attention_bias=True)), "step": dict(text_config=dict(QWEN_MOE, decoder_sparse_step=2)),
        "square": dict(text_config=dict(QWEN_MOE, moe_intermediate_size=32)), "square down": dict(text_config=dict(QWEN_MOE, moe_intermediate_size=64))}),
    "qwen3_5": ("Qwen3_5", dict(text_config=NEXT, vision_config=NEXT_TOWER, image_token_id=47, video_token_id=46), {"tied": dict(tie_word_embeddings=True)}),
    "qwen3_5_moe": ("Qwen3_5Moe", dict(text_config=dict(NEXT, moe_intermediate_size=24, shared_expert_intermediate_size=40, num_experts=6, num_experts_per_tok=2), vision_config=NEXT_TOWER, image_token_id=47, video_token_id=46), {"tied": dict(tie_word_embeddings=True)}),
    "gemma3": ("Gemma3", dict(text_config=GEMMA3, vision_config=dict(TINY, model_type="siglip_vision_model", image_size=16, patch_size=4), image_token_index=47, boi_token_index=46, eoi_token_index=45, mm_tokens_per_image=16),
        {"untied": dict(tie_word_embeddings=False), "same old": dict(text_config=GEMMA3_OLD), "types": dict(text_config=dict(GEMMA3, layer_types=["full_attention", "sliding_attention"]))}),
    "gemma3n": ("Gemma3n", dict(text_config=dict(TEXT, **GEMMA3N), vision_config=dict(hidden_size=16), audio_config=dict(hidden_size=16, conf_num_attention_heads=2, conf_num_hidden_layers=1, sscp_conv_channel_size=[4, 2])), {"untied": dict(tie_word_embeddings=False)}),
    "gemma4": ("Gemma4", dict(text_config=dict(TEXT, **GEMMA4, **INPUTS4), vision_config=dict(TINY, num_key_value_heads=2, head_dim=8, patch_size=4), audio_config=dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, subsampling_conv_channels=[4, 2], output_proj_dims=16)),
        {"untied": dict(tie_word_embeddings=False), "experts": dict(text_config=dict(TEXT, **GEMMA4, **MIXED, **EQUAL, hidden_size_per_layer_input=0) | dict(num_kv_shared_layers=0)), "no sound": dict(audio_config=None), "same numbers": dict(eoa_token_index=40, boi_token_id=41)}),
    "gemma4_unified": ("Gemma4Unified", dict(text_config=dict(TEXT, **GEMMA4), vision_config=dict(patch_size=4, pooling_kernel_size=1, mm_embed_dim=16, mm_posemb_size=8, output_proj_dims=16), audio_config=dict(output_proj_dims=16)), {"untied": dict(tie_word_embeddings=False)}),
    "idefics3": ("Idefics3", IDEFICS, {"tied": dict(tie_word_embeddings=True)}),
    "smolvlm": ("SmolVLM", IDEFICS, {"tied": dict(tie_word_embeddings=True)}),
    "mistral3": ("Mistral3", dict(text_config=dict(TEXT, **NORM, model_type="mistral", head_dim=16, sliding_window=None), vision_config=dict(TINY, model_type="pixtral", head_dim=8, image_size=16, patch_size=4), image_token_index=47, tie_word_embeddings=False),
        {"tied": dict(tie_word_embeddings=True), "ministral3": dict(text_config=dict(TEXT, **NORM, model_type="ministral3", head_dim=16, rope_parameters=MISTRAL3))}),
}


def randomize(model):
    """Weights with which activations keep their size; norms, biases and parameters of activations are not what they start from."""
    g = torch.Generator().manual_seed(7)
    for name, p in [*model.named_parameters(), *((n, b) for n, b in model.named_buffers() if n.endswith("layer_scalar"))]:
        x = torch.randn(p.shape, generator=g)
        with torch.no_grad():
            if p.dim() < 2 or "norm" in name:
                p.add_(x * 0.2)
            elif "embed" in name:
                p.copy_(x)
            else:
                p.copy_(x / p.shape[-1] ** 0.5)


def change(config, keys):
    config = copy.deepcopy(config)
    for key, value in keys.items():
        config.pop(key, None)
        if value is not DROP:
            config[key] = value
    return config


def without_tower():
    """Text needs no tower for images; that of Gemma 3n is a model of timm, which is not installed."""
    from transformers.models.gemma3n import configuration_gemma3n as keys, modeling_gemma3n as code

    class Models:
        from_config = staticmethod(lambda c, **more: torch.nn.Identity() if c.model_type == "gemma3n_vision" else transformers.AutoModel.from_config(c, **more))

    code.AutoModel = Models
    keys.Gemma3nVisionConfig.from_dict = classmethod(transformers.PreTrainedConfig.from_dict.__func__)


def logits(path, auto=AutoModelForCausalLM):
    model = auto.from_pretrained(path, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()
    with torch.no_grad():
        return model(torch.tensor([TOKENS]), use_cache=False).logits[0].float().numpy()


def record(path, auto=AutoModelForCausalLM):
    numpy.save(os.path.join(path, "logits.npy"), logits(path, auto))
    json.dump(TOKENS, open(os.path.join(path, "tokens.json"), "w"))


def build(path, architecture, family, keys):
    auto, end = (AutoModelForCausalLM, "LMHeadModel") if family == "gpt2" else (AutoModelForImageTextToText, "ForConditionalGeneration") if family in VISION else (AutoModelForCausalLM, "ForCausalLM")
    config = AutoConfig.for_model(family, **copy.deepcopy({k: v for k, v in keys.items() if v is not DROP}))
    config.architectures = [architecture + end]
    model = auto.from_config(config, dtype=torch.float32)
    randomize(model)
    model.save_pretrained(path)
    record(path, auto)


def main():
    without_tower()
    root, names, done = sys.argv[1], sys.argv[2:] or [*FAMILIES, *VISION], []
    for family in names:
        architecture, own, forms = {**FAMILIES, **VISION}[family]
        base, sizes = os.path.join(root, family), {} if family in VISION else SIZES
        build(base, architecture, family, {**sizes, **own})
        done.append(family)
        for form, keys in forms.items():
            path = f"{base}-{form.replace(' ', '-')}"
            try:
                if form.startswith("same "):
                    os.mkdir(path)
                    os.link(os.path.join(base, "model.safetensors"), os.path.join(path, "model.safetensors"))
                    config = change(json.load(open(os.path.join(base, "config.json"))), keys)
                    json.dump(config, open(os.path.join(path, "config.json"), "w"))
                    record(path, AutoModelForImageTextToText if family in VISION else AutoModelForCausalLM)
                else:
                    build(path, architecture, family, {**sizes, **own, **keys})
            except Exception as e:
                raise SystemExit(f"{family}, {form}: {type(e).__name__}: {e}")
            done.append(os.path.basename(path))
    print(json.dumps(done))


main()
