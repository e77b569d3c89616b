"""What langchain-openai and llm make of a server. argv: base URL, key, scratch directory."""
import os
import pathlib
import subprocess
import sys

from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

url, key, scratch = sys.argv[1] + "/v1", sys.argv[2], pathlib.Path(sys.argv[3])
model = "tiny-bitnet"


def check(ok, what):
    if not ok:
        sys.exit(f"{what}")


chat = ChatOpenAI(base_url=url, api_key=key, model=model, max_tokens=12, temperature=1.1, seed=7, max_retries=0)
a, b = chat.invoke("Hello"), chat.invoke([("human", "Hello")])
check(a.content and a.content == b.content, f"two answers to one request differ: {a.content!r}, {b.content!r}")
check(a.usage_metadata["output_tokens"] == 12 and a.response_metadata["finish_reason"] == "length", f"{a.usage_metadata}")
pieces = list(chat.stream("Hello", stream_usage=True))
check("".join(p.content for p in pieces) == a.content, "stream")
check(sum(p.usage_metadata["total_tokens"] for p in pieces if p.usage_metadata) == a.usage_metadata["total_tokens"], "usage of a stream")
check([x.content for x in chat.batch(["Hello"] * 3)] == [a.content] * 3, "batch")
logged = chat.bind(logprobs=True, top_logprobs=2).invoke("Hello")
check(len(logged.response_metadata["logprobs"]["content"]) == 12, "logprobs")


class Side(BaseModel):
    left: bool


side = ChatOpenAI(base_url=url, api_key=key, model=model, temperature=0, max_tokens=60, max_retries=0)
for method in ("json_schema", "json_mode"):
    if method == "json_schema":
        check(isinstance(side.with_structured_output(Side, method=method).invoke("Which side?"), Side), method)
    else:
        shaped = side.bind(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["a", "b"]}}}).invoke("Which?")
        check(shaped.content in ('"a"', '"b"'), method)
text = OpenAI(base_url=url, api_key=key, model=model, max_tokens=5, temperature=0, max_retries=0)
check(text.invoke("The river") == text.invoke("The river"), "completions")

(scratch / "extra-openai-models.yaml").write_text(f"- {{model_id: here, model_name: {model}, api_base: {url}, api_key_name: lowpack}}\n")
llm = [os.path.join(os.path.dirname(sys.executable), "llm")]
env = {**os.environ, "LLM_USER_PATH": str(scratch)}
options = ["-m", "here", "Hello", "--key", key, "-o", "max_tokens", "12", "-o", "temperature", "1.1", "-o", "seed", "7"]
for more in ([], ["--no-stream"]):
    said = subprocess.run(llm + options + more, env=env, capture_output=True, text=True)
    check(said.returncode == 0 and said.stdout.rstrip("\n") == a.content.rstrip("\n"), f"llm {more}: {said.stdout!r} {said.stderr}, want {a.content!r}")
logs = subprocess.run(llm + ["logs", "-u", "-n", "1"], env=env, capture_output=True, text=True).stdout
check("12 output" in logs, f"llm logs: {logs}")
print("done")
