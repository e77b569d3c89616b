#!/usr/bin/env python3
"""An independent forward pass in float64, and the golden logits that it gives for miniatures of every model family.

It reads a checkpoint directory (config.json, *.safetensors) and knows the families from the definitions of their authors; it
shares no code with the Go program and none of its formats. Only numpy is needed (Debian: python3-numpy).

  reference.py CHECKPOINT TOKEN,TOKEN,…        prints the arg-max and the largest logits of every position
  reference.py --golden PROGRAM OUT            writes miniatures with `PROGRAM synth`, and their golden logits to OUT

Two kinds of logits: "float", where every linear layer multiplies its stored weights with float activations; and "int8", where
the linear layers of the blocks first round their input to int8, one scale per token, as BitNet models do. Weights that a
checkpoint declares as masters of ternary ones are made ternary in both.
"""
import glob
import hashlib
import json
import math
import os
import statistics
import struct
import subprocess
import sys
import tempfile

import numpy as np


# ---- files ---------------------------------------------------------------------------------------------------------------

def read_safetensors(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = f.read()
    out = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        raw = data[info["data_offsets"][0]:info["data_offsets"][1]]
        kind = info["dtype"]
        if kind == "BF16":
            a = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        elif kind == "U8":
            a = np.frombuffer(raw, np.uint8)
        else:
            a = np.frombuffer(raw, {"F16": "<f2", "F32": "<f4", "F64": "<f8"}[kind]).astype(np.float64)
        out[name] = a.reshape(info["shape"])
    return out


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name in sorted(tensors):
        raw = tensors[name].astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


# ---- building blocks -----------------------------------------------------------------------------------------------------

def rmsnorm(x, w, eps, plus_one):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * (1 + w if plus_one else w)


def layernorm(x, w, b, eps, plus_one):
    d = x - np.mean(x, axis=-1, keepdims=True)
    y = d / np.sqrt(np.mean(d * d, axis=-1, keepdims=True) + eps) * (1 + w if plus_one else w)
    return y if b is None else y + b


def absmean(w):
    """Ternary weights of masters: rounded in float32 as training does it."""
    w = w.astype(np.float32)
    mean = np.maximum(np.float32(np.mean(np.abs(w).astype(np.float64))), np.float32(1e-5))
    return np.clip(np.rint(w * (np.float32(1) / mean)), -1, 1).astype(np.float64) * float(mean)


def unpack(u8, rows):
    """Codes of packed checkpoints: byte (r, k) holds rows r, r+R, r+2R, r+3R of column k, lowest bits first, code = weight + 1."""
    parts = [((u8 >> (2 * i)) & 3).astype(np.float64) - 1 for i in range(4)]
    return np.concatenate(parts)[:rows]


def rounded(x):
    """Activations rounded to int8, per token, and back."""
    biggest = np.maximum(np.max(np.abs(x), axis=-1, keepdims=True), 1e-5)
    return np.clip(np.rint(x * (127 / biggest)), -127, 127) * (biggest / 127)


def silu(x):
    return x / (1 + np.exp(-x))


def relu2(x):
    return np.maximum(x, 0) ** 2


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


def softplus(x):
    return np.log1p(np.exp(x))


def softmax(z):
    e = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def frequencies(theta, dim, scaling, config):
    """The angle per position of each pair, and what its cosine and sine are multiplied by."""
    inv = theta ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    kind = (scaling or {}).get("rope_type", (scaling or {}).get("type", "default"))
    if kind == "linear":
        return inv / scaling["factor"], 1
    if kind == "llama3":
        low, high, old = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["original_max_position_embeddings"]
        wave = 2 * np.pi / inv
        smooth = (old / wave - low) / ((high - low) or 1)  # nothing is between equal ones
        between = (1 - smooth) * inv / scaling["factor"] + smooth * inv
        return np.where(wave < old / high, inv, np.where(wave > old / low, inv / scaling["factor"], between)), 1
    if kind == "yarn":
        factor, old = scaling["factor"], scaling.get("original_max_position_embeddings", config["max_position_embeddings"])
        pair = lambda turns: dim * np.log(old / (turns * 2 * np.pi)) / (2 * np.log(theta))
        low, high = pair(scaling.get("beta_fast", 32)), pair(scaling.get("beta_slow", 1))
        if scaling.get("truncate", True):
            low, high = np.floor(low), np.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        stretched = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
        grown = lambda m: 0.1 * m * np.log(factor) + 1
        default = grown(1)
        if scaling.get("mscale") and scaling.get("mscale_all_dim"):
            default = grown(scaling["mscale"]) / grown(scaling["mscale_all_dim"])
        return inv / factor * stretched + inv * (1 - stretched), scaling.get("attention_factor", default)
    if kind == "longrope":  # the text is shorter than the original length, so the short factors apply
        old = config["original_max_position_embeddings"]
        wider = config["max_position_embeddings"] / old
        return inv / np.array(scaling["short_factor"]), scaling.get("short_mscale", scaling.get("attention_factor", np.sqrt(1 + np.log(wider) / np.log(old))))
    assert kind == "default", kind
    return inv, 1


def rotate(x, inv, amplitude, adjacent=False):
    """x: [positions, heads, dim]; pairs (i, i + n/2), or (2i, 2i + 1), of the first n values turn by position × inv[i]."""
    angle, n = np.arange(x.shape[0])[:, None, None] * inv, 2 * len(inv)
    first, second = (slice(0, n, 2), slice(1, n, 2)) if adjacent else (slice(0, n // 2), slice(n // 2, n))
    a, b, c, s = x[..., first], x[..., second], amplitude * np.cos(angle), amplitude * np.sin(angle)
    y = x.copy()
    y[..., first], y[..., second] = a * c - b * s, b * c + a * s
    return y


# What the blocks of a class have that those of Llama have not: LayerNorms, norms of 1 + w, adjacent values that turn together,
# the share of a head that turns, an MLP of two layers, attention and MLP in parallel, a tied head unless the file says otherwise.
TRAITS = {
    "BambaForCausalLM": dict(share=0.5, norms=("input_layernorm", "pre_ff_layernorm"), final="model.final_layernorm", mlp="feed_forward"),
    "ArceeForCausalLM": dict(plain=("up_proj", "down_proj")),
    "Ernie4_5ForCausalLM": dict(adjacent=True, tied=True),
    "Ernie4_5_MoeForCausalLM": dict(adjacent=True, tied=True),
    "HeliumForCausalLM": dict(adjacent=True),
    "GlmForCausalLM": dict(adjacent=True, share=0.5),
    "Glm4ForCausalLM": dict(adjacent=True, share=0.5, sandwich=True),
    "NemotronForCausalLM": dict(layer=True, plus_one=True, share=0.5, plain=("up_proj", "down_proj")),
    "Starcoder2ForCausalLM": dict(layer=True, plain=("c_fc", "c_proj"), tied=True),
    "StableLmForCausalLM": dict(layer=True, share=0.25),
    "OlmoForCausalLM": dict(layer=True),
    "CohereForCausalLM": dict(layer=True, adjacent=True, parallel=True, tied=True),
    "Cohere2ForCausalLM": dict(layer=True, adjacent=True, parallel=True, tied=True),
    "ApertusForCausalLM": dict(plain=("up_proj", "down_proj"), norms=("attention_layernorm", "feedforward_layernorm")),
    "Qwen3NextForCausalLM": dict(plus_one=True, share=0.25),
    "Qwen3_5ForCausalLM": dict(plus_one=True, share=0.25),
    "Qwen3_5MoeForCausalLM": dict(plus_one=True, share=0.25),
    "JambaForCausalLM": dict(norms=("input_layernorm", "pre_ff_layernorm"), final="model.final_layernorm", mlp="feed_forward", still=True),
    "FalconH1ForCausalLM": dict(norms=("input_layernorm", "pre_ff_layernorm"), final="model.final_layernorm"),
    "PhiMoEForCausalLM": dict(layer=True),
    "Llama4ForCausalLM": dict(adjacent=True),
    "PhiForCausalLM": dict(layer=True, share=0.5, plain=("fc1", "fc2"), parallel=True, final="model.final_layernorm"),
}


EARLY = ("GPT2LMHeadModel", "GPTNeoXForCausalLM", "OPTForCausalLM", "BloomForCausalLM")


# ---- the model -----------------------------------------------------------------------------------------------------------

class Model:
    def __init__(self, directory):
        self.c = c = json.load(open(os.path.join(directory, "config.json")))
        self.t = {}
        for path in sorted(glob.glob(os.path.join(directory, "*.safetensors"))):
            self.t.update(read_safetensors(path))
        self.arch = c["architectures"][0]
        self.int8 = self.masters = False
        self.gemma = self.arch.startswith("Gemma") and not self.arch.startswith(("Gemma3n", "Gemma4"))
        self.traits = TRAITS.get(self.arch, {})
        if self.arch in (*EARLY, "Mamba2ForCausalLM", "MambaForCausalLM", "FalconMambaForCausalLM"):
            return
        self.heads = c["num_attention_heads"]
        self.kv = c.get("num_key_value_heads") or self.heads
        self.dim = c.get("head_dim") or c["hidden_size"] // self.heads
        self.eps = next((c[k] for k in ("rms_norm_eps", "layer_norm_eps", "norm_eps", "norm_epsilon") if k in c), 1e-5)
        act = c.get("hidden_activation") or c.get("hidden_act", "silu")
        self.act = {"silu": silu, "relu2": relu2, "gelu_pytorch_tanh": gelu_tanh, "gelu": gelu_tanh if self.gemma else None, "gelu_new": gelu_tanh, "xielu": None}[act]
        q = c.get("quantization_config") or {}
        self.divides = q.get("linear_class", "bitlinear") == "bitlinear"
        self.masters = q.get("quantization_mode") == "online" or (self.arch == "BitnetForCausalLM" and not q)

    def weight(self, name):
        w = self.t[name]
        if w.dtype == np.uint8:
            scale = float(self.t[name + "_scale"].reshape(-1)[0])
            return unpack(w, 4 * w.shape[0]) * (1 / scale if self.divides else scale)
        return absmean(w) if self.masters else w

    def linear(self, prefix, x, rows=slice(None)):
        codes = self.arch != "GptOssForCausalLM"  # which has them in its experts alone
        y = (rounded(x) if self.int8 and codes else x) @ self.weight(prefix + ".weight")[rows].T
        bias = self.t.get(prefix + ".bias")
        return y if bias is None else y + bias[rows]

    def norm(self, name, x):
        if self.traits.get("layer"):
            w = self.t.get(name + ".weight", 0.0 if self.traits.get("plus_one") else 1.0)
            return layernorm(x, w, self.t.get(name + ".bias"), self.eps, self.traits.get("plus_one"))
        return rmsnorm(x, self.t[name + ".weight"], self.eps, self.gemma or self.traits.get("plus_one", False))

    def head_norm(self, name, x):
        """The norm of each head of x, with weights of all heads, or of each head in a tensor of its own."""
        if name + ".norms.0.weight" in self.t:
            return np.stack([self.norm(f"{name}.norms.{h}", x[:, h]) for h in range(x.shape[1])], axis=1)
        return self.norm(name, x)

    def is_local(self, i):
        """Whether layer i sees a window of positions only."""
        c = self.c
        if not c.get("sliding_window"):
            return False
        if c.get("layer_types"):
            return c["layer_types"][i] == "sliding_attention"
        if self.arch.startswith("Qwen"):
            return bool(c.get("use_sliding_window")) and i >= c["max_window_layers"]
        if self.arch == "Gemma2ForCausalLM":
            return i % 2 == 0
        if self.arch == "Gemma3ForCausalLM":
            return (i + 1) % c.get("sliding_window_pattern", c.get("_sliding_window_pattern", 6)) != 0
        if self.arch == "Cohere2ForCausalLM":
            return (i + 1) % c.get("sliding_window_pattern", 4) != 0
        return self.arch in ("MistralForCausalLM", "Phi3ForCausalLM", "PhiMoEForCausalLM", "Starcoder2ForCausalLM", "Ministral3ForCausalLM")

    def turns(self, i):
        """Whether layer i of Llama 4 rotates."""
        return bool(self.c["no_rope_layers"][i])

    def rope(self, local):
        c, params = self.c, self.c.get("rope_parameters") or {}
        if "full_attention" in params:
            params = params["sliding_attention" if local else "full_attention"]
            return frequencies(params["rope_theta"], self.dim, params, c)
        if local and self.arch == "Gemma3ForCausalLM":
            return frequencies(c["rope_local_base_freq"], self.dim, None, c)
        if local and self.arch == "Olmo3ForCausalLM":
            return frequencies(c["rope_theta"], self.dim, None, c)
        scaling = c.get("rope_scaling") or {}
        if "alpha" in scaling:  # HunYuan: another base
            return frequencies(c["rope_theta"] * scaling["alpha"] ** (self.dim / (self.dim - 2)), self.dim, None, c)
        share = params.get("partial_rotary_factor", c.get("partial_rotary_factor", self.traits.get("share", c.get("rotary_dim", self.dim) / self.dim)))
        return frequencies(params.get("rope_theta", c.get("rope_theta", 10000.0)), int(self.dim * share), params or c.get("rope_scaling"), c)

    def latent_attention(self, prefix, x):
        """Keys and values of all heads from one compressed vector, and one rotated part of all keys (DeepSeek)."""
        c, n = self.c, x.shape[0]
        rank, nope, rot, dv = c["kv_lora_rank"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        norm = lambda name, v: rmsnorm(v, self.t[prefix + name + ".weight"], 1e-6, False)
        if c.get("q_lora_rank"):
            q = self.linear(prefix + "q_b_proj", norm("q_a_layernorm", self.linear(prefix + "q_a_proj", x)))
        else:
            q = self.linear(prefix + "q_proj", x)
        q = q.reshape(n, self.heads, nope + rot)
        low = self.linear(prefix + "kv_a_proj_with_mqa", x)
        kv = self.linear(prefix + "kv_b_proj", norm("kv_a_layernorm", low[:, :rank])).reshape(n, self.heads, nope + dv)
        s = c["rope_scaling"]
        m = lambda k: 0.1 * k * np.log(s["factor"]) + 1
        inv, _ = frequencies(c["rope_theta"], rot, {**s, "rope_type": "yarn"}, c)
        turn = lambda v: rotate(v, inv, m(s["mscale"]) / m(s["mscale_all_dim"]), True)
        q_rot, k_rot = turn(q[..., nope:]), turn(low[:, None, rank:])
        scale = (nope + rot) ** -0.5 * m(s["mscale_all_dim"]) ** 2
        z = (np.einsum("qhd,khd->hqk", q[..., :nope], kv[..., :nope]) + np.einsum("qhd,kd->hqk", q_rot, k_rot[:, 0])) * scale
        z = np.where(np.arange(n)[None, :] <= np.arange(n)[:, None], z, -np.inf)
        o = np.einsum("hqk,khd->qhd", softmax(z), kv[..., nope:]).reshape(n, self.heads * dv)
        return self.linear(prefix + "o_proj", o)

    def attention(self, i, prefix, x):
        if self.arch.startswith("Deepseek"):
            return self.latent_attention(prefix, x)
        n, group = x.shape[0], self.heads // self.kv
        q_rows, kv_rows = self.heads * self.dim, self.kv * self.dim
        if prefix + "qkv_proj.weight" in self.t:
            parts = [slice(0, q_rows), slice(q_rows, q_rows + kv_rows), slice(q_rows + kv_rows, q_rows + 2 * kv_rows)]
            q, k, v = (self.linear(prefix + "qkv_proj", x, p) for p in parts)
        else:
            q, k, v = (self.linear(prefix + p, x) for p in ("q_proj", "k_proj", "v_proj"))
        gate = None
        if q.shape[1] == 2 * q_rows:  # of each head, queries and then the gate of its output
            q, gate = (part.reshape(n, q_rows) for part in np.split(q.reshape(n, self.heads, 2 * self.dim), 2, axis=2))
        if self.c.get("clip_qkv"):
            q, k, v = (np.clip(x, -self.c["clip_qkv"], self.c["clip_qkv"]) for x in (q, k, v))
        whole = self.arch in ("Olmo2ForCausalLM", "Olmo3ForCausalLM", "OlmoeForCausalLM", "MiniMaxM2ForCausalLM")
        if whole:  # norms over all heads at once
            q, k = self.norm(prefix + "q_norm", q), self.norm(prefix + "k_norm", k)
        sinks = self.t.get(prefix + "sinks")
        q, k, v = q.reshape(n, self.heads, self.dim), k.reshape(n, self.kv, self.dim), v.reshape(n, self.kv, self.dim)
        if prefix + "q_norm.weight" in self.t and not whole:
            q, k = self.norm(prefix + "q_norm", q), self.norm(prefix + "k_norm", k)
        if prefix + "q_layernorm.norms.0.weight" in self.t:
            q, k = self.head_norm(prefix + "q_layernorm", q), self.head_norm(prefix + "k_layernorm", k)
        if prefix + "q_layernorm.weight" in self.t:
            q, k = self.norm(prefix + "q_layernorm", q), self.norm(prefix + "k_layernorm", k)
        turn = *self.rope(self.is_local(i)), self.traits.get("adjacent", False)
        llama4 = self.arch == "Llama4ForCausalLM"
        still = self.traits.get("still") or llama4 and not self.turns(i) or self.arch == "SmolLM3ForCausalLM" and (i + 1) % self.c["no_rope_layer_interval"] == 0 or self.c.get("position_embedding_type") == "nope"
        if not still and not (self.arch == "Cohere2ForCausalLM" and not self.is_local(i)):
            q, k = rotate(q, *turn), rotate(k, *turn)
        if llama4 and not still and self.c["use_qk_norm"]:
            q, k = rmsnorm(q, 1, self.eps, False), rmsnorm(k, 1, self.eps, False)
        if llama4 and still and self.c["attn_temperature_tuning"]:
            q = q * (1 + self.c["attn_scale"] * np.log(1 + (np.arange(n) + 1) // self.c["floor_scale"]))[:, None, None]
        if self.arch == "Ministral3ForCausalLM":
            r = self.c["rope_parameters"]
            q = q * (1 + r["llama_4_scaling_beta"] * np.log(1 + np.arange(n) // r["original_max_position_embeddings"]))[:, None, None]
        if prefix + "query_layernorm.weight" in self.t:  # HunYuan: behind the rotation
            q, k = self.norm(prefix + "query_layernorm", q), self.norm(prefix + "key_layernorm", k)
        k = k * self.c.get("key_multiplier", 1)
        scale = self.c.get("attention_multiplier", self.c.get("query_pre_attn_scalar", self.dim) ** -0.5)
        z = np.einsum("qhd,khd->hqk", q, np.repeat(k, group, axis=1)) * scale
        cap = self.c.get("attn_logit_softcapping")
        if cap:
            z = cap * np.tanh(z / cap)
        at, to = np.arange(n)[:, None], np.arange(n)[None, :]
        seen = to <= at
        if self.is_local(i):
            seen &= to > at - self.c["sliding_window"]
        if llama4 and not still:  # chunks of the text
            seen &= to // self.c["attention_chunk_size"] == at // self.c["attention_chunk_size"]
        z = np.where(seen, z, -np.inf)
        if sinks is None:
            share = softmax(z)
        else:  # one more logit per head, whose share nobody gets
            share = softmax(np.concatenate([z, np.broadcast_to(sinks[:, None, None], (self.heads, n, 1))], axis=-1))[..., :-1]
        o = np.einsum("hqk,khd->qhd", share, np.repeat(v, group, axis=1)).reshape(n, q_rows)
        if gate is not None:
            o = o / (1 + np.exp(-gate))
        for name in ("attn_sub_norm", "inner_attn_ln"):
            if prefix + name + ".weight" in self.t:
                o = self.norm(prefix + name, o)
        return self.linear(prefix + next(n for n in ("o_proj", "dense", "out_proj") if prefix + n + ".weight" in self.t), o)

    def short_conv(self, prefix, x):
        """LFM2: B, C and u are thirds; C times the causal convolution of B times u, a filter per channel."""
        b, c, u = np.split(self.linear(prefix + "in_proj", x), 3, axis=-1)
        w = self.t[prefix + "conv.weight"][:, 0]  # [channels, width], the last one for the position itself
        padded = np.concatenate([np.zeros((w.shape[1] - 1, w.shape[0])), b * u])
        y = sum(padded[k:k + len(x)] * w[:, k] for k in range(w.shape[1]))
        return self.linear(prefix + "out_proj", c * (y + self.t.get(prefix + "conv.bias", 0)))

    def mamba2(self, prefix, x):
        """z, x, B, C and the step of each head; a state that decays and takes x ⊗ B in, whose product with C comes out."""
        names = ["num_heads", "n_groups", "head_dim", "state_size"] if self.arch == "Mamba2ForCausalLM" else ["mamba_" + k for k in ("n_heads", "n_groups", "d_head", "d_state")]
        heads, groups, size, n = (self.c[k] for k in names)
        inner = heads * size
        rows = self.linear(prefix + "in_proj", x)
        if "ssm_multipliers" in self.c:  # Falcon-H1
            rows = rows * self.c["ssm_in_multiplier"] * np.repeat(self.c["ssm_multipliers"], [inner, inner, groups * n, groups * n, heads])
        z, xbc, step = np.split(rows, [inner, 2 * inner + 2 * groups * n], axis=-1)
        w = self.t[prefix + "conv1d.weight"][:, 0]
        padded = np.concatenate([np.zeros((w.shape[1] - 1, w.shape[0])), xbc])
        xbc = silu(sum(padded[k:k + len(x)] * w[:, k] for k in range(w.shape[1])) + self.t.get(prefix + "conv1d.bias", 0))
        step = np.log1p(np.exp(step + self.t[prefix + "dt_bias"]))
        state, y = np.zeros((heads, size, n)), np.zeros((len(x), heads, size))
        for t in range(len(x)):
            u, b, c = xbc[t, :inner].reshape(heads, size), *(np.repeat(v.reshape(groups, n), heads // groups, axis=0) for v in np.split(xbc[t, inner:], 2))
            state *= np.exp(-np.exp(self.t[prefix + "A_log"]) * step[t])[:, None, None]
            state += np.einsum("h,hp,hn->hpn", step[t], u, b)
            y[t] = np.einsum("hpn,hn->hp", state, c) + self.t[prefix + "D"][:, None] * u
        if prefix + "norm.weight" not in self.t:
            return self.linear(prefix + "out_proj", y.reshape(len(x), inner) * silu(z))
        y = (y.reshape(len(x), inner) * silu(z)).reshape(len(x), groups, -1)
        return self.linear(prefix + "out_proj", rmsnorm(y, 1, self.eps, False).reshape(len(x), inner) * self.t[prefix + "norm.weight"])

    def delta_rule(self, prefix, x):
        """A matrix for each value head decays, and takes in by how much its answer to the key misses the value; its answer to the query comes out."""
        c, n = self.c, len(x)
        kh, vh, dk, dv = (c["linear_" + k] for k in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim"))
        many = vh // kh
        if prefix + "in_proj_qkvz.weight" in self.t:
            q, k, v, z = np.split(self.linear(prefix + "in_proj_qkvz", x).reshape(n, kh, -1), np.cumsum([dk, dk, many * dv]), axis=2)
            b, a = np.split(self.linear(prefix + "in_proj_ba", x).reshape(n, kh, -1), 2, axis=2)
            qkv = np.concatenate([y.reshape(n, -1) for y in (q, k, v)], axis=1)
        else:
            qkv, z, b, a = (self.linear(prefix + "in_proj_" + k, x) for k in ("qkv", "z", "b", "a"))
        z, b, a = z.reshape(n, vh, dv), b.reshape(n, vh), a.reshape(n, vh)
        w = self.t[prefix + "conv1d.weight"][:, 0]
        padded = np.concatenate([np.zeros((w.shape[1] - 1, w.shape[0])), qkv])
        qkv = silu(sum(padded[i:i + n] * w[:, i] for i in range(w.shape[1])))
        q, k, v = (y.reshape(n, -1, d) for y, d in zip(np.split(qkv, [kh * dk, 2 * kh * dk], axis=1), (dk, dk, dv)))
        q, k = (np.repeat(y / np.sqrt((y * y).sum(axis=-1, keepdims=True) + 1e-6), many, axis=1) for y in (q, k))
        state, o = np.zeros((vh, dk, dv)), np.zeros((n, vh, dv))
        decay = np.exp(-np.exp(self.t[prefix + "A_log"]) * softplus(a + self.t[prefix + "dt_bias"]))
        for t in range(n):
            state *= decay[t][:, None, None]
            missed = v[t] - np.einsum("hkv,hk->hv", state, k[t])
            state += np.einsum("hk,hv->hkv", k[t], missed / (1 + np.exp(-b[t]))[:, None])
            o[t] = np.einsum("hkv,hk->hv", state, q[t]) / np.sqrt(dk)
        return self.linear(prefix + "out_proj", (rmsnorm(o, self.t[prefix + "norm.weight"], self.eps, False) * silu(z)).reshape(n, -1))

    def mamba(self, prefix, x):
        """x and z; steps, B and C made of x behind its convolution; a state that decays and takes step·x ⊗ B in, whose product with C comes out."""
        x, z = np.split(self.linear(prefix + "in_proj", x), 2, axis=-1)
        w = self.t[prefix + "conv1d.weight"][:, 0]
        padded = np.concatenate([np.zeros((w.shape[1] - 1, w.shape[0])), x])
        x = silu(sum(padded[k:k + len(x)] * w[:, k] for k in range(w.shape[1])) + self.t.get(prefix + "conv1d.bias", 0))
        n, rank = self.t[prefix + "A_log"].shape[1], self.t[prefix + "dt_proj.weight"].shape[1]
        parts = np.split(self.linear(prefix + "x_proj", x), [rank, rank + n], axis=-1)
        if self.arch == "FalconMambaForCausalLM":
            parts = [rmsnorm(p, 1, self.c.get("mixer_rms_eps", 1e-6), False) for p in parts]
        if self.arch == "JambaForCausalLM":
            parts = [rmsnorm(p, self.t[prefix + name + "_layernorm.weight"], self.eps, False) for p, name in zip(parts, ("dt", "b", "c"))]
        step = softplus(self.linear(prefix + "dt_proj", parts[0]))
        state, y = np.zeros((x.shape[1], n)), np.zeros_like(x)
        for t in range(len(x)):
            state = np.exp(-np.exp(self.t[prefix + "A_log"]) * step[t][:, None]) * state + (step[t] * x[t])[:, None] * parts[1][t]
            y[t] = state @ parts[2][t] + self.t[prefix + "D"] * x[t]
        return self.linear(prefix + "out_proj", y * silu(z))

    def pure_mamba2(self, tokens):
        """Mamba or Mamba-2 layers alone."""
        self.eps = self.c["layer_norm_epsilon"]
        h = self.t["backbone.embeddings.weight"][tokens]
        layer = self.mamba2 if self.arch == "Mamba2ForCausalLM" else self.mamba
        for i in range(self.c["num_hidden_layers"]):
            h = h + layer(f"backbone.layers.{i}.mixer.", self.norm(f"backbone.layers.{i}.norm", h))
        return self.norm("backbone.norm_f", h) @ self.t.get("lm_head.weight", self.t["backbone.embeddings.weight"]).T

    def lfm2(self, tokens):
        h = self.t["model.embed_tokens.weight"][tokens]
        for i in range(self.c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            x = self.norm(p + "operator_norm", h)
            h = h + (self.attention(i, p + "self_attn.", x) if p + "self_attn.q_proj.weight" in self.t else self.short_conv(p + "conv.", x))
            x = self.norm(p + "ffn_norm", h)
            h = h + (self.routed(i, p + "feed_forward.", x) if p + "feed_forward.gate.weight" in self.t else self.gated(p + "feed_forward.", x, ("w1", "w3", "w2")))
        return self.norm("model.embedding_norm", h) @ self.t["model.embed_tokens.weight"].T

    def gemma3n(self, tokens):
        """Four residual streams, of which a block computes one; a vector for each token and layer; sparse gates; shared keys and values."""
        c, t, n, count = self.c, self.t, len(tokens), self.c["altup_num_inputs"]
        size, layers, at = c["hidden_size_per_layer_input"], c["num_hidden_layers"], c["altup_active_idx"]
        act, kept = gelu_tanh, {}
        apply = lambda name, x: x @ t[name + ".weight"].T
        rms = lambda x: np.sqrt(np.maximum(np.mean(x * x, axis=-1, keepdims=True), 1e-5))
        same = lambda y, x: y * np.sqrt(np.mean(x * x, axis=-1, keepdims=True)) / rms(y)
        e = t["model.embed_tokens.weight"][tokens] * np.sqrt(c["hidden_size"])
        ids = [i if i < c["vocab_size_per_layer_input"] else 0 for i in tokens]
        brought = self.norm("model.per_layer_projection_norm", (apply("model.per_layer_model_projection", e) / np.sqrt(c["hidden_size"])).reshape(n, layers, size))
        brought = (brought + t["model.embed_tokens_per_layer.weight"][ids].reshape(n, layers, size) * np.sqrt(size)) / np.sqrt(2)
        s = [e] + [same(apply(f"model.altup_projections.{j}", e), e) for j in range(count - 1)]
        for i in range(layers):
            p = f"model.layers.{i}."
            modes = lambda x: np.tanh(apply(p + "altup.modality_router", self.norm(p + "altup.router_norm", x) / c["hidden_size"]))
            coefs = apply(p + "altup.prediction_coefs", modes(s[at])).reshape(n, count, count)
            s = [s[j] + sum(coefs[:, j, k, None] * s[k] for k in range(count)) for j in range(count)]
            a = s[at]
            h = self.norm(p + "input_layernorm", a)
            laurel = h + self.norm(p + "laurel.post_laurel_norm", self.linear(p + "laurel.linear_right", self.linear(p + "laurel.linear_left", h)))
            u = (a + self.norm(p + "post_attention_layernorm", self.shared_attention(i, p + "self_attn.", h, kept)) + laurel) / np.sqrt(2)
            x = self.norm(p + "pre_feedforward_layernorm", u)
            gate, up = self.linear(p + "mlp.gate_proj", x), self.linear(p + "mlp.up_proj", x)
            if c["activation_sparsity_pattern"][i] > 0:
                least = np.mean(gate, axis=1, keepdims=True) + np.std(gate, axis=1, keepdims=True) * statistics.NormalDist().inv_cdf(c["activation_sparsity_pattern"][i])
                gate = np.maximum(gate - least, 0)
            o = u + self.norm(p + "post_feedforward_layernorm", self.linear(p + "mlp.down_proj", act(gate) * up))
            coefs = apply(p + "altup.correction_coefs", modes(o)) + 1
            s = [s[j] + (o - a) * coefs[:, j, None] for j in range(count)]
            x = s[at] * (t[p + "altup.correct_output_scale"] if c["altup_correct_scale"] else 1)
            x = self.norm(p + "post_per_layer_input_norm", self.linear(p + "per_layer_projection", act(self.linear(p + "per_layer_input_gate", x)) * brought[:, i]))
            s = s[:1] + [y + x for y in s[1:]]
        h = sum([s[0]] + [same(apply(f"model.altup_unembed_projections.{j}", s[j + 1]), s[0]) for j in range(count - 1)]) / count
        z = self.norm("model.norm", h) @ t["model.embed_tokens.weight"].T
        return c["final_logit_softcapping"] * np.tanh(z / c["final_logit_softcapping"])

    def shared_attention(self, i, prefix, x, kept):
        """Scores are not scaled; the last layers read the keys and values of the last earlier layer of their kind."""
        c, n = self.c, len(x)
        kind = c["layer_types"][i]
        inv, _ = frequencies(c["rope_local_base_freq"] if kind == "sliding_attention" else c["rope_theta"], self.dim, None, c)
        heads = lambda name: self.linear(prefix + name, x).reshape(n, -1, self.dim)
        q = rotate(self.norm(prefix + "q_norm", heads("q_proj")), inv, 1)
        if i < c["num_hidden_layers"] - c["num_kv_shared_layers"]:
            kept[kind] = rotate(self.norm(prefix + "k_norm", heads("k_proj")), inv, 1), rmsnorm(heads("v_proj"), 1, self.eps, False)
        k, v = (np.repeat(y, self.heads // self.kv, axis=1) for y in kept[kind])
        at, to = np.arange(n)[:, None], np.arange(n)[None, :]
        seen = (to <= at) & ((kind == "full_attention") | (to > at - c["sliding_window"]))
        z = np.where(seen, np.einsum("qhd,khd->hqk", q, k), -np.inf)
        return self.linear(prefix + "o_proj", np.einsum("hqk,khd->qhd", softmax(z), v).reshape(n, -1))

    def gemma4(self, tokens):
        """Heads of two sizes, values that are keys, shared keys and values, a vector for each token and layer, experts beside the MLP, a factor of each layer."""
        c, t, n, kept = self.c, self.t, len(tokens), {}
        hidden, layers, size = c["hidden_size"], c["num_hidden_layers"], c.get("hidden_size_per_layer_input", 0)
        kinds = c["layer_types"][:-1] + ["full_attention"]
        h = t["model.embed_tokens.weight"][tokens] * np.sqrt(hidden)
        if size:
            brought = (h @ t["model.per_layer_model_projection.weight"].T / np.sqrt(hidden)).reshape(n, layers, size)
            own = t["model.embed_tokens_per_layer.weight"][tokens].reshape(n, layers, size) * np.sqrt(size)
            brought = (self.norm("model.per_layer_projection_norm", brought) + own) / np.sqrt(2)
        for i in range(layers):
            p = f"model.layers.{i}."
            h = h + self.norm(p + "post_attention_layernorm", self.two_sizes(i, kinds[i], p + "self_attn.", self.norm(p + "input_layernorm", h), kept))
            y = self.gated(p + "mlp.", self.norm(p + "pre_feedforward_layernorm", h), ("gate_proj", "up_proj", "down_proj"))
            if c.get("enable_moe_block"):
                y = self.norm(p + "post_feedforward_layernorm_1", y) + self.norm(p + "post_feedforward_layernorm_2", self.beside(p, h))
            h = h + self.norm(p + "post_feedforward_layernorm", y)
            if size:
                u = gelu_tanh(self.linear(p + "per_layer_input_gate", h)) * brought[:, i]
                h = h + self.norm(p + "post_per_layer_input_norm", self.linear(p + "per_layer_projection", u))
            h = h * t[p + "layer_scalar"]
        z = self.norm("model.norm", h) @ t["model.embed_tokens.weight"].T
        return c["final_logit_softcapping"] * np.tanh(z / c["final_logit_softcapping"])

    def two_sizes(self, i, kind, prefix, x, kept):
        """Attention of a layer; full attention has heads of its own size, of which the first pairs rotate."""
        c, n, full = self.c, len(x), kind == "full_attention"
        dim, rope = c["global_head_dim"] if full else self.dim, c["rope_parameters"][kind]
        inv = rope["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
        if full:
            inv[int(rope["partial_rotary_factor"] * dim) // 2:] = 0
        heads = lambda name: self.linear(prefix + name, x).reshape(n, -1, dim)
        q = rotate(self.norm(prefix + "q_norm", heads("q_proj")), inv, 1)
        if i < c["num_hidden_layers"] - c["num_kv_shared_layers"]:
            k = heads("k_proj")
            v = k if full and c["attention_k_eq_v"] else heads("v_proj")
            kept[kind] = rotate(self.norm(prefix + "k_norm", k), inv, 1), rmsnorm(v, 1, self.eps, False)
        k, v = (np.repeat(y, self.heads // y.shape[1], axis=1) for y in kept[kind])
        at, to = np.arange(n)[:, None], np.arange(n)[None, :]
        seen = (to <= at) & (full | (to > at - c["sliding_window"]))
        z = np.where(seen, np.einsum("qhd,khd->hqk", q, k), -np.inf)
        return self.linear(prefix + "o_proj", np.einsum("hqk,khd->qhd", softmax(z), v).reshape(n, -1))

    def beside(self, p, h):
        """The experts beside an MLP, which read other norms of its input; the weights of those chosen sum to 1 before they are scaled."""
        t, k, width, y = self.t, self.c["top_k_experts"], self.c["moe_intermediate_size"], np.zeros_like(h)
        x = self.norm(p + "pre_feedforward_layernorm_2", h)
        s = softmax(rmsnorm(h, t[p + "router.scale"], self.eps, False) / np.sqrt(h.shape[1]) @ t[p + "router.proj.weight"].T)
        for at in range(len(h)):
            best = np.argsort(-s[at], kind="stable")[:k]
            for e in best:
                both = t[p + "experts.gate_up_proj"][e] @ x[at]
                f = t[p + "experts.down_proj"][e] @ (gelu_tanh(both[:width]) * both[width:])
                y[at] += f * s[at][e] / s[at][best].sum() * t[p + "router.per_expert_scale"][e]
        return y

    def early(self, tokens):
        """The families before Llama: names of their own, learned positions or ALiBi, biases everywhere, attention of as many keys as queries."""
        c, t, n = self.c, self.t, len(tokens)
        heads = c.get("n_head") or c["num_attention_heads"]
        layers = c.get("n_layer") or c["num_hidden_layers"]
        self.eps = c.get("layer_norm_epsilon") or c.get("layer_norm_eps") or 1e-5
        norm = lambda name, x: layernorm(x, t[name + ".weight"], t[name + ".bias"], self.eps, False)
        apply = lambda name, x: x @ t[name + ".weight"].T + t[name + ".bias"]
        at = np.arange(n)
        seen, bias = at[None, :] <= at[:, None], 0
        act = {"gelu_new": gelu_tanh, "relu": lambda x: np.maximum(x, 0), "gelu": gelu_erf}[c.get("activation_function") or c.get("hidden_act") or "gelu_new"]

        def attend(q, k, v):
            d = q.shape[-1] // heads
            q, k, v = (x.reshape(n, heads, d) for x in (q, k, v))
            if self.arch == "GPTNeoXForCausalLM":
                turn = frequencies(c["rotary_emb_base"], int(d * c["rotary_pct"]), None, c)
                q, k = rotate(q, *turn), rotate(k, *turn)
            z = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(d) + bias
            return np.einsum("hqk,khd->qhd", softmax(np.where(seen, z, -np.inf)), v).reshape(n, heads * d)

        def interleaved(x):
            x = x.reshape(n, heads, 3, -1)
            return [x[:, :, i].reshape(n, -1) for i in range(3)]

        if self.arch == "GPT2LMHeadModel":
            apply = lambda name, x: x @ t[name + ".weight"] + t[name + ".bias"]
            h, final, head = t["transformer.wte.weight"][tokens] + t["transformer.wpe.weight"][:n], "transformer.ln_f", "transformer.wte.weight"
        elif self.arch == "OPTForCausalLM":
            p = "model.decoder."
            h, final, head = t[p + "embed_tokens.weight"][tokens] + t[p + "embed_positions.weight"][2:n + 2], p + "final_layer_norm", p + "embed_tokens.weight"
        elif self.arch == "BloomForCausalLM":
            assert heads == 4  # slopes of other numbers of heads are those of ALiBi's interpolation
            bias = 2.0 ** (-8 / heads * np.arange(1, heads + 1))[:, None, None] * at
            h, final, head = norm("transformer.word_embeddings_layernorm", t["transformer.word_embeddings.weight"][tokens]), "transformer.ln_f", "transformer.word_embeddings.weight"
        else:
            h, final, head = t["gpt_neox.embed_in.weight"][tokens], "gpt_neox.final_layer_norm", "embed_out.weight"
        for i in range(layers):
            if self.arch == "GPT2LMHeadModel":
                p = f"transformer.h.{i}."
                h = h + apply(p + "attn.c_proj", attend(*np.split(apply(p + "attn.c_attn", norm(p + "ln_1", h)), 3, axis=1)))
                h = h + apply(p + "mlp.c_proj", act(apply(p + "mlp.c_fc", norm(p + "ln_2", h))))
            elif self.arch == "OPTForCausalLM":
                p = f"model.decoder.layers.{i}."
                x = norm(p + "self_attn_layer_norm", h)
                h = h + apply(p + "self_attn.out_proj", attend(*(apply(p + f"self_attn.{k}_proj", x) for k in "qkv")))
                h = h + apply(p + "fc2", act(apply(p + "fc1", norm(p + "final_layer_norm", h))))
            else:
                bloom = self.arch == "BloomForCausalLM"
                p = f"transformer.h.{i}." if bloom else f"gpt_neox.layers.{i}."
                a = p + ("self_attention" if bloom else "attention")
                add = apply(a + ".dense", attend(*interleaved(apply(a + ".query_key_value", norm(p + "input_layernorm", h)))))
                x = norm(p + "post_attention_layernorm", h + add if bloom else h)
                h = h + add + apply(p + "mlp.dense_4h_to_h", act(apply(p + "mlp.dense_h_to_4h", x)))
        return norm(final, h) @ t[head].T

    def mlp(self, i, prefix, x):
        if self.arch == "GptOssForCausalLM":
            return self.clamped_experts(prefix, x)
        if self.arch == "GraniteMoeHybridForCausalLM":
            gate, up = np.split(self.linear(prefix.replace("mlp", "shared_mlp") + "input_linear", x), 2, axis=-1)
            f = self.linear(prefix.replace("mlp", "shared_mlp") + "output_linear", self.act(gate) * up)
            return f + self.experts(prefix, x) if self.c["num_local_experts"] else f
        if prefix + "gate.weight" in self.t and prefix + "shared_experts.up_proj.weight" in self.t or self.arch == "HunYuanMoEV1ForCausalLM":
            return self.routed(i, prefix, x)
        if self.arch == "MiniMaxM2ForCausalLM":
            return self.routed(i, prefix.replace("mlp", "block_sparse_moe"), x)
        if self.arch == "Llama4ForCausalLM":
            return self.weighted_inputs(prefix.replace("mlp", "feed_forward"), x)
        if self.arch == "PhiMoEForCausalLM":
            return self.sparse_mixer(prefix.replace("mlp", "block_sparse_moe"), x)
        if self.arch == "JambaForCausalLM":
            prefix = prefix.replace("mlp", "feed_forward")
        if prefix + "gate_proj.weight" not in self.t and self.c.get("num_experts_per_tok"):
            return self.experts(prefix, x)
        prefix = prefix.replace("mlp", self.traits.get("mlp", "mlp"))
        if "plain" in self.traits:
            up, down = self.traits["plain"]
            f = self.linear(prefix + up, x)
            return self.linear(prefix + down, self.xielu(prefix + "act_fn.", f) if self.act is None else self.act(f))
        return self.gated(prefix, x, ("gate_proj", "up_proj", "down_proj"))

    def weighted_inputs(self, prefix, x):
        """Llama 4: the sigmoid of an expert's score multiplies its input; tensors of all experts, transposed."""
        score, y = x @ self.t[prefix + "router.weight"].T, np.zeros_like(x)
        both, down = self.t[prefix + "experts.gate_up_proj"], self.t[prefix + "experts.down_proj"]
        for t in range(x.shape[0]):
            for e in np.argsort(-score[t], kind="stable")[:self.c["num_experts_per_tok"]]:
                gate, up = np.split(x[t] / (1 + np.exp(-score[t, e])) @ both[e], 2)
                y[t] += (self.act(gate) * up) @ down[e]
        return y + self.gated(prefix + "shared_expert.", x, ("gate_proj", "up_proj", "down_proj"))

    def xielu(self, prefix, x):
        p, n, beta, eps = (float(self.t[prefix + k].reshape(-1)[0]) for k in ("alpha_p", "alpha_n", "beta", "eps"))
        return np.where(x > 0, softplus(p) * x * x, (beta + softplus(n)) * (np.expm1(np.minimum(x, eps)) - x)) + beta * x

    def experts(self, prefix, x):
        """The sum of the experts that a router chooses for each position, times their shares of a softmax."""
        c = self.c
        granite = self.arch.startswith("GraniteMoe")
        if self.arch == "MixtralForCausalLM" or granite:
            prefix = prefix.replace("mlp", "block_sparse_moe")
        share = softmax(x @ self.t[prefix + ("router.layer.weight" if granite else "router.weight" if self.arch == "JambaForCausalLM" else "gate.weight")].T)
        y, n = np.zeros_like(x), share.shape[1]
        for t in range(x.shape[0]):
            chosen = sorted(range(n), key=lambda e: (-share[t, e], e))[:c["num_experts_per_tok"]]
            whole = sum(share[t, e] for e in chosen) if c.get("norm_topk_prob") or self.arch in ("MixtralForCausalLM", "Qwen3_5MoeForCausalLM") or granite else 1
            for e in chosen:
                if granite:
                    gate, up = np.split(x[t] @ self.t[prefix + "input_linear.weight"][e].T, 2)
                    f = (self.act(gate) * up) @ self.t[prefix + "output_linear.weight"][e].T
                else:
                    names = ("w1", "w3", "w2") if self.arch == "MixtralForCausalLM" else ("gate_proj", "up_proj", "down_proj")
                    f = self.gated(f"{prefix}experts.{e}.", x[t], names)
                y[t] += share[t, e] / whole * f
        if prefix + "shared_expert_gate.weight" in self.t:
            gate = 1 / (1 + np.exp(-(x @ self.t[prefix + "shared_expert_gate.weight"].T)))
            y += gate * self.gated(prefix + "shared_expert.", x, ("gate_proj", "up_proj", "down_proj"))
        return y

    def sparse_mixer(self, prefix, x):
        """Two experts; the weight of each is its share of a softmax over those that are near."""
        y, score = np.zeros_like(x), x @ self.t[prefix + "gate.weight"].T
        for t in range(x.shape[0]):
            left = list(range(score.shape[1]))
            for _ in range(2):
                best = max(left, key=lambda e: (score[t, e], -e))
                m = score[t, best]
                near = [e for e in left if (m - score[t, e]) / max(abs(score[t, e]), m) <= 2 * self.c["router_jitter_noise"]]
                y[t] += self.gated(f"{prefix}experts.{best}.", x[t], ("w1", "w3", "w2")) / sum(np.exp(score[t, e] - m) for e in near)
                left.remove(best)
        return y

    def routed(self, i, prefix, x):
        """Experts chosen by scores with a bias, perhaps from the best groups; and an MLP for all positions."""
        c, y = self.c, np.zeros_like(x)
        names, shared = ("gate_proj", "up_proj", "down_proj"), prefix + "shared_experts."
        if self.arch == "HunYuanMoEV1ForCausalLM":
            k, bias, groups, kept = c["moe_topk"][i], 0, 1, 1
            s, add, scale, whole = softmax(x @ self.t[prefix + "gate.wg.weight"].T), 0, 1, True
            shared = prefix + "shared_mlp."
        elif self.arch == "Ernie4_5_MoeForCausalLM":
            k, bias, groups, kept = c["moe_k"], self.t[prefix + "moe_statics.e_score_correction_bias"][0], 1, 1
            s, add, scale, whole = softmax(x @ self.t[prefix + "gate.weight"].T), 0, 1, True
        elif self.arch == "DeepseekV2ForCausalLM":  # greedy
            k, bias, groups, kept = c["num_experts_per_tok"], 0, 1, 1
            s, add, scale, whole = softmax(x @ self.t[prefix + "gate.weight"].T), 0, c["routed_scaling_factor"], False
        elif self.arch == "Lfm2MoeForCausalLM":
            k, bias, groups, kept = c["num_experts_per_tok"], self.t[prefix + "expert_bias"], 1, 1
            s, add, scale, whole = 1 / (1 + np.exp(-(x @ self.t[prefix + "gate.weight"].T))), 1e-6, c["routed_scaling_factor"], c["norm_topk_prob"]
            names, shared = ("w1", "w3", "w2"), None
        elif self.arch == "MiniMaxM2ForCausalLM":
            k, bias, groups, kept = c["num_experts_per_tok"], self.t[prefix + "e_score_correction_bias"], 1, 1
            s, add, scale, whole = 1 / (1 + np.exp(-(x @ self.t[prefix + "gate.weight"].T))), 0, 1, True
            names, shared = ("w1", "w3", "w2"), None
        else:
            k, bias = c["num_experts_per_tok"], self.t[prefix + "gate.e_score_correction_bias"]
            groups, kept = c["n_group"], c["topk_group"]
            s = 1 / (1 + np.exp(-(x @ self.t[prefix + "gate.weight"].T)))
            add, scale, whole = 1e-20, c["routed_scaling_factor"], c["norm_topk_prob"]
        for t in range(x.shape[0]):
            rank = (s[t] + bias).reshape(groups, -1)
            value = np.sort(rank, axis=1)[:, -2:].sum(axis=1)
            rank[np.argsort(-value, kind="stable")[kept:]] = -np.inf
            chosen = np.argsort(-rank.reshape(-1), kind="stable")[:k]
            total = s[t, chosen].sum() + add if whole else 1
            for e in chosen:
                y[t] += s[t, e] / total * scale * self.gated(f"{prefix}experts.{e}.", x[t], names)
        return y + self.gated(shared, x, names) if shared else y

    def clamped_experts(self, prefix, x):
        """gpt-oss: MXFP4 blocks, gate and up in even and odd rows, biases everywhere."""
        limit, y = self.c["swiglu_limit"], np.zeros_like(x)
        score = x @ self.t[prefix + "router.weight"].T + self.t[prefix + "router.bias"]
        into = rounded if self.int8 else lambda v: v
        both, down = self.mxfp4(prefix + "experts.gate_up_proj"), self.mxfp4(prefix + "experts.down_proj")
        for t in range(x.shape[0]):
            chosen = np.argsort(-score[t], kind="stable")[:self.c["num_experts_per_tok"]]
            for e, w in zip(chosen, softmax(score[t][chosen])):
                h = both[e] @ into(x[t]) + self.t[prefix + "experts.gate_up_proj_bias"][e]
                gate, up = np.minimum(h[0::2], limit), np.clip(h[1::2], -limit, limit)
                h = (up + 1) * gate / (1 + np.exp(-1.702 * gate))
                y[t] += w * (down[e] @ into(h) + self.t[prefix + "experts.down_proj_bias"][e])
        return y

    def mxfp4(self, name):
        """Two E2M1 elements a byte, the low one first; a power of two for 32 of them."""
        values = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])
        b, s = self.t[name + "_blocks"], self.t[name + "_scales"]
        v = np.stack([values[b & 15], values[b >> 4]], axis=-1).reshape(*b.shape[:3], 32)
        return (v * np.exp2(s.astype(np.float64) - 127)[..., None]).reshape(b.shape[0], b.shape[1], -1)

    def gated(self, prefix, x, names):
        if prefix + "gate_up_proj.weight" in self.t:
            n = self.c["intermediate_size"]
            gate, up = self.linear(prefix + "gate_up_proj", x, slice(0, n)), self.linear(prefix + "gate_up_proj", x, slice(n, 2 * n))
        else:
            gate, up = self.linear(prefix + names[0], x), self.linear(prefix + names[1], x)
        f = self.act(gate) * up
        for name in ("ffn_sub_norm", "ffn_layernorm"):
            if prefix + name + ".weight" in self.t:
                f = self.norm(prefix + name, f)
        return self.linear(prefix + names[2], f)

    def logits(self, tokens, int8=False):
        self.int8 = int8
        c = self.c
        if self.arch in EARLY:
            return self.early(tokens)
        if self.arch.startswith("Lfm2"):
            return self.lfm2(tokens)
        if self.arch == "Gemma3nForCausalLM":
            return self.gemma3n(tokens)
        if self.arch.startswith("Gemma4"):
            return self.gemma4(tokens)
        if self.arch in ("Mamba2ForCausalLM", "MambaForCausalLM", "FalconMambaForCausalLM"):
            return self.pure_mamba2(tokens)
        h = self.t["model.embed_tokens.weight"][tokens]
        if self.gemma:
            h = h * np.sqrt(c["hidden_size"])
        h = h * c.get("embedding_multiplier", c.get("scale_emb", 1))
        add = c.get("residual_multiplier", 1)
        if "scale_depth" in c:
            add = c["scale_depth"] / np.sqrt(c["num_hidden_layers"])
        only_post = self.arch in ("Olmo2ForCausalLM", "Olmo3ForCausalLM", "Exaone4ForCausalLM")
        two_norms = self.arch in ("Gemma2ForCausalLM", "Gemma3ForCausalLM")
        for i in np.repeat(np.arange(c["num_hidden_layers"]), 2 if c.get("layer_sharing") else 1):
            p = f"model.layers.{i}."
            if only_post:
                h = h + self.norm(p + "post_attention_layernorm", self.attention(i, p + "self_attn.", h))
                h = h + self.norm(p + "post_feedforward_layernorm", self.mlp(i, p + "mlp.", h))
                continue
            first, second = self.traits.get("norms", ("input_layernorm", "post_attention_layernorm"))
            if self.traits.get("parallel") or c.get("use_parallel_residual"):
                x = self.norm(p + first, h)
                h = h + self.attention(i, p + "self_attn.", x) + self.mlp(i, p + "mlp.", x)
                continue
            if self.traits.get("sandwich"):
                h = h + self.norm(p + "post_self_attn_layernorm", self.attention(i, p + "self_attn.", self.norm(p + first, h)))
                h = h + self.norm(p + "post_mlp_layernorm", self.mlp(i, p + "mlp.", self.norm(p + second, h)))
                continue
            x = self.norm(p + first, h)
            if self.arch == "FalconH1ForCausalLM":
                h = h + c["ssm_out_multiplier"] * self.mamba2(p + "mamba.", x)
                h = h + c["attention_out_multiplier"] * self.attention(i, p + "self_attn.", x * c["attention_in_multiplier"])
                x, f, many = self.norm(p + second, h), p + "feed_forward.", c["mlp_multipliers"]
                h = h + many[1] * self.linear(f + "down_proj", silu(many[0] * self.linear(f + "gate_proj", x)) * self.linear(f + "up_proj", x))
                continue
            if self.arch == "JambaForCausalLM" and p + "mamba.D" in self.t:
                a = self.mamba(p + "mamba.", x)
            elif p + "mamba.D" in self.t:
                a = self.mamba2(p + "mamba.", x)
            elif p + "linear_attn.A_log" in self.t:
                a = self.delta_rule(p + "linear_attn.", x)
            else:
                a = self.attention(i, p + "self_attn.", x)
            h = h + add * (self.norm(p + "post_attention_layernorm", a) if two_norms else a)
            x = self.norm(p + ("pre_feedforward_layernorm" if two_norms else second), h)
            f = self.mlp(i, p + "mlp.", x)
            h = h + add * (self.norm(p + "post_feedforward_layernorm", f) if two_norms else f)
        h = self.norm(self.traits.get("final", "model.norm"), h)
        if "dim_model_base" in c:
            h = h / (c["hidden_size"] / c["dim_model_base"])
        tied = c.get("tie_word_embeddings", self.gemma or self.arch.startswith("MiniCPM") or self.traits.get("tied", False)) or c.get("share_embedding", False)
        z = h @ self.t["model.embed_tokens.weight" if tied else "lm_head.weight"].T / c.get("logits_scaling", 1)
        z = (z + self.t.get("lm_head.bias", 0)) * c.get("logit_scale", c.get("lm_head_multiplier", 1))
        cap = c.get("final_logit_softcapping")
        return cap * np.tanh(z / cap) if cap else z


# ---- golden logits -------------------------------------------------------------------------------------------------------

# Miniatures: the name of a bundled configuration, and whether int8 logits are recorded too.
GOLDEN = {
    "bitnet-2b4t": True, "bitnet-2b4t-bf16": True, "bitnet-3b": True, "bitnet-xl": True, "llama3-8b": True, "falcon3-1b": True,
    "trilm-99m": True, "paretoq-125m-1bit": True, "paretoq-125m-1.58bit": True, "paretoq-125m-2bit": True, "paretoq-125m-3bit": True, "paretoq-125m-4bit": True,
    "llama-3-8b": False, "llama-3.1-8b": False, "llama-3.2-1b": False, "smollm2-135m": False, "mobilellm-125m": False, "mobilellm-125m-layer-share": False,
    "mistral-7b-v0.1": False, "mistral-7b-v0.3": False, "qwen2.5-0.5b": False, "qwen2.5-1.5b-yarn": False, "qwen3-0.6b": False, "phi-3-mini-4k": False, "phi-3-mini-128k": False,
    "gemma-2b": False, "gemma-2-2b": False, "gemma-3-270m": False, "gemma-3-1b": False,
    "smollm3-3b": False, "granite-3.3-2b": False, "olmo-2-1b": False, "olmo-3-7b": False, "exaone-4.0-1.2b": False, "hunyuan-1.8b": False, "minicpm-2b": False,
    "qwen3-30b-a3b": False, "qwen1.5-moe-a2.7b": False, "mixtral-8x7b-v0.1": False, "olmoe-1b-7b": False, "granite-3.1-1b-a400m": False, "gpt-oss-20b": True,
    "seed-oss-36b": False, "ministral-8b": False, "ministral-3-3b": False, "cwm-32b": False, "afm-4.5b": False, "ernie-4.5-0.3b": False, "helium-1-2b": False, "glm-4-9b": False, "glm-4-9b-0414": False,
    "minitron-4b": False, "starcoder2-3b": False, "stablelm-2-1.6b": False, "stablelm-2-12b": False, "olmo-7b-0424": False, "command-r-v01": False, "command-r-plus": False, "command-r7b": False, "apertus-8b": False, "phi-2": False,
    "dots.llm1": False, "hunyuan-a13b": False, "glm-4.5": False, "ernie-4.5-21b-a3b": False, "deepseek-v2-lite": False, "deepseek-v3": False,
    "lfm2-1.2b": False, "granite-4.0-h-1b": False, "bamba-9b": False, "lfm2-8b-a1b": False, "granite-4.0-h-tiny": False,
    "gpt2": False, "pythia-160m": False, "opt-125m": False, "bloom-560m": False, "qwen3-next-80b-a3b": False, "qwen3.5-9b": False, "qwen3.5-35b-a3b": False, "phi-3.5-moe": False, "falcon-h1-0.5b": False,
    "mamba-codestral-7b": False, "llama-4-scout": False, "gemma-3n-e2b": False, "minimax-m2": False,
    "mamba-130m": False, "falcon-mamba-7b": False, "jamba-v0.1": False, "gemma-4-e2b": False, "gemma-4-26b-a4b": False, "gemma-4-12b": False,
}
TOKENS = [(i * i * 37 + i * 101 + 11) % 300 for i in range(48)]  # longer than the window of the miniatures, which is 32
POSITIONS = [0, 1, 7, 31, 32, 47]


def digest(directory):
    """SHA-256 over the names and bytes of config.json and the weights: the golden logits belong to these files only."""
    h = hashlib.sha256()
    for path in [os.path.join(directory, "config.json")] + sorted(glob.glob(os.path.join(directory, "*.safetensors"))):
        h.update(os.path.basename(path).encode() + b"\n")
        h.update(open(path, "rb").read())
    return h.hexdigest()


def golden(program, out):
    tensors, digests = {}, {}
    for name, int8 in GOLDEN.items():
        with tempfile.TemporaryDirectory() as tmp:
            directory = os.path.join(tmp, "model")
            subprocess.run([program, "synth", "--like", name, "--mini", "-o", directory], check=True, stderr=subprocess.DEVNULL)
            model = Model(directory)
            digests[name] = digest(directory)
            tensors[name + "/float"] = model.logits(TOKENS)[POSITIONS]
            if int8:
                tensors[name + "/int8"] = model.logits(TOKENS, int8=True)[POSITIONS]
    meta = {"tokens": json.dumps(TOKENS), "positions": json.dumps(POSITIONS), "digests": json.dumps(digests)}
    write_safetensors(out, tensors, meta)
    print(len(digests), "models,", len(tensors), "sets of logits,", os.path.getsize(out), "bytes")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--golden":
        return golden(sys.argv[2], sys.argv[3])
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    z = Model(sys.argv[1]).logits([int(t) for t in sys.argv[2].split(",")])
    for i, row in enumerate(z):
        top = np.argsort(-row)[:5]
        print(i, " ".join(f"{t}:{row[t]:.6f}" for t in top))


if __name__ == "__main__":
    main()
