"""What onnxruntime makes of a directory. The first argument is a folder, the second a JSON object:

threads, level   of the session: numbers of threads, and the name of a level of optimization
prompts          lists of token ids; each is continued greedily by `new` tokens
logits           true: write the logits behind every token of the prompts to OUT
outputs          names of values that are written to OUT, float32, for the first prompt
Prints {"tokens": [[…]], "shapes": {name: […]}}.
"""
import json, os, sys
import numpy as np, onnxruntime as ort

folder, spec, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
options = ort.SessionOptions()
options.intra_op_num_threads = spec["threads"]
options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, spec["level"])
session = ort.InferenceSession(os.path.join(folder, "model.onnx"), options, ["CPUExecutionProvider"])
cache = [i for i in session.get_inputs() if i.name.startswith("past_key_values.")]
wanted = ["logits"] + [i.name.replace("past_key_values", "present") for i in cache]


def run(tokens, length, past, names):
    feed = {"input_ids": np.array([tokens], np.int64), "attention_mask": np.ones((1, length), np.int64), **past}
    return session.run(names, feed)


answer, files = {"tokens": [], "shapes": {}}, []
for prompt in spec["prompts"]:
    past = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32) for i in cache}
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
