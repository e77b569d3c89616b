"""Blocks of the i-quants with grids and of NVFP4, and the gguf package's values of them, for TestInteropGrids: random bytes that name
every vector, below float16 numbers at the ends of their range."""
import base64, json, sys
import numpy as np
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES, quants

rng, out, rows = np.random.default_rng(11), [], 1024
ends = np.array([0, -0.0, 2**-24, -(2**-24), 2**-14, 1023 * 2**-24, 65504, -65504, 1, 0.1, 1e-3, -3e-5], "<f2").view("<u2")
text = lambda a: base64.b64encode(np.ascontiguousarray(a).tobytes()).decode()
for name in "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "NVFP4":
    weights, size = GGML_QUANT_SIZES[T[name]]
    blocks, half = rng.integers(0, 256, (rows, size), dtype=np.uint8), np.resize(ends, rows)
    if name == "NVFP4":
        blocks[:, :4] %= 127  # without NaN
    elif name == "IQ1_M":
        for i in range(4):
            blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | (half >> (4 * i) & 15) << 4
    else:
        blocks[:, :2] = half.view(np.uint8).reshape(rows, 2)
    values = quants.dequantize(blocks, T[name]).astype("<f4")
    out.append({"type": name, "from": "bytes", "rows": rows, "data": text(blocks), "values": text(values)})
json.dump(out, sys.stdout)
