"""Writes checkpoints, each a folder with config.json, model.safetensors and want.safetensors, for the programs of TestInteropValues and TestInteropQuark.

Their arguments are the folder to write to and the folders with the packages."""
import json, os, sys

sys.path += sys.argv[2:]
import torch
from safetensors.torch import save_file

torch.manual_seed(7)
BF16, F16, F32, E4M3 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn
NAMES = {BF16: "bfloat16", F16: "float16", F32: "float32"}


def case(name, config, modules):
    """modules: {module: (tensors, weight, what the metadata says of the weight or nothing)}"""
    stored = {f"{m}.{k}": v for m, (tensors, *_) in modules.items() for k, v in tensors.items()}
    meta = {m + ".weight": said for m, (_, _, *more) in modules.items() for said in more}
    write(name, config, stored, {m + ".weight": w for m, (_, w, *_) in modules.items()}, meta)


def write(name, config, stored, want, meta=None):
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder)
    json.dump(config, open(os.path.join(folder, "config.json"), "w"))
    whole = {k: v.clone(memory_format=torch.contiguous_format) for k, v in stored.items()}
    save_file(whole, os.path.join(folder, "model.safetensors"), meta)
    save_file({k: w.contiguous() for k, w in want.items()}, os.path.join(folder, "want.safetensors"))


def elements(rows, columns):
    """Random bytes with every number of the type, and no NaN."""
    b = torch.randint(0, 256, (rows, columns), dtype=torch.uint8)
    b.view(-1)[:256] = torch.arange(256, dtype=torch.uint8)
    b[(b & 0x7F) == 0x7F] = 0x38
    return b.view(E4M3)


def scales(*shape, dtype=F32):
    return (torch.rand(shape) * torch.exp2(torch.randint(-14, -3, shape).float())).to(dtype)
