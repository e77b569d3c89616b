"""What a runtime makes of a directory: its perplexity, and with "new" in the specification a chat of that many tokens and their speed.

The first argument is a directory of onnxruntime-genai or OpenVINO GenAI, the second a JSON object:
{"windows": [[token, …], …], "threads": n, "new": n, "chat": "…"}. In each window all tokens but the first are scored.
Prints {"mb": …, "perplexity": …, "speed": …, "text": "…"}; speed is that of decode, in tokens per second.
"""
import json, os, sys, time
import numpy as np

folder, spec = sys.argv[1], json.loads(sys.argv[2])
in_onnxruntime = os.path.exists(os.path.join(folder, "model.onnx"))


def onnxruntime_logits():
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = spec["threads"]
    session = ort.InferenceSession(os.path.join(folder, "model.onnx"), options, ["CPUExecutionProvider"])
    past = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32) for i in session.get_inputs() if i.name.startswith("past_key_values.")}
    return lambda ids: session.run(["logits"], {"input_ids": ids, "attention_mask": np.ones_like(ids), **past})[0]


def openvino_logits():
    import openvino as ov

    model = ov.Core().compile_model(os.path.join(folder, "openvino_model.xml"), "CPU", {"INFERENCE_NUM_THREADS": spec["threads"]})
    names = {i.get_any_name() for i in model.inputs}

    def logits(ids):
        request = model.create_infer_request()  # with an empty KV cache
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(ids.shape[1])[None], "beam_idx": np.zeros(1, np.int32)}
        return request.infer({name: x for name, x in feed.items() if name in names})["logits"].copy()

    return logits


def perplexity():
    logits, losses = (onnxruntime_logits if in_onnxruntime else openvino_logits)(), []
    for window in spec["windows"]:
        x = logits(np.array([window], np.int64))[0, :-1].astype(np.float64)
        x -= x.max(-1, keepdims=True)
        losses.extend(np.log(np.exp(x).sum(-1)) - x[np.arange(len(x)), window[1:]])
    return float(np.exp(np.mean(losses)))


def onnxruntime_chat():
    import onnxruntime_genai as og

    config = og.Config(folder)
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": spec["threads"]}}}}))
    model = og.Model(config)
    tokenizer = og.Tokenizer(model)
    ids = tokenizer.encode(tokenizer.apply_chat_template(messages=json.dumps([{"role": "user", "content": spec["chat"]}]), add_generation_prompt=True))
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(ids) + spec["new"])
    generator, made = og.Generator(model, params), []
    generator.append_tokens(ids)
    while not generator.is_done():
        generator.generate_next_token()
        if not made:
            start = time.perf_counter()
        made.append(int(generator.get_next_tokens()[0]))
    return tokenizer.decode(np.array(made)), (len(made) - 1) / (time.perf_counter() - start)


def openvino_chat():
    import openvino_genai

    pipe = openvino_genai.LLMPipeline(folder, "CPU", INFERENCE_NUM_THREADS=spec["threads"])
    result = pipe.generate([spec["chat"]], max_new_tokens=spec["new"], do_sample=False)
    return result.texts[0], 1000 / result.perf_metrics.get_tpot().mean


answer = {"mb": sum(e.stat().st_size for e in os.scandir(folder)) / 1e6}
if spec["windows"]:
    answer["perplexity"] = perplexity()
if spec["new"]:
    answer["text"], answer["speed"] = onnxruntime_chat() if in_onnxruntime else openvino_chat()
print(json.dumps(answer))
