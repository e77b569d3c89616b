"""What OpenVINO makes of a model. The first argument is a directory, the second a JSON object:

threads   number of threads on the CPU; no other option is given, but for float32 where bfloat16 would be the default
options   of the device NPU instead: it runs there, and writes the logits of the last token alone
prompts   lists of token ids; each is continued greedily by `new` tokens
logits    true: write the logits behind every token to OUT
outputs   names of layers, or of values NAME, whose floats are written to OUT for the first prompt
Prints {"tokens": [[…]], "types": {type of the stored weights of a matrix product: count}}.
"""
import json, os, sys
from collections import Counter
import numpy as np, openvino as ov

folder, spec, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
core = ov.Core()
core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})
path = os.path.join(folder, "openvino_model.xml")
model = core.read_model(path)
if spec.get("outputs"):
    layers = {op.get_friendly_name(): op for op in model.get_ops()}
    unique = list(dict.fromkeys(spec["outputs"]))
    model.add_outputs([layers[name].output(0) for name in unique])
if spec.get("options"):
    compiled, types = core.compile_model(path, "NPU", spec["options"]), Counter()
else:
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": spec["threads"]})
    types = Counter(op.get_rt_info()["runtimePrecision"].astype(str) for op in compiled.get_runtime_model().get_ordered_ops()
                    if op.get_rt_info()["layerType"].astype(str) == "FullyConnected")


def run(request, tokens, past):
    n = len(tokens)
    values = {
        "input_ids": np.array([tokens], np.int64), "attention_mask": np.ones((1, past + n), np.int64),
        "position_ids": np.arange(past, past + n, dtype=np.int64)[None], "beam_idx": np.zeros(1, np.int32)}
    wanted = {i.get_any_name() for i in compiled.inputs}
    request.infer({name: x for name, x in values.items() if name in wanted})


answer, arrays = {"tokens": [], "types": types}, []
for prompt in spec["prompts"]:
    request = compiled.create_infer_request()
    tokens, past, made = prompt, 0, []
    if spec.get("outputs"):
        run(request, prompt, 0)
        arrays = [request.get_output_tensor(1 + unique.index(name)).data.copy() for name in spec["outputs"]]
        break
    while True:
        run(request, tokens, past)
        past += len(tokens)
        logits = request.get_tensor("logits").data
        if spec.get("logits"):
            arrays.append(logits.copy())
        if len(made) == spec["new"]:
            break
        made.append(int(logits[0, -1].argmax()))
        tokens = [made[-1]]
    answer["tokens"].append(made)
with open(out, "wb") as f:
    for x in arrays:
        f.write(x.astype("<f4").tobytes())
print(json.dumps(answer))
