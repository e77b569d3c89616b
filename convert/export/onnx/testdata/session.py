"""What onnxruntime, or OpenVINO in an environment without it, makes of a directory. The first argument is a folder, the second a JSON object:

threads          number of threads
level            name of a level of optimization, for onnxruntime
prompts          lists of token ids; each is continued greedily by `new` tokens
logits           true: write the logits behind every token of the prompts to OUT
outputs          names of values that are written to OUT, float32, for the first prompt
Prints {"tokens": [[…]], "shapes": {name: […]}}.
"""
import json, os, sys
import numpy as np

try:
    import onnxruntime as ort
except ImportError:
    import openvino as ov

folder, spec, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
path = os.path.join(folder, "model.onnx")


def in_onnxruntime():
    options = ort.SessionOptions()
    options.intra_op_num_threads = spec["threads"]
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, spec["level"])
    session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
    return {i.name: i.shape for i in session.get_inputs()}, lambda names, feed: session.run(names, feed)


def in_openvino():
    # By default it quantizes the activations of packed matrices, and an ONNX file cannot say that it must not.
    options = {"INFERENCE_NUM_THREADS": spec["threads"], "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0, "INFERENCE_PRECISION_HINT": "f32"}
    model = ov.Core().compile_model(path, "CPU", options)

    def infer(names, feed):
        got = model(feed)
        return [got[name].copy() for name in names]

    return {i.get_any_name(): [d.get_length() if d.is_static else None for d in i.partial_shape] for i in model.inputs}, infer


inputs, infer = in_onnxruntime() if "ort" in globals() else in_openvino()
cache = [name for name in inputs if name.startswith("past_key_values.")]
wanted = ["logits"] + [name.replace("past_key_values", "present") for name in cache]


def run(tokens, length, past, names):
    return infer(names, {"input_ids": np.array([tokens], np.int64), "attention_mask": np.ones((1, length), np.int64), **past})


answer, files = {"tokens": [], "shapes": {}}, []
for prompt in spec["prompts"]:
    past = {name: np.zeros((1, inputs[name][1], 0, inputs[name][3]), np.float32) for name in cache}
    tokens, length, made = prompt, 0, []
    if spec.get("outputs"):
        for name, x in zip(spec["outputs"], run(prompt, len(prompt), past, spec["outputs"])):
            answer["shapes"][name] = list(x.shape)
            files.append(x)
        break
    while True:
        length += len(tokens)
        got = run(tokens, length, past, wanted)
        past = dict(zip(past, got[1:]))
        if spec.get("logits"):
            files.append(got[0])
        if len(made) == spec["new"]:
            break
        made.append(int(got[0][0, -1].argmax()))
        tokens = [made[-1]]
    answer["tokens"].append(made)
with open(out, "wb") as f:
    for x in files:
        f.write(x.astype("<f4").tobytes())
print(json.dumps(answer))
