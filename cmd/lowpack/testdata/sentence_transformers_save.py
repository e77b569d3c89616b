"""Checkpoints of sentence-transformers from a miniature, and what it makes of texts in float32. argv: the miniature's
directory, a directory for the checkpoints, texts. Prints {name: {"vectors": [...], "exact": [...]}}; exact is float64."""
import json
import os
import shutil
import sys

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

source, out, texts = sys.argv[1], sys.argv[2], sys.argv[3:]
copy = os.path.join(out, "source")
shutil.copytree(source, copy)


def change(name, f):
    path = os.path.join(copy, name)
    with open(path) as file:
        value = json.load(file)
    f(value)
    with open(path, "w") as file:
        json.dump(value, file)


def end(tokenizer):
    """A text ends with a special token, as in Qwen3-Embedding."""
    last = tokenizer["added_tokens"][-1]
    name, number = last["content"], last["id"]
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": name, "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }


change("tokenizer.json", end)
change("tokenizer_config.json", lambda c: c.update(pad_token=c["eos_token"], chat_template=None))
answers = {}
for name, mode, normal, longest in (("last", "lasttoken", True, None), ("mean", "mean", True, None), ("long", "mean", False, 300)):
    def load(dtype):
        transformer = Transformer(copy, max_seq_length=longest, model_kwargs={"dtype": dtype})
        modules = [transformer, Pooling(transformer.get_embedding_dimension(), pooling_mode=mode)]
        return SentenceTransformer(modules=modules + [Normalize()] * normal, device="cpu")

    model = load(torch.float32)
    model.save(os.path.join(out, name))
    again = SentenceTransformer(os.path.join(out, name), device="cpu", model_kwargs={"dtype": torch.float32})
    answers[name] = {
        "vectors": [again.encode([text])[0].tolist() for text in texts],
        "exact": [load(torch.float64).encode([text])[0].tolist() for text in texts],
    }
print(json.dumps(answers))
