"""What OpenVINO makes of models of static shapes, led as NITRO leads them: prompts in pieces, the first of which begins with tokens that nothing
attends to, then token after token. The first argument is a directory, the second a JSON object:

threads   number of threads on the CPU; no other option is given, but for float32 where bfloat16 would be the default
options   of the device NPU, where the models run instead
prompts   lists of token ids; each is continued greedily by `new` tokens
logits    true: write the logits of each token to OUT that the next one is chosen by
outputs   names of layers of the first models of layers, whose floats are written to OUT for the first piece of the first prompt
Prints {"tokens": [[…]], "types": {type of the stored weights of a matrix product: count}}.
"""
import json, os, re, sys
from collections import Counter
import numpy as np, openvino as ov

folder, spec, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
core, types = ov.Core(), Counter()
core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})
device, options = ("NPU", spec["options"]) if spec.get("options") else ("CPU", {"INFERENCE_NUM_THREADS": spec["threads"]})
if device == "NPU":
    core.set_property("CPU", {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0})  # NPUW loses the options that a model carries
watched = list(dict.fromkeys(spec.get("outputs") or []))


def load(directory, name, extra=()):
    path = os.path.join(folder, directory, name + ".xml")
    if not os.path.exists(path):
        return None
    model = core.read_model(path, os.path.join(folder, "model", name + ".bin"))
    layers = {op.get_friendly_name(): op for op in model.get_ops()}
    model.add_outputs([layers[name].output(0) for name in extra])
    compiled = core.compile_model(model, device, options)
    if device == "CPU":
        types.update(op.get_rt_info()["runtimePrecision"].astype(str) for op in compiled.get_runtime_model().get_ordered_ops()
                     if op.get_rt_info()["layerType"].astype(str) == "FullyConnected")
    return compiled


class Pass:
    """The models that take as many tokens at once."""

    def __init__(self, directory):
        names = sorted((n[:-4] for n in os.listdir(os.path.join(folder, directory)) if re.fullmatch(r"\d+\.xml", n)), key=int)
        self.models = [load(directory, n, watched if n == "1" and directory == first else ()) for n in names]
        self.tables = load(directory, "rotary").create_infer_request()
        self.size = self.models[0].input("token").shape[1]
        self.requests = []

    def begin(self):
        self.requests = [m.create_infer_request() for m in self.models]

    def run(self, tokens, n, caches):
        """Runs tokens, of which the last ones are new behind n others; returns the hidden states behind them, or logits."""
        pad = self.size - len(tokens)
        self.tables.infer({"position": np.maximum(np.arange(n - pad, n + len(tokens)), 0)})
        given = {name: self.tables.get_tensor(name).data for port in self.tables.model_outputs for name in port.get_names()}
        given["token"] = np.array([[0] * pad + tokens])
        for r in self.requests:
            wanted = {name: port.shape for port in r.model_inputs for name in port.get_names()}
            for mask in wanted.keys() & {"mask", "mask_local"}:
                given[mask] = visible(wanted[mask], pad, n, windows[mask])
            r.infer({name: given.get(name, caches.get(name)) for name in wanted})
            given["x"] = r.get_output_tensor(0).data
            for name in wanted.keys() & caches.keys():
                caches[name][:, :, n : n + len(tokens)] = r.get_tensor(name + "_out").data[:, :, pad:]
        return given["x"]


def visible(shape, pad, n, window):
    """A mask: tokens attend to themselves, to new ones before them that are not padding, and to the last of n earlier ones."""
    size, columns = shape[2], shape[3]
    mask = np.full(shape, -np.inf, np.float32)
    earlier = 0 if caching else columns - size - n
    for q in range(size):
        position = n + q - pad
        oldest = max(0, position - window + 1)
        mask[0, 0, q, earlier + oldest : earlier + n] = 0
        mask[0, 0, q, columns - size + pad + max(0, oldest - n) : columns - size + q + 1] = 0
        mask[0, 0, q, columns - size + q] = 0
    return mask


def fresh():
    return {name: np.zeros(port.shape, np.float32) for m in one.models for port in m.inputs for name in port.get_names() if name.startswith("cache_")}


first = "prefill_model" if os.path.exists(os.path.join(folder, "prefill_model")) else "model"
one = Pass("model")
several = Pass(first) if first != "model" else one
caching = bool(fresh())
with open(os.path.join(folder, "config.json")) as f:
    windows = {"mask": 1 << 30, "mask_local": json.load(f).get("sliding_window") or 1 << 30}

answer, arrays = {"tokens": [], "types": types}, []
for prompt in spec["prompts"]:
    caches, n, made = fresh(), 0, []
    several.begin()
    one.begin()
    while n < len(prompt):
        piece = prompt[n : n + ((len(prompt) - n) % several.size or several.size)]
        x = several.run(piece, n, caches)
        n += len(piece)
        if watched:
            break
    if watched:
        arrays = [several.requests[1].get_tensor(several.models[1].outputs[-len(watched) + watched.index(name)]).data.copy() for name in spec["outputs"]]
        break
    if several is not one:
        for a, b in zip(several.requests, one.requests):
            states = {s.name: s for s in b.query_state()}
            for s in a.query_state():
                states[s.name].state = ov.Tensor(s.state.data.copy())
        x = x[:, -1:]
        one.requests[-1].infer({"x": x})
        x = one.requests[-1].get_tensor("logits").data
    while True:
        if spec.get("logits"):
            arrays.append(x.copy())
        if len(made) == spec["new"]:
            break
        made.append(int(x[0, -1].argmax()))
        x = one.run([made[-1]], n, caches)
        n += 1
    answer["tokens"].append(made)
with open(out, "wb") as f:
    for x in arrays:
        f.write(x.astype("<f4").tobytes())
print(json.dumps(answer))
