"""Writes checkpoints as AMD Quark does, for TestInteropQuark: numbers of all sizes as its layers read them, and models that it writes and
transformers reads."""
import os, sys
from types import SimpleNamespace

from cases import BF16, E4M3, F16, F32, NAMES, case, elements, scales
import torch
from safetensors.torch import save_file

kernels = SimpleNamespace(kernel_ext=SimpleNamespace(), __spec__=None)
sys.modules["quark.torch.kernel.hw_emulation.extensions"] = kernels  # in C++, compiled for minutes; none is called here
from quark.torch import ModelQuantizer, export_safetensors
from quark.torch.export.nn.modules.realquantizer import StaticScaledRealQuantizer
from quark.torch.quantization.config import config as qc
from quark.torch.quantization.config.type import Dtype, QSchemeType
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM


def quark(spec, reorder, shape, out, per=1, zeros=True):
    """Any tensors of a weight, and what its quantizer makes of them. per is the number of codes in an element."""
    spec = spec.to_quantization_spec()
    grouped, dtype = spec.qscheme == QSchemeType.per_group, spec.dtype.to_torch_packed_dtype()
    quantizer = StaticScaledRealQuantizer(spec, None, reorder, True, F32, device="cpu")
    stored = list(shape[::-1] if grouped and spec.dtype in INTEGERS else shape)
    stored[-1] = stored[-1] // per if per != 6 else stored[-1] // 4 * 3
    weight = elements(*stored) if dtype == E4M3 else torch.randint(-(1 << 31), 1 << 31, stored).to(dtype)
    packed, scales_of, zeros_of = quantizer.pack_method.infer_packed_shape(shape, spec)
    assert list(packed) == stored
    if spec.scale_format == "e8m0":
        state = {"scale": torch.randint(100, 140, scales_of, dtype=torch.uint8)}
        quantizer.scale = state["scale"]
    else:
        state = {"scale": scales(*scales_of, dtype=out)}
        quantizer.scale = state["scale"].to(F32)
    if spec.dtype in INTEGERS:
        state["zero_point"] = torch.randint(-(1 << 31), 1 << 31, zeros_of).to(dtype) if zeros else torch.zeros(zeros_of, dtype=dtype)
        if zeros and not zeros_of and per == 8:
            state["zero_point"] = torch.tensor(5, dtype=dtype)
        quantizer.zero_point = state["zero_point"]
    return {"weight": weight, **{"weight_" + k: v for k, v in state.items()}}, quantizer(weight).to(out)


INTEGERS = Dtype.int4, Dtype.uint4, Dtype.int8, Dtype.uint8
static = {"is_dynamic": False}
rounds = {"round_method": "half_even", "scale_type": "float", **static}
kinds = {
    "fp8-tensor": (qc.FP8E4M3PerTensorSpec(observer_method="min_max", **static), 1),
    "fp8-channel": (qc.FP8E4M3PerChannelSpec(ch_axis=0, **static), 1),
    "mxfp4": (qc.OCP_MXFP4Spec(ch_axis=-1, **static), 2),
    "mxfp6-e2m3": (qc.OCP_MXFP6E2M3Spec(ch_axis=-1, **static), 6),
    "mxfp6-e3m2": (qc.OCP_MXFP6E3M2Spec(ch_axis=-1, **static), 6)}
for name in "Int4", "Uint4", "Int8", "Uint8":
    for symmetric in True, False:
        per, by = 8 if "4" in name else 1, "-symmetric" if symmetric else ""
        more = {"symmetric": symmetric, **rounds}
        kinds[name + "-tensor" + by] = getattr(qc, name + "PerTensorSpec")(observer_method="min_max", **more), per
        kinds[name + "-channel" + by] = getattr(qc, name + "PerChannelSpec")(ch_axis=0, **more), per
        kinds[name + "-group" + by] = getattr(qc, name + "PerGroupSpec")(ch_axis=-1, group_size=32, **more), per
for name, (spec, per) in kinds.items():
    for out, method in (BF16, "reorder"), (F16, "order"), (F32, "reorder"):
        if "-symmetric" in name and name.startswith("U"):
            continue  # its zero points are those of the middle
        modules = {f"m{i}": quark(spec, method == "reorder", shape, out, per, "-symmetric" not in name) for i, shape in enumerate(((64, 96), (32, 160)))}
        config = qc.QConfig(global_quant_config=qc.QLayerConfig(weight=spec.to_quantization_spec()), exclude=["lm_head"]).to_dict()
        case(f"quark-{name}-{NAMES[out]}", {"dtype": NAMES[out], "quantization_config": {**config, "export": {
            "pack_method": method, "weight_format": "real_quantized", "kv_cache_group": [], "min_kv_scale": 0.0, "weight_merge_groups": None}}}, modules)

own = {"q": "Int4-group-symmetric", "k": "Uint4-group", "v": "Int8-channel-symmetric", "o": "fp8-tensor", "gate": "fp8-channel", "up": "Int4-channel-symmetric",
       "down": "Uint8-channel"}
for method in "reorder", "order":
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        dtype="bfloat16", architectures=["LlamaForCausalLM"])).to(BF16).eval()
    layers = {f"*.{k}_proj": qc.QLayerConfig(weight=kinds[v][0].to_quantization_spec()) for k, v in own.items()}
    quantizer = ModelQuantizer(qc.QConfig(global_quant_config=layers["*.o_proj"], layer_quant_config=layers, exclude=["lm_head"]))
    model = quantizer.freeze(quantizer.quantize_model(model, torch.utils.data.DataLoader(torch.arange(32).reshape(1, 32))))
    folder = os.path.join(sys.argv[1], "quark-model-" + method)
    with torch.no_grad():
        export_safetensors(model, folder, pack_method=method)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=BF16)
    want = {k: v for k, v in model.state_dict().items() if k.endswith((".weight", "_norm")) and "_proj" not in k}
    want |= {k + ".weight": m._get_qweight(m.weight).to(BF16) for k, m in model.named_modules() if hasattr(m, "_get_qweight")}
    save_file({k: v.contiguous() for k, v in want.items()}, os.path.join(folder, "want.safetensors"))
