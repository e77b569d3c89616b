"""Prints what apply_chat_template of transformers makes of generated conversations, as compact JSON.

Arguments: a tokenizer_config.json, and files of chat templates, which stay where they are: of what they render the SHA-256 is
printed. The templates below are written for what conversations go through before a template sees them.
"""
import datetime
import hashlib
import json
import random
import sys
from pathlib import Path

import tokenizers
import transformers
from transformers.utils import chat_template_utils

own = {
    "keys": "{% for m in messages %}{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}\n{% endfor %}",
    "none": "{% if tools is not none %}tools {{ tools | length }}{% endif %}{% if documents is none %}no documents{% endif %}"
            "{% if tools is defined %}defined{% endif %}|{{ tools }}|{{ messages[0].content | default('-') }}",
    "thinking": "{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
                "{% if m.thinking is defined %}[{{ m.thinking }}]{% endif %}{{ m.content }}</{{ m.role }}>{% endfor %}"
                "{% if add_generation_prompt %}<assistant>{% endif %}",
    "trimmed": "{{ bos_token }}{% for m in messages %}<{{ m['role'] | upper }}>{{ m['content'] | trim }}{{ eos_token }}{% endfor %}",
    "blocks": "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
              "{% for b in m.content %}{{ b.text }}{% endfor %}{% endif %}{{ eos_token }}{% endfor %}{{ tools | tojson }}",
}

words = ["Hello.", "straße ß", " padded \n", "", "1 < 2 & 3", "你好", "line\nline", "<think>a</think>\n\nb", "'quoted' \"twice\""]
tools = [{"type": "function", "function": {"name": "get_weather", "description": "Get é", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "where"}}, "required": ["city"]}}}]
documents = [{"title": "T", "text": "some text"}]
call = {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris", "n": 1.5}}}


def generate(rng):
    messages = []
    if rng.random() < 0.3:
        messages.append({"role": "system", "content": rng.choice(words)})
    for _ in range(rng.randint(0, 3)):
        user = {"role": "user", "content": rng.choice(words)}
        if rng.random() < 0.15:
            user["content"] = [{"type": "text", "text": rng.choice(words)}, {"type": "text", "text": rng.choice(words)}]
        if rng.random() < 0.1:
            user["name"] = rng.choice([None, "Ann"])
        messages.append(user)
        answer = {"role": "assistant", "content": rng.choice(words)}
        for key in ("reasoning_content", "thinking", "reasoning"):
            if rng.random() < 0.25:
                answer[key] = rng.choice(words + [None])
        if rng.random() < 0.25:
            answer["tool_calls"] = rng.choice([None, [call], [call, call]])
            answer["content"] = rng.choice([None, "", "calling"])
            if rng.random() < 0.3:
                del answer["content"]
        if rng.random() < 0.85:
            messages.append(answer)
            if answer.get("tool_calls"):
                messages.append({"role": "tool", "name": "get_weather", "content": rng.choice(["12", '{"t": 12}'])})
    if not messages and rng.random() < 0.8:
        messages.append({"role": "user", "content": rng.choice(words)})
    case = {"messages": messages}
    if rng.random() < 0.3:
        case["tools"] = tools
    if rng.random() < 0.2:
        case["documents"] = documents
    if rng.random() < 0.2:
        case["vars"] = {"enable_thinking": rng.random() < 0.5}
    ending = rng.random()
    if ending < 0.5:
        case["add_generation_prompt"] = True
    elif ending < 0.75:
        case["continue"] = rng.choice(["content", "content", "content", "reasoning_content", "thinking"])
    return case


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 20, 12)


chat_template_utils.datetime = Clock
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()), bos_token="<s>", eos_token="</s>")


def render(template, case):
    try:
        return tokenizer.apply_chat_template(
            case["messages"], chat_template=template, tools=case.get("tools"), documents=case.get("documents"), tokenize=False,
            add_generation_prompt=case.get("add_generation_prompt", False), continue_final_message=case.get("continue", False), **case.get("vars", {}))
    except Exception:
        return None


rng = random.Random(20261122)
cases = [generate(rng) for _ in range(120)]
published = {Path(p).name: Path(p).read_text() for p in sys.argv[2:]}
published["tiny-bitnet"] = json.loads(Path(sys.argv[1]).read_text())["chat_template"]
digest = lambda text: None if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]
json.dump({
    "versions": [transformers.__version__, tokenizers.__version__],
    "cases": cases,
    "own": {name: {"template": t, "rendered": [render(t, c) for c in cases]} for name, t in own.items()},
    "published": {name: [digest(render(t, c)) for c in cases] for name, t in published.items()},
}, sys.stdout, ensure_ascii=False, separators=(",", ":"))
