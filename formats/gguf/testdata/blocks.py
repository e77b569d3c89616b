"""Blocks of every type that the gguf package decodes, and its values of them, for TestBlocks. Rows are random bytes with finite
scales, or what the package makes of random floats where it can."""
import base64, json, sys
import numpy as np
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES, quants

HALVES = {  # where float16 numbers stand in a block
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
    "Q5_K": [0, 2], "Q6_K": [208], "TQ1_0": [52], "TQ2_0": [64], "MXFP4": [], "Q1_0": [0], "Q2_0": [0], "IQ4_NL": [0],
    "IQ4_XS": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": [], "NVFP4": [],
}
out, rng = [], np.random.default_rng(7)


def add(name, how, data, rows):
    values = quants.dequantize(data, T[name]).astype("<f4").reshape(rows, -1)
    text = lambda a: base64.b64encode(np.ascontiguousarray(a).tobytes()).decode()
    out.append({"type": name, "from": how, "rows": rows, "data": text(data), "values": text(values)})


for name, halves in HALVES.items():
    if name not in T.__members__:
        continue
    weights, size = GGML_QUANT_SIZES[T[name]]
    try:
        x = rng.normal(0, 0.05, (2, 512)).astype(np.float32)
        add(name, "floats", quants.quantize(x, T[name]), 2)
    except NotImplementedError:
        pass
    if name.startswith("TQ") or name == "Q1_0":
        continue  # not every byte is one of them
    blocks = rng.integers(0, 256, (2 * 512 // weights, size), dtype=np.uint8)
    for at in halves:
        blocks[:, at : at + 2] = rng.normal(0, 0.1, len(blocks)).astype("<f2").view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(100, 140, len(blocks))
    if name == "IQ1_M":  # the upper nibbles of the last four words are the float16
        half = rng.normal(0, 0.1, len(blocks)).astype("<f2").view("<u2")
        for i in range(4):
            blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | (half >> (4 * i) & 15) << 4
    if name == "NVFP4":
        blocks[:, :4] %= 127  # without NaN
    if name == "Q8_0":
        blocks[blocks == 128] = 0  # -128 is no code
        for at in halves:
            blocks[:, at : at + 2] = rng.normal(0, 0.1, len(blocks)).astype("<f2").view(np.uint8).reshape(-1, 2)
    try:
        add(name, "bytes", blocks.reshape(2, -1), 2)
    except NotImplementedError:
        pass
json.dump(out, sys.stdout, indent=0)
print()
