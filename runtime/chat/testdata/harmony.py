"""Prints what `tokenizers` makes of texts, and apply_chat_template of transformers of conversations, as compact JSON.

Arguments: a directory with tokenizer.json and tokenizer_config.json, a chat template, and a file with texts and conversations.
"""
import datetime
import json
import sys
from pathlib import Path

import transformers
from transformers.utils import chat_template_utils


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 20, 12)


chat_template_utils.datetime = Clock
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
template = Path(sys.argv[2]).read_text()
asked = json.loads(Path(sys.argv[3]).read_text())


def render(case):
    try:
        return tokenizer.apply_chat_template(
            case["messages"], chat_template=template, tools=case.get("tools"), tokenize=False,
            add_generation_prompt=case.get("add_generation_prompt", False), **case.get("vars", {}))
    except Exception:
        return None


rendered = [render(c) for c in asked["cases"]]
encoded = [tokenizer(t, add_special_tokens=False)["input_ids"] for t in asked["texts"] + [r for r in rendered if r]]
json.dump({
    "rendered": rendered,
    "encoded": encoded,
    "decoded": [tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) for ids in encoded],
}, sys.stdout)
