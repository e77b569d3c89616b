#!/usr/bin/env python3
"""Asks transformers what it makes of config.json: builds each model of a matrix of forms, runs it, and prints what it did, one
JSON object per line (make interop records it as matrix.jsonl).

A line {"form", "config", "answer"} is the base of those that follow, {"name", "of", "set", "drop", "answer"}: the keys of the
base that are set and dropped, and the parts of the answer that differ; or "error" instead, where transformers fails. Everything is taken from the running model: masks, angles and scales from what attention gets.
"""
import copy, json, logging, math, os, re, sys, tempfile, warnings

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")
import torch, transformers
from transformers import AutoConfig, AutoModelForCausalLM, initialization
from transformers.quantizers import AutoHfQuantizer

transformers.logging.set_verbosity(logging.CRITICAL)
torch.set_num_threads(1)

TOKENS = 12  # more than the windows of the matrix, fewer than its original_max_position_embeddings

# Families, as transformers 5 writes their configurations.
SIZES = dict(hidden_size=64, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, vocab_size=48,
             max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False, dtype="float32")
SILU = dict(hidden_act="silu")
QWEN = dict(use_sliding_window=False, sliding_window=None, max_window_layers=28, layer_types=["full_attention"] * 3)
GEMMA = dict(head_dim=16, tie_word_embeddings=True)
LATER = dict(hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=24, sliding_window=8, final_logit_softcapping=None, attn_logit_softcapping=None)
FAMILIES = {
    "llama": ("Llama", dict(SILU, head_dim=16, attention_bias=False, mlp_bias=False), 10000.0),
    "mistral": ("Mistral", dict(SILU, head_dim=16, sliding_window=8), 10000.0),
    "qwen2": ("Qwen2", dict(SILU, **QWEN), 10000.0),
    "qwen3": ("Qwen3", dict(SILU, head_dim=24, attention_bias=False, **QWEN), 10000.0),
    "phi3": ("Phi3", dict(SILU, sliding_window=8, original_max_position_embeddings=32), 10000.0),
    "gemma": ("Gemma", dict(GEMMA, hidden_act="gelu_pytorch_tanh", attention_bias=False), 10000.0),
    "gemma2": ("Gemma2", dict(GEMMA, **dict(LATER, final_logit_softcapping=30.0, attn_logit_softcapping=50.0),
                              layer_types=["sliding_attention", "full_attention", "sliding_attention"]), 10000.0),
    "gemma3_text": ("Gemma3", dict(GEMMA, **LATER, use_bidirectional_attention=False,
                                   layer_types=["sliding_attention", "sliding_attention", "full_attention"]), None),
    "bitnet": ("BitNet", dict(hidden_act="relu2", attention_bias=False), 500000.0),
}


def bases(family):
    """The form of transformers 5, and the one before it."""
    cls, own, theta = FAMILIES[family]
    common = {"architectures": [cls + "ForCausalLM"], "model_type": family, **SIZES, **own}
    old = {k: v for k, v in common.items() if k not in ("dtype", "layer_types")}
    old["torch_dtype"] = "float32"
    if theta is None:
        new = {**common, "rope_parameters": {"full_attention": {"rope_theta": 1e6, "rope_type": "default"}, "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}}}
        old.update(rope_theta=1e6, rope_local_base_freq=1e4, sliding_window_pattern=3)
    else:
        new = {**common, "rope_parameters": {"rope_theta": theta, "rope_type": "default"}}
        old["rope_theta"] = theta
    old["rope_scaling"] = None
    return new, old


def scalings(pairs):
    """Rotary scalings in every spelling; pairs is how many angles a head has."""
    short, long = [1 + i / 8 for i in range(pairs)], [2 + i / 4 for i in range(pairs)]
    llama3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
    yarn, longrope = dict(rope_type="yarn", factor=4.0), dict(rope_type="longrope", short_factor=short, long_factor=long)
    original = dict(original_max_position_embeddings=32)
    return {
        "empty": {}, "default": dict(rope_type="default"), "default with factor": dict(rope_type="default", factor=4.0),
        "linear": dict(rope_type="linear", factor=4.0), "linear by type": dict(type="linear", factor=4.0),
        "linear by both": dict(type="linear", rope_type="linear", factor=2.0), "type against rope_type": dict(type="yarn", rope_type="linear", factor=2.0),
        "linear, no factor": dict(rope_type="linear"), "linear, factor null": dict(rope_type="linear", factor=None), "linear below 1": dict(rope_type="linear", factor=0.5),
        "linear with theta": dict(rope_type="linear", factor=4.0, rope_theta=5000.0), "theta": dict(rope_type="default", rope_theta=5000.0), "theta alone": dict(rope_theta=5000.0), "theta null": dict(rope_type="default", rope_theta=None),
        "partial": dict(rope_type="default", partial_rotary_factor=0.5), "linear partial": dict(rope_type="linear", factor=4.0, partial_rotary_factor=0.5),
        "dynamic": dict(rope_type="dynamic", factor=2.0), "unknown": dict(rope_type="spiral", factor=2.0), "type null": dict(rope_type=None, factor=2.0), "proportional": dict(rope_type="proportional", partial_rotary_factor=0.5),
        "llama3": {**llama3, **original}, "llama3 by type": {**llama3, **original, "rope_type": None, "type": "llama3"}, "llama3, no original": llama3, "llama3, original null": {**llama3, "original_max_position_embeddings": None},
        "llama3, no low": {**{k: v for k, v in llama3.items() if k != "low_freq_factor"}, **original}, "llama3, equal bounds": {**llama3, **original, "high_freq_factor": 1.0}, "llama3 partial": {**llama3, **original, "partial_rotary_factor": 0.5},
        "yarn": {**yarn, **original}, "yarn by type": dict(type="yarn", factor=4.0, **original), "yarn, no original": yarn, "yarn, original null": {**yarn, "original_max_position_embeddings": None},
        "yarn, factor null": {**yarn, **original, "factor": None}, "yarn, no factor": dict(rope_type="yarn", **original), "yarn, not truncated": {**yarn, **original, "truncate": False},
        "yarn, betas": {**yarn, **original, "beta_fast": 16, "beta_slow": 2.0}, "yarn, betas null": {**yarn, **original, "beta_fast": None, "beta_slow": None}, "yarn, betas 0": {**yarn, **original, "beta_fast": 0, "beta_slow": 0},
        "yarn, attention": {**yarn, **original, "attention_factor": 1.25}, "yarn, attention null": {**yarn, **original, "attention_factor": None}, "yarn, mscale": {**yarn, **original, "mscale": 0.7}, "yarn, mscales": {**yarn, **original, "mscale": 0.7, "mscale_all_dim": 1.0},
        "yarn, mscales null": {**yarn, **original, "mscale": None, "mscale_all_dim": None}, "yarn partial": {**yarn, **original, "partial_rotary_factor": 0.5}, "yarn with theta": {**yarn, **original, "rope_theta": 5000.0}, "yarn below 1": {**yarn, **original, "factor": 0.5},
        "longrope": {**longrope, **original}, "longrope by type": dict(type="longrope", short_factor=short, long_factor=long, **original), "su": dict(type="su", short_factor=short, long_factor=long, **original),
        "longrope, no original": longrope, "longrope, factor": {**longrope, **original, "factor": 3.0}, "longrope, attention": {**longrope, **original, "attention_factor": 1.5}, "longrope, factor null": {**longrope, **original, "factor": None},
        "longrope, no long": {**{k: v for k, v in longrope.items() if k != "long_factor"}, **original}, "longrope, too few": {**longrope, **original, "short_factor": short[:-1]},
    }


# Scalings for forms in which their spelling is not what matters.
SOME = ("empty", "default", "linear", "linear by type", "linear with theta", "theta alone", "theta null", "partial", "llama3", "llama3, no original", "yarn", "yarn, no original", "yarn with theta", "longrope", "su")


def cases(family):
    """(name, configuration) of every form."""
    new, old = bases(family)
    gemma3 = "full_attention" in new["rope_parameters"]
    pairs = new.get("head_dim", 16) // 2
    yield "", new
    yield "old form", old

    for form, base in (("", new), ("old form, ", old)):
        for key in base:
            yield f"{form}no {key}", {k: v for k, v in base.items() if k != key}
            if base[key] is not None:
                yield f"{form}{key} null", {**base, key: None}
    for name, s in scalings(pairs).items():
        theta = new["rope_parameters"].get("rope_theta")
        if gemma3:
            flat = {"rope_theta": 1e6, **s}
            yield f"nested {name}", {**new, "rope_parameters": {**new["rope_parameters"], "full_attention": flat}}
            yield f"nested local {name}", {**new, "rope_parameters": {**new["rope_parameters"], "sliding_attention": {"rope_theta": 1e4, **s}}}
            yield f"rope_parameters {name}", {**new, "rope_parameters": flat}
        else:
            yield f"rope_parameters {name}", {**new, "rope_parameters": {"rope_theta": theta, **s}}
            if name in SOME:
                yield f"rope_parameters {name}, theta outside", {**new, "rope_parameters": s, "rope_theta": 20000.0}
        yield f"rope_scaling {name}", {**old, "rope_scaling": s}
        if name in SOME:
            yield f"both {name}", {**new, "rope_scaling": s}
        if "yarn" in name or "llama3" in name or "longrope" in name:
            yield f"rope_scaling {name}, original outside", {**old, "rope_scaling": s, "original_max_position_embeddings": 16}
    nested = {"full_attention": {"rope_theta": 5000.0, "rope_type": "default"}, "sliding_attention": {"rope_theta": 700.0, "rope_type": "linear", "factor": 2.0}}
    for name, patch in {
        "layer-keyed": {"rope_parameters": nested}, "layer-keyed, one": {"rope_parameters": {"full_attention": nested["full_attention"]}},
        "layer-keyed, null": {"rope_parameters": {**nested, "sliding_attention": None}}, "layer-keyed and flat": {"rope_parameters": {**nested, "rope_theta": 300.0, "rope_type": "default"}},
        "theta inside and outside": {"rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"}, "rope_theta": 20000.0},
        "theta outside": {"rope_theta": 20000.0}, "theta an integer": {"rope_theta": 20000}, "partial outside": {"partial_rotary_factor": 0.5}, "partial outside, 1": {"partial_rotary_factor": 1.0},
        "local base outside": {"rope_local_base_freq": 300.0}, "original outside": {"original_max_position_embeddings": 16},
        "causal false": {"is_causal": False}, "bidirectional": {"use_bidirectional_attention": True}, "eps 0": {"rms_norm_eps": 0.0}, "eps an integer": {"rms_norm_eps": 1}, "both dtypes": {"dtype": "float32", "torch_dtype": "bfloat16"},
        "eos a list": {"eos_token_id": [2, 7]}, "eos -1": {"eos_token_id": -1}, "bos -1": {"bos_token_id": -1}, "eos beyond": {"eos_token_id": 48}, "eos empty": {"eos_token_id": []},
        "one kv head": {"num_key_value_heads": 1}, "kv heads 3": {"num_key_value_heads": 3}, "tied": {"tie_word_embeddings": True}, "untied": {"tie_word_embeddings": False},
        "attention bias": {"attention_bias": True}, "mlp bias": {"mlp_bias": True}, "both biases": {"attention_bias": True, "mlp_bias": True},
        "head_dim 32": {"head_dim": 32}, "head_dim 0": {"head_dim": 0}, "head_dim 6": {"head_dim": 6}, "heads do not divide": {"num_attention_heads": 6, "num_key_value_heads": 2},
        **{f"act {a}": {k: a} for a in ("silu", "swish", "relu2", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu") for k in ["hidden_activation" if family in ("gemma2", "gemma3_text") else "hidden_act"]},
        "two activations": {"hidden_act": "silu", "hidden_activation": "gelu_pytorch_tanh"}, "two activations, swapped": {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "silu"}, "hidden_activation null": {"hidden_activation": None},
        "softcaps": {"attn_logit_softcapping": 20.0, "final_logit_softcapping": 15.0}, "query scale": {"query_pre_attn_scalar": 64},
        "unknown key": {"frobnication": 3}, "pretraining_tp": {"pretraining_tp": 2}, "attention_multiplier": {"attention_multiplier": 0.5}, "layer override": {"per_layer_config": {"1": {"sliding_window": 4}}},
        **{f"window {w}": {"sliding_window": w} for w in (4, 1, 0, 100, -1)},
        "window 4 in use": {"sliding_window": 4, "use_sliding_window": True}, "window used": {"use_sliding_window": True}, "window in use from 1": {"sliding_window": 4, "use_sliding_window": True, "max_window_layers": 1},
        "window in use from 0": {"sliding_window": 4, "use_sliding_window": True, "max_window_layers": 0}, "max_window_layers 0": {"max_window_layers": 0},
        "window in use, not used": {"sliding_window": 4, "use_sliding_window": False},
        "pattern 2": {"sliding_window_pattern": 2}, "_pattern 2": {"_sliding_window_pattern": 2}, "both patterns": {"sliding_window_pattern": 2, "_sliding_window_pattern": 3}, "pattern 1": {"sliding_window_pattern": 1},
    }.items():
        yield name, {**new, **patch}
        yield "old form, " + name, {**old, **patch}
    kinds = {"full": ["full_attention"] * 3, "sliding": ["sliding_attention"] * 3, "mixed": ["full_attention", "sliding_attention", "full_attention"],
             "two": ["full_attention"] * 2, "chunked": ["chunked_attention"] * 3, "nonsense": ["half_attention"] * 3, "linear": ["linear_attention"] * 3}
    for name, types in kinds.items():
        for window in ({}, {"sliding_window": 4}, {"sliding_window": 4, "use_sliding_window": True}, {"sliding_window": None}):
            yield f"layer_types {name}, {json.dumps(window)}", {**new, "layer_types": types, **window}
    for other in FAMILIES:
        if other != family:
            yield f"model_type {other}", {**old, "model_type": other}
            yield f"architecture of {other}", {**old, "architectures": [FAMILIES[other][0] + "ForCausalLM"]}
    bits = dict(quant_method="bitnet")
    auto = dict(bits, linear_class="autobitlinear")
    if family in ("llama", "bitnet", "phi3"):
        for name, q in {
            "": bits, "null list": dict(bits, modules_to_not_convert=None), "offline auto": dict(auto, quantization_mode="offline"), "online": dict(auto, quantization_mode="online"), "auto": auto,
            "bitlinear online": dict(bits, linear_class="bitlinear", quantization_mode="online"), "unknown class": dict(bits, linear_class="trilinear"), "unknown mode": dict(auto, quantization_mode="later"), "rms norm": dict(auto, use_rms_norm=True), "class null": dict(bits, linear_class=None),
            **{f"skip {json.dumps(l)}": dict(auto, quantization_mode=mode, modules_to_not_convert=l) for mode in ("online", "offline") for l in (
                [], ["lm_head"], ["lm_head", "model.layers.0"], ["lm_head", "o_proj"], ["lm_head", "model.layers.1.mlp"], ["lm_head", "proj"], ["lm_head", r"model\.layers\.[01]\."],
                ["lm_head", "model.layers.*.mlp"], ["lm_head", "self_attn"], ["lm_head", "model.layers.1"], ["lm_head", "1.mlp.gate_proj"], ["lm_head.weight"], ["model"], ["head"], ["lm_head", "model.layers.(0|2)"])},
        }.items():
            yield f"quantization {name}", {**new, "quantization_config": q}


ACTIVATIONS = {"SiLUActivation": "silu", "SiLU": "silu", "ReLUSquaredActivation": "relu2", "GELUTanh": "gelu_tanh", "GELUActivation": "gelu", "NewGELUActivation": "gelu_tanh", "ReLU": "relu"}


def number(x):
    return float(f"{x:.6g}")


def answer(config):
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/config.json", "w") as f:
            json.dump(config, f)
        c = AutoConfig.from_pretrained(folder)
    with initialization.no_init_weights():
        model = AutoModelForCausalLM.from_config(c, attn_implementation="eager").eval()
    model.tie_weights()
    base, layer = model.model, model.model.layers[0]
    out = {
        "family": c.model_type, "layers": len(base.layers), "hidden": base.embed_tokens.weight.shape[1], "vocab": model.lm_head.weight.shape[0], "tied": model.lm_head.weight is base.embed_tokens.weight,
        "act": ACTIVATIONS.get(type(act := next(getattr(layer.mlp, a) for a in ("act_fn", "activation_fn") if hasattr(layer.mlp, a))).__name__, type(act).__name__),
        "eps": number(next(getattr(base.norm, a) for a in ("eps", "variance_epsilon") if hasattr(base.norm, a))),
        "positions": c.max_position_embeddings, "bos": c.bos_token_id, "eos": c.eos_token_id if isinstance(c.eos_token_id, list) else [] if c.eos_token_id is None else [c.eos_token_id],
        "linears": {n: list(m.weight.shape) + (["bias"] if m.bias is not None else []) for n, m in layer.named_modules() if isinstance(m, torch.nn.Linear)},
        "norms": sorted(n for n, m in layer.named_modules() if "RMSNorm" in type(m).__name__), "cap": getattr(c, "final_logit_softcapping", None) if c.model_type in ("gemma2", "gemma3_text") else None,
    }
    out.update(attention(model))
    out["quantized"] = quantized(c)
    return out


def attention(model):
    """What a forward pass hands to the attention of each layer."""
    module = sys.modules[type(model).__module__]
    seen, masks, angles = {}, {}, {}

    def mask(name):
        original = getattr(module, name)
        def wrapped(*args, **kwargs):
            m = original(*args, **kwargs)
            masks[id(m)] = (m, kwargs["config"].sliding_window if "sliding" in name else 0)
            return m
        return original, wrapped

    def attend(m, query, key, value, attention_mask, scaling, dropout=0.0, softcap=None, **kwargs):
        window, visible = 0, [TOKENS] * TOKENS
        if attention_mask is not None:
            kept, window = masks[id(attention_mask)]
            visible = (kept[0, 0] if kept.dtype == torch.bool else kept[0, 0] == 0).sum(-1).tolist()
        heads, dim = query.shape[1], query.shape[3]
        seen[m.layer_idx] = {"heads": heads, "kv": key.shape[1], "dim": dim, "scale": number(scaling), "softcap": softcap, "window": window or 0, "visible": visible}
        return torch.zeros(query.shape[0], query.shape[2], heads, dim), None

    def rotation(m, args, kwargs):
        cos, sin = (x[0, 1].double() for x in kwargs["position_embeddings"])
        cos, sin = cos[: len(cos) // 2], sin[: len(sin) // 2]
        angles[m.layer_idx] = {"angles": [number(a) for a in torch.atan2(sin, cos).tolist()], "size": number(torch.hypot(sin, cos).mean().item())}

    changed = {n: mask(n) for n in ("create_causal_mask", "create_sliding_window_causal_mask") if hasattr(module, n)}
    changed["eager_attention_forward"] = (module.eager_attention_forward, attend)
    hooks = [l.self_attn.register_forward_pre_hook(rotation, with_kwargs=True) for l in model.model.layers]
    try:
        for n, (_, new) in changed.items():
            setattr(module, n, new)
        with torch.no_grad():
            model(torch.arange(TOKENS)[None] % model.config.vocab_size, use_cache=False)
    finally:
        for n, (original, _) in changed.items():
            setattr(module, n, original)
        [h.remove() for h in hooks]
    every = [{**seen[i], **angles[i]} for i in sorted(seen)]
    return {key: values[0] if all(v == values[0] for v in values) else values for key in every[0] for values in [[l[key] for l in every]]}


def quantized(c):
    """What loading would put in the place of linear layers, and those that it would leave."""
    if getattr(c, "quantization_config", None) is None:
        return None
    q = AutoHfQuantizer.from_config(c.quantization_config, pre_quantized=True)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(c)
    q._process_model_before_weight_loading(model)
    kinds, floats = set(), []
    for n, m in model.named_modules():
        if type(m).__name__ in ("BitLinear", "AutoBitLinear"):
            kind = "divides" if type(m).__name__ == "BitLinear" else "online" if m.online_quant else "multiplies"
            kinds.add(kind + (", norm" if m.rms_norm is not None else ""))
        elif isinstance(m, torch.nn.Linear):
            floats.append(n)
    return {"kind": "".join(kinds), "floats": sorted(floats)}


def main():
    for family in sys.argv[1:] or FAMILIES:
        known, told = set(), {}  # by form: its base and the answer to it
        for name, config in cases(family):
            text = json.dumps(config)
            if text in known:
                continue
            known.add(text)
            try:
                got = {"answer": answer(copy.deepcopy(config))}
            except Exception as e:
                got = {"error": re.sub(r"/\S*/tmp\w+|\s+", " ", f"{type(e).__name__}: {e}")[:80]}
            form = family + ("/old" if "torch_dtype" in config and "dtype" not in config else "/new")
            if form not in told:
                told[form] = config, got["answer"]
                line = {"form": form, "config": config, **got}
            else:
                base, same = told[form]
                line = {"name": name, "of": form, "set": {k: v for k, v in config.items() if k not in base or json.dumps(base[k]) != json.dumps(v)}, "drop": [k for k in base if k not in config], **got}
                if "answer" in got:
                    line["answer"] = {k: v for k, v in got["answer"].items() if same[k] != v}
            print(json.dumps({k: v for k, v in line.items() if v or k == "answer"}, separators=(",", ":"), ensure_ascii=False))


main()
