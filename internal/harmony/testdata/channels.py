"""Prints what openai-harmony reads in outputs of gpt-oss, with their tokens, as JSON.

Argument: a directory with o200k_base.tiktoken.
"""
import base64
import json
import os
import sys
from pathlib import Path

os.environ["TIKTOKEN_ENCODINGS_BASE"] = sys.argv[1]

from openai_harmony import (
    Conversation, HarmonyEncodingName, Message, RenderConversationConfig, Role, StreamableParser,
    load_harmony_encoding)

encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)


def said(channel, text, recipient=None, kind=None):
    m = Message.from_role_and_content(Role.ASSISTANT, text).with_channel(channel)
    if recipient:
        m = m.with_recipient(recipient)
    return m.with_content_type(kind) if kind else m


def rendered(*messages):
    """The tokens of messages as the package writes them, without the opening that stands in the prompt."""
    opening = encoding.encode("<|start|>assistant", allowed_special="all")
    tokens = encoding.render_conversation_for_training(Conversation.from_messages(list(messages)),
                                                     RenderConversationConfig(auto_drop_analysis=False))
    assert tokens[:len(opening)] == opening
    return tokens[len(opening):]


def written(text):
    """The tokens of a text in which control tokens are spelled out."""
    return encoding.encode(text, allowed_special="all")


WEATHER = '{"city": "Zürich", "days": [1, 2], "note": "a \\"quoted\\" brace }"}'
OUTPUTS = [
    rendered(said("analysis", "The user says hello. 👋"), said("final", "Hello, こんにちは!")),
    rendered(said("final", "Yes.\n\nOr no.")),
    rendered(said("analysis", "a"), said("analysis", "b\n"), said("commentary", "I look it up."), said("final", "12 °C")),
    rendered(said("analysis", "Call it."), said("commentary", WEATHER, "functions.get_weather", "<|constrain|>json")),
    rendered(said("commentary", "{}", "functions.now", "json")),
    rendered(said("analysis", "Search."), said("analysis", '{"query": "x"}', "browser.search", "code")),
    written("<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + WEATHER + "<|call|>"),
    written("<|channel|>commentary to=functions.get_weather<|constrain|>json<|message|>" + WEATHER + "<|call|>"),
    written(" to=functions.get_weather<|channel|>commentary json<|message|>" + WEATHER + "<|call|>"),
    written("<|channel|>analysis to=functions.now <|constrain|>json<|message|>{}<|call|>"),
    written("<|channel|>analysis<|message|>The user wants <|end|>"
            "<|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>"),
    # Text that is spelled like control tokens.
    encoding.encode("<|channel|>", allowed_special="all") + encoding.encode("final")
    + encoding.encode("<|message|>", allowed_special="all")
    + encoding.encode("A message ends with <|end|>, then <|start|>assistant<|channel|>analysis<|message|> comes.", disallowed_special=())
    + encoding.encode("<|return|>", allowed_special="all"),
    # Cut off.
    written("<|channel|>analysis<|message|>We are in the midd"),
    written("<|channel|>analysis<|message|>Yes.<|end|><|start|>assistant<|channel|>final<|message|>It"),
    written("<|channel|>analysis<|message|>Yes.<|end|><|start|>assistant<|channel|>fin"),
    written('<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Zü'),
]


def read(tokens):
    """Thoughts, the answer and calls, as vLLM tells them apart."""
    parser = StreamableParser(encoding, role=Role.ASSISTANT)
    for token in tokens:
        parser.process(token)
    parts = [(m.channel, m.recipient, "".join(c.text for c in m.content)) for m in parser.messages]
    if parser.current_content:
        parts.append((parser.current_channel, parser.current_recipient, parser.current_content))
    calls = [[r.removeprefix("functions."), text] for _, r, text in parts if (r or "").startswith("functions.")]
    others = [p for p in parts if not (p[1] or "").startswith("functions.")]
    thought = "\n".join(text for channel, _, text in others if channel == "analysis")
    answer = "\n".join(text for channel, _, text in others if channel != "analysis")
    return {"thought": thought, "answer": answer, "calls": calls}


outputs = [dict(tokens=tokens, text=encoding.decode(tokens), **read(tokens)) for tokens in OUTPUTS]
vocabulary = {int(t): b for b, t in map(str.split, (Path(sys.argv[1]) / "o200k_base.tiktoken").read_text().splitlines())}
used = sorted({t for o in outputs for t in o["tokens"]})
json.dump({
    "control": {name: encoding.encode(name, allowed_special="all")[0] for name in (
        "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>")},
    "bytes": {t: vocabulary.get(t) or base64.b64encode(encoding.decode([t]).encode()).decode() for t in used},
    "outputs": outputs,
}, sys.stdout, ensure_ascii=False, indent=1)
sys.stdout.write("\n")
