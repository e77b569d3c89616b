"""Cross-encoders over a causal model, saved by sentence-transformers from a miniature, and the scores that they give in
float32. argv: the miniature's directory, a directory for the checkpoints, a query, documents. Prints
{name: {"scores": [...], "exact": [...]}}; exact is float64."""
import json
import os
import shutil
import sys

import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.cross_encoder.modules import LogitScore

source, out, query, documents = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
FLAT = ("{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
STRUCTURED = FLAT.replace("m.content", "m.content[0].text")
PROMPT = "Judge whether the document answers the query."


def load(folder, dtype, **more):
    return CrossEncoder(folder, device="cpu", model_kwargs={"dtype": dtype}, **more)


answers = {}
for name, template, kwargs, tokens, activation, prompt in (
    ("flat", FLAT, {"chat_template": {"add_generation_prompt": True}}, (9, 4), None, PROMPT),
    ("structured", STRUCTURED, {}, (9, None), torch.nn.Identity(), None),
):
    copy = os.path.join(out, "source-" + name)
    shutil.copytree(source, copy)
    path = os.path.join(copy, "tokenizer_config.json")
    with open(path) as file:
        config = json.load(file)
    config.update(pad_token=config["eos_token"], chat_template=template)
    with open(path, "w") as file:
        json.dump(config, file)
    transformer = Transformer(copy, transformer_task="text-generation", processing_kwargs=kwargs,
                              model_kwargs={"dtype": torch.float32})
    named = {"prompts": {"web": prompt}, "default_prompt_name": "web"} if prompt else {}
    model = CrossEncoder(modules=[transformer, LogitScore(*tokens)], device="cpu", activation_fn=activation, **named)
    folder = os.path.join(out, name)
    model.save(folder)
    pairs = [(query, document) for document in documents]
    answers[name] = {
        "scores": load(folder, torch.float32).predict(pairs).tolist(),
        "exact": [float(score) for score in load(folder, torch.float64).predict(pairs, convert_to_tensor=True)],
        "order": [one["corpus_id"] for one in load(folder, torch.float64).rank(query, documents)],
    }
print(json.dumps(answers))
