"""Runs openvino-batched-bench with its arguments, then prints the shape of the logits that its model computes of a prompt
of three tokens, and how far they are from the last ones of the model as it is.

  last_logits.py PROGRAM ARGUMENTS...
"""

import json
import os
import runpy
import sys

import numpy as np

sys.argv = sys.argv[1:]
program = runpy.run_path(sys.argv[0], run_name="__main__")
core, args = program["core"], program["args"]


def logits(model):
    request = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    feed = {
        "input_ids": np.array([[5, 6, 7]]),
        "attention_mask": np.ones((1, 3), np.int64),
        "position_ids": np.arange(3).reshape(1, 3),
        "beam_idx": np.zeros(1, np.int32),
    }
    names = {i.get_any_name() for i in model.inputs}
    request.infer({name: x for name, x in feed.items() if name in names})
    return request.get_tensor("logits").data.copy()


path = os.path.join(args.m, "openvino_model.xml")
last = core.read_model(path)
vocabulary = program["last_logits"](last)
whole, one = logits(core.read_model(path)), logits(last)
print(json.dumps({"vocabulary": vocabulary, "whole": whole.shape, "last": one.shape,
                  "difference": float(np.abs(whole[:, -1:] - one).max())}))
