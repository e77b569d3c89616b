"""What the openai package makes of a server: every kind of request and of error that it knows. argv: base URL, key."""
import sys
from openai import OpenAI, AuthenticationError, BadRequestError, NotFoundError
from expect import check, refused
from pydantic import BaseModel

url, key = sys.argv[1] + "/v1", sys.argv[2]
client = OpenAI(base_url=url, api_key=key, max_retries=0)
ask = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hello"}]}]

model = client.models.list().data[0].id
check(client.models.retrieve(model).id == model, "models.retrieve")

same = dict(model=model, messages=ask, max_completion_tokens=12, temperature=1.2, seed=5, logprobs=True, top_logprobs=2)
a, b = (client.chat.completions.create(**same) for _ in range(2))
check(a.choices == b.choices and a.system_fingerprint == b.system_fingerprint, "two answers to one request differ")
check(a.usage.completion_tokens == len(a.choices[0].logprobs.content), "a logprob per token")
check(all(len(t.top_logprobs) == 2 for t in a.choices[0].logprobs.content), "top_logprobs")

text, usage = "", None
for chunk in client.chat.completions.create(**same, stream=True, stream_options={"include_usage": True}):
    usage = chunk.usage or usage
    text += "".join(c.delta.content or "" for c in chunk.choices)
check(text == a.choices[0].message.content, f"stream {text!r}, whole {a.choices[0].message.content!r}")
check(usage and usage.total_tokens == a.usage.total_tokens, "usage of a stream")

c = client.completions.create(model=model, prompt=["The river", "A clock"], max_tokens=5, n=2, seed=1, echo=True, logprobs=1)
check([x.index for x in c.choices] == [0, 1, 2, 3], "choices of two prompts")
check(c.choices[2].text.startswith("A clock") and c.choices[0].logprobs.token_logprobs[0] is None, "echo")


class Person(BaseModel):
    name: str
    tags: list[str]
    age: int | None


for seed in range(40):  # until an answer ends by itself
    p = client.chat.completions.create(model=model, messages=ask, max_tokens=120, temperature=0.5, seed=seed, extra_body={"guided_regex": r'\{"name":"[A-Za-z ]{1,9}","tags":\["[a-z]{1,5}"\],"age":(null|[0-9]{1,2})\}'})
    if p.choices[0].finish_reason == "stop":
        Person.model_validate_json(p.choices[0].message.content)
        break
else:
    sys.exit("no answer ended")


class Colour(BaseModel):
    shade: bool
    level: int | None


try:
    parsed = client.chat.completions.parse(model=model, messages=ask, max_tokens=100, temperature=0, response_format=Colour)
    check(isinstance(parsed.choices[0].message.parsed, Colour), "parse")
except Exception as e:
    if type(e).__name__ != "LengthFinishReasonError":
        raise

same = dict(model=model, instructions="Be brief.", input="Hello", max_output_tokens=12, temperature=1.2, extra_body={"seed": 5})
r = client.responses.create(**same)
check(r.output_text == a.choices[0].message.content, f"response {r.output_text!r}, chat {a.choices[0].message.content!r}")
check(r.usage.output_tokens == 12 and r.status == "incomplete" and r.incomplete_details.reason == "max_output_tokens", "state of a response")
text, kinds = "", []
with client.responses.stream(**same) as stream:  # adds up the events, and checks that they belong together
    for event in stream:
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
check(text == r.output_text and kinds[0] == "response.created" and kinds[-1] == "response.incomplete", f"events {kinds}")
shaped = client.responses.create(model=model, input="Hello", temperature=0, text={"format": {"type": "json_schema", "name": "side", "strict": True, "schema": {"enum": ["left", "right"]}}})
check(shaped.output_text in ('"left"', '"right"') and shaped.status == "completed", f"text.format: {shaped.output_text!r}")
refused(BadRequestError, lambda: client.responses.create(model=model, input="a", previous_response_id="resp_1"), "previous_response_id")

refused(BadRequestError, lambda: client.chat.completions.create(model=model, messages=ask, temperature=3), "temperature")
refused(BadRequestError, lambda: client.chat.completions.create(model=model, messages=ask, tools=[{"type": "function", "function": {"name": "f"}}]), "tools")
refused(NotFoundError, lambda: client.chat.completions.create(model="other", messages=ask))
refused(BadRequestError, lambda: client.embeddings.create(model=model, input="a"))
refused(AuthenticationError, lambda: OpenAI(base_url=url, api_key="wrong", max_retries=0).models.list())
print("done")
