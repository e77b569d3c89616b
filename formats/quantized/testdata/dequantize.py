"""Writes checkpoints of one or more modules and what the original packages make of their weights, for TestInteropValues."""
import json, os, sys

from cases import BF16, E4M3, F16, F32, NAMES, case, elements, scales, write
import torch
from safetensors.torch import save_file

# transformers
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

dequantize = Fp8Dequantize(None)._dequantize_one
for out in BF16, F16, F32:
    modules = {}
    for i, dtype in enumerate((F32, BF16, F16)):
        for j, (grid, shape) in enumerate((((2, 3), (256, 384)), ((1, 1), (128, 128)))):
            w, s = elements(*shape), scales(*grid, dtype=dtype)
            modules[f"m{i}{j}"] = {"weight": w, "weight_scale_inv": s}, dequantize(w, s, out)
    w, s = elements(256, 256), torch.randint(118, 126, (2, 2), dtype=torch.uint8)
    modules["exponents"] = {"weight": w, "weight_scale_inv": s.view(torch.float8_e8m0fnu)}, dequantize(w, s, out)
    modules["bytes"] = {"weight": w, "weight_scale_inv": s}, dequantize(w, s, out)
    case(f"fp8-{NAMES[out]}", {"dtype": NAMES[out], "quantization_config": {
        "quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}}, modules)
    modules = {}
    for i, (name, shape) in enumerate((("weight_scale_inv", ()), ("weight_scale", (1,)), ("weight_scale", (1, 1)))):
        w, s = elements(96, 80), scales(*shape)
        modules[f"t{i}"] = {"weight": w, name: s, "input_scale": scales(1)}, dequantize(w, s, out)
    case(f"fp8-tensor-{NAMES[out]}", {"text_config": {"torch_dtype": NAMES[out]}, "quantization_config": {
        "quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]}}, modules)

# transformers: all experts in one tensor, with blocks and without; and MXFP8, which it reads as the same
def experts(*shape):
    return elements(shape[0] * shape[1], shape[2]).view(*shape)


for out in BF16, F16, F32:
    for name, blocks, grids in ("block", [128, 128], [(3, 2, 3), (3, 3, 1)]), ("tensor", None, [(3, 2, 1), (3, 1, 1)]):
        stored, want = {}, {}
        for key, shape, grid in zip(("m.gate_up_proj", "m.down_proj"), ((3, 256, 384), (3, 384, 128)), grids):
            w, s = experts(*shape), scales(*grid)
            stored |= {key: w, key + "_scale_inv": s}
            want[key] = dequantize(w, s, out)
        write(f"fp8-experts-{name}-{NAMES[out]}", {"dtype": NAMES[out], "quantization_config": {
            "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": blocks}}, stored, want)
    w, s = elements(96, 160), torch.randint(100, 140, (96, 5), dtype=torch.uint8)
    if out == F16:
        s = torch.randint(100, 125, (96, 5), dtype=torch.uint8)
    case(f"mxfp8-{NAMES[out]}", {"dtype": NAMES[out], "quantization_config": {
        "quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32], "scale_fmt": "ue8m0"}},
        {"m": ({"weight": w, "weight_scale_inv": s}, dequantize(w, s, out))})

# transformers for Metal: floats, and rows of one value
from transformers.integrations.metal_quantization import _affine_dequantize_tensor, _affine_quantize_tensor

for bits in 2, 4, 8:
    for group in 32, 64:
        modules = {}
        for i in range(4):
            w = torch.randn(32, 192) * 0.05
            w[0], w[1], w[2, :group] = 0.3, 0, -0.07
            q, s, b = _affine_quantize_tensor(w, group, bits)
            state = {"weight": q, "scales": s, "qbiases": b}
            modules[f"m{i}"] = state, _affine_dequantize_tensor(q, s, b, group, bits)
        case(f"metal{bits}-{group}", {"quantization_config": {
            "quant_method": "metal", "bits": bits, "group_size": group, "modules_to_not_convert": ["lm_head"]}}, modules)

# compressed-tensors
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme


def compressed(form, args):
    args = QuantizationArgs(**args)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format=form)
    return BaseCompressor.get_value_from_registry(form), scheme, {
        "quantization_config": {"quant_method": "compressed-tensors", "format": form,
                                "config_groups": {"g": json.loads(scheme.model_dump_json())}}}


def eight(name, form, args, grids, dtypes):
    for dtype in dtypes:
        by, scheme, config = compressed(form, {"num_bits": 8, "type": "float", **args})
        modules = {}
        for i, (shape, grid) in enumerate(grids):
            state = {"weight": elements(*shape), "weight_scale": (
                torch.randint(110, 130, grid, dtype=torch.uint8) if dtype == torch.uint8 else scales(*grid, dtype=dtype))}
            modules[f"m{i}"] = state, by.decompress(state, scheme)["weight"]
        case(f"{name}-{str(dtype).split('.')[1]}", config, modules)


floats = (BF16, F16, F32)
for form in "float-quantized", "naive-quantized":
    eight(f"{form}-tensor", form, {"strategy": "tensor"}, [((96, 80), (1,)), ((32, 96), (1,))], floats)
    eight(f"{form}-channel", form, {"strategy": "channel"}, [((96, 80), (96, 1))], floats)
    eight(f"{form}-group", form, {"strategy": "group", "group_size": 32}, [((96, 96), (96, 3))], floats)
    eight(f"{form}-block", form, {"strategy": "block", "block_structure": [64, 32]},
          [((128, 96), (2, 3)), ((100, 70), (2, 3)), ((32, 16), (1, 1))], floats)
eight("mxfp8", "mxfp8-quantized", {"strategy": "group", "group_size": 32, "scale_dtype": torch.uint8},
      [((96, 96), (96, 3))], (torch.uint8,))

modules = {}
by, scheme, config = compressed("mxfp6-pack-quantized", {"num_bits": 6, "type": "float", "strategy": "group", "group_size": 32, "scale_dtype": torch.uint8})
for i, (rows, columns) in enumerate(((64, 96), (32, 160), (8, 32))):
    state = {"weight_packed": torch.randint(0, 256, (rows, columns // 4 * 3), dtype=torch.uint8),
             "weight_scale": torch.randint(0, 250, (rows, columns // 32), dtype=torch.uint8)}
    modules[f"m{i}"] = state, by.decompress(state, scheme)["weight"]
case("mxfp6", config, modules)

modules = {}
by, scheme, config = compressed("nvfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "tensor_group",
                                                         "group_size": 16, "scale_dtype": E4M3})
for i in range(4):
    s = elements(64, 8)
    state = {"weight_packed": torch.randint(0, 256, (64, 64), dtype=torch.uint8),
             "weight_scale": (s.view(torch.uint8) & 0x7F).view(E4M3), "weight_global_scale": torch.rand(1) * 3000 + 1}
    modules[f"m{i}"] = state, by.decompress(state, scheme)["weight"]
case("nvfp4", config, modules)

# bitsandbytes
import bitsandbytes.functional as bnb
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from bitsandbytes.backends.utils import _get_4bit_code


def bits4(q, state):
    """The kernel for CPUs of 0.50.2 takes wrong blocks in rows that are not whole blocks: those of its definition count."""
    if state.shape[1] % state.blocksize == 0:
        return bnb.dequantize_4bit(q, state)
    absmax = state.absmax
    if state.nested:
        absmax = bnb.dequantize_blockwise(absmax, state.state2) + state.offset
    code = _get_4bit_code(state.quant_type, q.device)
    return _dequantize_4bit_compute(q.reshape(-1), absmax, code, state.blocksize, state.shape, state.dtype)


for kind in "nf4", "fp4":
    for out in BF16, F16, F32:
        for double in False, True:
            modules = {}
            for block in 64, 128, 4096:
                for shape in (64, 128), (96, 192), (32, 4096):
                    w = torch.randn(*shape).to(out) * 0.02
                    q, state = bnb.quantize_4bit(w, blocksize=block, compress_statistics=double, quant_type=kind)
                    tensors = {"weight": q, **{"weight." + k: v for k, v in state.as_dict(packed=True).items()}}
                    modules[f"b{block}x{shape[0]}"] = tensors, bits4(q, state)
            case(f"{kind}-{NAMES[out]}-{'double' if double else 'single'}", {"quantization_config": {
                "quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind,
                "bnb_4bit_use_double_quant": double, "bnb_4bit_compute_dtype": "float32"}}, modules)

# FBGEMM, whose products are those of torch._scaled_mm where transformers has no FBGEMM: with a row of one 1, a weight,
# but for the sign of a zero
modules = {}
for i, shape in enumerate(((96, 80), (32, 96), (256, 64))):
    w, s = elements(*shape), scales(shape[0], 1)
    w.view(torch.uint8)[w.view(torch.uint8) == 0x80] = 0
    one = torch.eye(shape[1]).to(E4M3)
    made = torch._scaled_mm(one, w.t(), scale_a=torch.ones(shape[1], 1), scale_b=s.t(), out_dtype=BF16)
    modules[f"m{i}"] = {"weight": w, "weight_scale": s}, made.t()
case("fbgemm", {"dtype": "float16", "quantization_config": {
    "quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head"]}}, modules)

# and its experts of Llama 4, as that code slices them
stored, want = {}, {}
for key, shape, scaled in ("m.gate_up_proj", (2, 64, 160), (2, 1, 160)), ("m.down_proj", (2, 80, 64), (2, 64, 1)):
    w, s = experts(*shape), scales(*scaled)
    w.view(torch.uint8)[w.view(torch.uint8) == 0x80] = 0
    one = torch.eye(shape[1]).to(E4M3)
    made = [torch._scaled_mm(one, w[i].t().contiguous().t(), scale_a=torch.ones(shape[1], 1), scale_b=s[i].view(-1, 1).contiguous().t(),
                             out_dtype=BF16) for i in range(shape[0])]
    stored |= {key: w, key + "_scale": s}
    want[key] = torch.stack(made)
write("fbgemm-experts", {"quantization_config": {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}}, stored, want)

# ModelOpt: numbers of all sizes, and checkpoints that it writes itself
import copy, glob

import modelopt.torch.quantization as mtq
from modelopt.torch.export import export_hf_checkpoint
from modelopt.torch.export.quant_utils import from_quantized_weight, pack_int4_in_uint8
from modelopt.torch.quantization.model_calib import _apply_weight_pre_quant_scale
from modelopt.torch.quantization.nn import TensorQuantizer
from modelopt.torch.quantization.qtensor import FP8QTensor, MXFP4QTensor, MXFP8QTensor, NVFP4QTensor
from safetensors.torch import load_file
from transformers import GptOssConfig, GptOssForCausalLM, Llama4ForCausalLM, Llama4TextConfig, LlamaConfig, LlamaForCausalLM


def modelopt(stored, module, out):
    """What ModelOpt makes of the weight of a module; None if it is not quantized."""
    w, s = stored[module + ".weight"], stored.get(module + ".weight_scale")
    if w.dtype == E4M3 and s.dtype == torch.uint8:
        return MXFP8QTensor(w.shape, out, w).dequantize(scale=s)
    if w.dtype == E4M3 and s.dim() == 4:
        return FP8QTensor(w.shape, out, w).dequantize(scale=s.view(s.shape[0], s.shape[2]), block_sizes={-1: 128, -2: 128})
    if w.dtype == E4M3:
        return FP8QTensor(w.shape, out, w).dequantize(scale=s[:, None] if s.numel() > 1 else s)
    if w.dtype == torch.int8:
        return from_quantized_weight(w, s, "int8_wo", F32)
    if w.dtype == torch.uint8 and s.dtype == F32:  # it has a function that packs these codes, but none that unpacks them
        group = w.shape[1] // s.shape[1]
        codes = torch.stack([w & 15, w >> 4], dim=1).view(-1, w.shape[1]).to(torch.int8)
        made = torch.where(codes > 7, codes - 16, codes) * s.repeat_interleave(group, dim=1)
        assert torch.equal(pack_int4_in_uint8(made, s, group), w)
        return made
    if w.dtype == torch.uint8:
        shape, blocks = torch.Size((w.shape[0], w.shape[1] * 2)), {-1: 2 * w.shape[1] // s.shape[1]}
        if s.dtype == torch.uint8:
            return MXFP4QTensor(shape, out, w).dequantize(scale=s, block_sizes=blocks)
        return NVFP4QTensor(shape, out, w).dequantize(scale=s, double_scale=stored[module + ".weight_scale_2"], block_sizes=blocks)


def smoothed(stored, module, out):
    """The same, times the numbers of the columns that multiply the inputs; ModelOpt has a function for those."""
    w, s, by = (stored[f"{module}.{k}"] for k in ("weight", "weight_scale", "pre_quant_scale"))
    made = from_quantized_weight(w, s, "int8_sq", out) if w.dtype == torch.int8 else modelopt(stored, module, out).to(out)
    linear = torch.nn.Linear(*made.t().shape, bias=False, dtype=out)
    linear.weight.data.copy_(made)
    linear.weight_quantizer = TensorQuantizer()
    _apply_weight_pre_quant_scale(linear, by)
    return linear.weight.data


def weights(algorithm, weights):
    return {"quant_method": "modelopt", "quant_algo": algorithm, "ignore": ["lm_head"], "config_groups": {
        "group_0": {"weights": {"dynamic": False, "type": "float", **weights}, "targets": ["Linear"]}}}


for out in BF16, F16, F32:
    modules = {}
    for i in range(8):
        state = {"weight": elements(96, 80), "weight_scale": scales(*(() if i % 2 else (1,))), "input_scale": scales()}
        modules[f"m{i}"] = state, modelopt({f"m.{k}": v for k, v in state.items()}, "m", out)
    case(f"modelopt-fp8-{NAMES[out]}", {"dtype": NAMES[out], "quantization_config": weights("FP8", {"num_bits": 8})}, modules)
modules = {}
for i in range(8):
    state = {"weight": torch.randint(0, 256, (64, 64), dtype=torch.uint8), "input_scale": scales(),
             "weight_scale": (elements(64, 8).view(torch.uint8) & 0x7F).view(E4M3), "weight_scale_2": scales()}
    modules[f"m{i}"] = state, modelopt({f"m.{k}": v for k, v in state.items()}, "m", BF16)
case("modelopt-nvfp4", {"quantization_config": weights("NVFP4", {"num_bits": 4, "group_size": 16})}, modules)


def forged(algorithm, out, make, by=modelopt, name="", **more):
    """Modules with any elements and scales, as an algorithm stores them."""
    modules = {}
    for i in range(4):
        state = make()
        modules[f"m{i}"] = state, by({f"m.{k}": v for k, v in state.items()}, "m", out)
    case(f"modelopt-{algorithm}{name}-{NAMES[out]}", {"dtype": NAMES[out], "quantization_config": {
        "quant_method": "modelopt", "quant_algo": algorithm, **more}}, modules)


random = lambda *shape: torch.randint(0, 256, shape, dtype=torch.uint8)
for out in BF16, F16, F32:
    forged("FP8_PER_CHANNEL_PER_TOKEN", out, lambda: {"weight": elements(96, 80), "weight_scale": scales(96)})
    forged("fp8_pb_wo", out, lambda: {"weight": elements(200, 300), "weight_scale": scales(2, 1, 3, 1)})
    forged("MXFP8", out, lambda: {"weight": elements(96, 64), "weight_scale": torch.randint(100, 126, (96, 2), dtype=torch.uint8)})
    for of in {out, F32}:
        more = {"by": smoothed, "name": "-by-" + NAMES[of] if of != out else "-by-own"}
        factors = lambda: {"pre_quant_scale": scales(64, dtype=of) * 64}
        forged("W4A16_AWQ", out, lambda: {"weight": random(48, 64), "weight_scale": scales(96, 4), **factors()}, **more)
        forged("W8A8_SQ_PER_CHANNEL", out, lambda: {"weight": random(96, 64).view(torch.int8), "weight_scale": scales(96), **factors()}, **more)
        forged("NVFP4_AWQ", out, lambda: {"weight": random(64, 32), "weight_scale_2": scales(), "weight_scale": (
            random(64, 4) & 0x77).view(E4M3), **factors()}, group_size=16, **more)
forged("mxfp4", BF16, lambda: {"weight": random(64, 64), "weight_scale": torch.randint(100, 140, (64, 4), dtype=torch.uint8)})
forged("W4A16_AWQ", F32, lambda: {"weight": random(48, 64), "weight_scale": scales(96, 2)}, group_size=32, pre_quant_scale=True)
forged("W8A16", F32, lambda: {"weight": random(96, 64).view(torch.int8), "weight_scale": scales(96)})
forged("W8A8_SQ_PER_CHANNEL", F32, lambda: {"weight": random(96, 64).view(torch.int8), "weight_scale": scales(96), "input_scale": scales()})
forged("W4A8_NVFP4_FP8", BF16, lambda: {"weight": random(64, 64), "weight_scale_2": scales(), "weight_scale": (
    random(64, 4) & 0x77).view(E4M3)})


def quantizers(kind, pattern):
    """The quantizers of a format for some modules."""
    own = [q for q in kind["quant_cfg"] if q["quantizer_name"] in ("*weight_quantizer", "*input_quantizer")]
    return [{**q, "quantizer_name": pattern + q["quantizer_name"]} for q in own]


fp8, nvfp4, cache = mtq.FP8_DEFAULT_CFG, mtq.NVFP4_DEFAULT_CFG, mtq.FP8_KV_CFG["quant_cfg"]
def export(name, model, config):
    """What ModelOpt writes of a model that it has quantized, and what its weights are."""
    folder = os.path.join(sys.argv[1], "modelopt-export-" + name)
    export_hf_checkpoint(mtq.quantize(model, config, lambda m: m(torch.arange(32).reshape(1, 32))), export_dir=folder)
    stored = {k: v for f in glob.glob(folder + "/*.safetensors") for k, v in load_file(f).items()}
    want = {}
    for key, value in stored.items():
        module, _, suffix = key.rpartition(".")
        if key + "_weight_scale" in stored:
            s = stored[key + "_weight_scale"]
            want[key] = FP8QTensor(value.shape, BF16, value).dequantize(scale=s[:, None, None] if s.dim() else s)
        elif suffix == "weight":
            made = (smoothed if module + ".pre_quant_scale" in stored else modelopt)(stored, module, BF16)
            want[key] = value if made is None else made
        elif "scale" not in suffix or suffix in ("k_scale", "v_scale"):
            want[key] = value
    save_file(want, os.path.join(folder, "want.safetensors"))


for name, base, more in (
        ("fp8", fp8, []), ("fp8-cache", fp8, cache), ("nvfp4", nvfp4, []),
        ("nvfp4-mlp-cache", nvfp4, [{"quantizer_name": "*self_attn.[qkvo]_proj*", "enable": False}] + cache),
        ("mixed-cache", fp8, quantizers(nvfp4, "*mlp") + cache),
        *((name.removesuffix("_CFG"), getattr(mtq, name), []) for name in (
            "FP8_PER_CHANNEL_PER_TOKEN_CFG", "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG", "MXFP8_DEFAULT_CFG", "MXFP4_DEFAULT_CFG", "W4A8_MXFP4_FP8_CFG",
            "INT4_BLOCKWISE_WEIGHT_ONLY_CFG", "INT8_WEIGHT_ONLY_CFG", "W4A8_NVFP4_FP8_CFG", "NVFP4_MLP_WEIGHT_ONLY_CFG", "INT4_AWQ_CFG",
            "INT8_SMOOTHQUANT_CFG"))):
    size = 128 if name.isupper() or "_" in name else 64  # whole groups
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=size, intermediate_size=size * 3 // 2 if size == 64 else 256, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, dtype="bfloat16", architectures=["LlamaForCausalLM"])).to(BF16)
    config = {**copy.deepcopy(base)}
    config["quant_cfg"] = config["quant_cfg"] + copy.deepcopy(more)
    export(name, model, config)
for kind, made in (Llama4TextConfig, Llama4ForCausalLM), (GptOssConfig, GptOssForCausalLM):
    for name in "FP8_DEFAULT_CFG", "FP8_PER_CHANNEL_PER_TOKEN_CFG":
        model = made(kind(
            vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            head_dim=32, num_local_experts=3, num_experts_per_tok=1, dtype="bfloat16", pad_token_id=0, architectures=[made.__name__])).to(BF16)
        export(f"{made.__name__}-{name}", model, copy.deepcopy(getattr(mtq, name)))

# HQQ: what its layers write and read again, alone and in a model
from hqq.core.quantize import BaseQuantizeConfig, HQQLinear
from hqq.models.hf.base import AutoHQQHFModel
from transformers import HqqConfig


def hqq(params):
    return {"quant_method": "hqq", "quant_config": BaseQuantizeConfig(**params), "skip_modules": ["lm_head"]}


for bits in 8, 4, 3, 2, 1:
    for axis in 0, 1:
        for group, out in (64, BF16), (None, F16), (16, F32):
            params, modules = {"nbits": bits, "group_size": group, "axis": axis}, {}
            for i, shape in enumerate(((128, 64), (64, 192))):
                layer = HQQLinear(torch.nn.Linear(*shape, bias=False), BaseQuantizeConfig(**params), compute_dtype=out, device="cpu")
                state = layer.state_dict()
                again = HQQLinear(None, None, compute_dtype=out, device="cpu")
                again.load_state_dict(dict(state))
                modules[f"m{i}"] = state, again.dequantize()
            case(f"hqq{bits}-axis{axis}-{NAMES[out]}", {"quantization_config": hqq(params)}, modules)
for bits in 4, 3:
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, dtype="bfloat16", architectures=["LlamaForCausalLM"])).to(BF16)
    AutoHQQHFModel.quantize_model(model, BaseQuantizeConfig(nbits=bits, group_size=64), compute_dtype=BF16, device="cpu")
    model.config.quantization_config = HqqConfig(nbits=bits, group_size=64).to_dict()
    folder = os.path.join(sys.argv[1], f"hqq-model-{bits}")
    AutoHQQHFModel.save_to_safetensors(model, folder)
    want = {k: v for k, v in model.state_dict().items() if k.endswith((".weight", "_norm"))}
    want |= {f"{k}.weight": m.dequantize() for k, m in model.named_modules() if isinstance(m, HQQLinear)}
    save_file({k: v.contiguous() for k, v in want.items()}, os.path.join(folder, "want.safetensors"))

# TorchAO: the parts of its tensors, made from floats and forged, and what they dequantize to; and in models
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
from torchao.quantization import (
    Float8DynamicActivationFloat8WeightConfig, Float8Tensor, Float8WeightOnlyConfig, FqnToConfig, Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig, Int8Tensor, Int8WeightOnlyConfig, IntxUnpackedToInt8Tensor, IntxWeightOnlyConfig, MappingType,
    quantize_)
from torchao.quantization.granularity import PerAxis, PerBlock, PerGroup, PerRow, PerTensor
from torchao.quantization.quantize_.workflows.intx.intx_choose_qparams_algorithm import IntxChooseQParamsAlgorithm
from transformers import AutoModelForCausalLM, TorchAoConfig


def torchao(config, out, **more):
    return {"dtype": NAMES[out], "quantization_config": TorchAoConfig(config, **more).to_dict()}


def parts(weight):
    tensors, meta = flatten_tensor_state_dict({"m.weight": weight})
    return {k[2:]: v for k, v in tensors.items()}, weight.dequantize(), meta["m.weight"]


def quantized(config, *shape, dtype):
    layer = torch.nn.Linear(shape[1], shape[0], bias=False, dtype=dtype)
    quantize_(layer, config)
    return parts(layer.state_dict()["weight"])


def forged(bits, grid, shape, dtype, scale_dtype=None):
    least = -(1 << (bits - 1))
    draw = lambda shape: torch.randint(least, -least, shape, dtype=torch.int8)
    block = [n // g for n, g in zip(shape, grid)]
    return IntxUnpackedToInt8Tensor(draw(shape), scales(*grid, dtype=scale_dtype or dtype), draw(grid), getattr(torch, f"int{bits}"),
                                    block, dtype, None)


for out in BF16, F16, F32:
    for bits in range(1, 9):
        dtype = getattr(torch, f"int{bits}")
        for j, mapping in enumerate((MappingType.SYMMETRIC, MappingType.ASYMMETRIC, MappingType.SYMMETRIC_NO_CLIPPING_ERR)):
            if bits == 1 and j == 2:
                continue  # it divides by 0
            config = IntxWeightOnlyConfig(weight_dtype=dtype, granularity=(PerGroup(32), PerAxis(0))[bits % 2], mapping_type=mapping,
                                          scale_dtype=(None, F32, BF16)[j])
            modules = {f"m{i}": quantized(config, *shape, dtype=out) for i, shape in enumerate(((96, 64), (32, 160)))}
            modules["forged"] = parts(forged(bits, (96, (2, 1)[bits % 2]), (96, 64), out, (None, F32, BF16)[j]))
            case(f"torchao-int{bits}-{mapping.name}-{NAMES[out]}", torchao(config, out), modules)
    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(64),
        intx_choose_qparams_algorithm=IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY)
    case(f"torchao-hqq-{NAMES[out]}", torchao(config, out), {"m": quantized(config, 96, 128, dtype=out)})
    for by, grid in (PerRow(), (96, 1)), (PerTensor(), (1, 1)), (PerGroup(16), (96, 5)):
        config = Int8WeightOnlyConfig(granularity=by)
        x = forged(8, grid, (96, 80), out, F32)
        x = Int8Tensor(x.qdata, x.scale, list(x.block_size), out, zero_point=x.zero_point)
        modules = {"m": quantized(config, 32, 80, dtype=out), "forged": parts(x), "bare": parts(Int8Tensor(x.qdata, x.scale, list(x.block_size), out))}
        case(f"torchao-int8-{type(by).__name__}-{NAMES[out]}", torchao(config, out), modules)
        config = Float8WeightOnlyConfig(granularity=by)
        modules = {"m": quantized(config, 32, 80, dtype=out), "forged": parts(Float8Tensor(elements(96, 80), scales(*grid), list(x.block_size), dtype=out))}
        case(f"torchao-fp8-{type(by).__name__}-{NAMES[out]}", torchao(config, out), modules)
    for by in [PerTensor(), PerRow()], PerTensor():
        config = Int8DynamicActivationInt8WeightConfig(granularity=by)
        case(f"torchao-w8a8-{type(by).__name__}-{NAMES[out]}", torchao(config, out), {"m": quantized(config, 64, 80, dtype=out)})
    for by, grid in (None, (1, 1)), (PerRow(), (256, 1)), ([PerBlock([1, 128]), PerBlock([128, 128])], (2, 3)):
        config = Float8DynamicActivationFloat8WeightConfig(granularity=by)
        weight = Float8Tensor(elements(256, 384), scales(*grid), [256 // grid[0], 384 // grid[1]], dtype=out)
        case(f"torchao-fp8-dynamic-{grid[1]}{grid[0]}-{NAMES[out]}", torchao(config, out), {"m": parts(weight)})

base = os.path.join(sys.argv[1], "base")
LlamaForCausalLM(LlamaConfig(
    vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
    dtype="bfloat16", architectures=["LlamaForCausalLM"])).to(BF16).save_pretrained(base)
four, eight = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), Int8WeightOnlyConfig()
for name, config in (
        ("int4", TorchAoConfig(four)),
        ("head", TorchAoConfig(four, include_input_output_embeddings=True)),
        ("names", TorchAoConfig(Int8DynamicActivationInt8WeightConfig(), modules_to_not_convert=["model.layers.0.mlp"])),
        ("fp8", TorchAoConfig(Float8WeightOnlyConfig())),
        ("mixed", TorchAoConfig(FqnToConfig({
            "re:.*\\.q_proj": four, "model.layers.0.self_attn.v_proj": None, "model.layers.1.mlp.up_proj.weight": Float8WeightOnlyConfig(),
            "lm_head": four, "model.embed_tokens": four, "_default": eight}), include_input_output_embeddings=True))):
    model = AutoModelForCausalLM.from_pretrained(base, quantization_config=config, dtype=BF16)
    folder = os.path.join(sys.argv[1], "torchao-model-" + name)
    model.save_pretrained(folder)
    want = {k: w if type(w) is torch.Tensor else w.dequantize() for k, w in model.state_dict().items()}
    save_file({k: w.contiguous().clone() for k, w in want.items()}, os.path.join(folder, "want.safetensors"))
import shutil

shutil.rmtree(base)

# Optimum Quanto: models that it writes, and the same with other parts of weights
from types import SimpleNamespace

from optimum.quanto import MaxOptimizer, QuantizedModelForCausalLM, qfloat8, qint2, qint4, qint8
from optimum.quanto.library.extensions.cpp import ext
from optimum.quanto.tensor.weights import WeightQBitsTensor, WeightQBytesTensor

text = open(sys.modules["optimum.quanto.library"].__path__[0] + "/unpack.py").read()
own = {"torch": torch}
exec(text[text.index("def unpack"):], own)  # its definition in Python, in place of one that is compiled for minutes
ext._lib = SimpleNamespace(unpack=own["unpack"])


class ZeroPoints(MaxOptimizer):
    def __call__(self, *args, **more):
        return super().__call__(*args, **more, zeropoint=True)


def forge(stored):
    for k, v in stored.items():
        if k.endswith("._data"):
            stored[k] = elements(*v.shape) if v.dtype == E4M3 else torch.randint(0, 256, v.shape, dtype=torch.uint8).view(v.dtype)
        elif k.endswith("._scale"):
            stored[k] = scales(*v.shape, dtype=v.dtype)
        elif k.endswith("._shift"):
            stored[k] = (torch.randn(v.shape) * 0.01).to(v.dtype)


def weight(stored, module, name):
    """What a file holds of a module, in the form that is not of a device: kernels for BF16 in groups of 128 round shifts again."""
    prefix, size, stride = name + ".weight.", module.weight.size(), module.weight.stride()
    if module.weight_qtype.bits == 8:
        return WeightQBytesTensor.load_from_state_dict(
            dict(stored), prefix, qtype=module.weight_qtype, axis=0, size=size, stride=stride, activation_qtype=None, missing_keys=[])
    return WeightQBitsTensor.load_from_state_dict(
        dict(stored), prefix, qtype=module.weight_qtype, axis=0, group_size=module.weight_group_size, size=size, stride=stride, missing_keys=[])


for kind in qint8, qint4, qint2, qfloat8:
    for hidden, out, how in (256, BF16, None), (160, F32, None), (192, F16, "lm_head"), (64, BF16, "lm_head"), (160, BF16, ZeroPoints()):
        if isinstance(how, MaxOptimizer) and kind.bits == 8:
            continue
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=64, hidden_size=hidden, intermediate_size=160, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
            dtype=NAMES[out], architectures=["LlamaForCausalLM"])).to(out)
        more = {"exclude": how} if isinstance(how, str) else {"optimizer": how}
        model = QuantizedModelForCausalLM.quantize(model, weights=kind, **more)
        for forged in False, True:
            if forged and isinstance(how, MaxOptimizer):
                continue
            folder = os.path.join(sys.argv[1], f"quanto-{kind.name}-{hidden}-{NAMES[out]}-{'forged' if forged else 'made'}{'-zeros' if more.get('optimizer') else ''}")
            model.save_pretrained(folder)
            stored = load_file(os.path.join(folder, "model.safetensors"))
            if forged:
                forge(stored)
                save_file(stored, os.path.join(folder, "model.safetensors"))
            qmap = json.load(open(os.path.join(folder, "quanto_qmap.json")))
            want = {f"{k}.weight": weight(stored, model.get_submodule(k), k).dequantize().contiguous() for k in qmap}
            want |= {k: v for k, v in stored.items() if k.rpartition(".")[0] not in qmap and ".weight._" not in k}
            save_file(want, os.path.join(folder, "want.safetensors"))
