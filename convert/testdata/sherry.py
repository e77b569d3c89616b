"""Writes sherry.json, weights of few values that Sherry makes of random ones (arXiv 2601.07892), for TestSherry.

    git clone https://github.com/Tencent/AngelSlim && git -C AngelSlim checkout 67394ce55f6b6cfae702575fbc3c7a05c13fdd74
    python3 sherry.py AngelSlim/angelslim/compressor/qat/modules/special_quantizer.py sherry.json

needs PyTorch 2."""
import importlib.util, json, sys

import torch

spec = importlib.util.spec_from_file_location("special_quantizer", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
torch.manual_seed(11)
cases = []
for granularity, group, unit in ("per_group", 128, "group:128"), ("per_group", 32, "group:32"), ("per_channel", 0, "row"), (
        "per_tensor", 0, "tensor"):
    weights = (torch.randn(4, 256) * 0.02).to(torch.bfloat16)
    quantizer = module.SpecialWeightQuantizer(
        {"special": {"quant_method": "sherry", "granularity": granularity, "group_size": group, "N": 3, "M": 4}}, weights.shape)
    made = quantizer.eval()(weights)
    cases.append({"unit": unit, "weights": made.view(torch.int16).numpy().astype("<i2").tobytes().hex(),
                  "codes": "".join("-0+"[int(c) + 1] for c in made.sign().flatten())})
json.dump({"shape": [4, 256], "dtype": "BF16", "cases": cases}, open(sys.argv[2], "w"), indent=1)
