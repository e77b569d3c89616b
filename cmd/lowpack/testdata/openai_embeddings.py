"""The embeddings that the openai package reads of a server, as base64 and as numbers. argv: base URL, key, texts."""
import json
import sys
from array import array

from expect import check, refused
from openai import BadRequestError, OpenAI

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key=sys.argv[2], max_retries=0)
texts = sys.argv[3:]
model = client.models.list().data[0].id
usual = client.embeddings.create(model=model, input=texts)  # the package asks for base64
plain = client.embeddings.create(model=model, input=texts, encoding_format="float")
floats = [list(array("f", d.embedding)) for d in plain.data]  # the shortest decimals that are these float32
check([d.embedding for d in usual.data] == floats, "base64 and float differ")
check([d.index for d in usual.data] == list(range(len(texts))), "indices")
check(usual.usage.prompt_tokens == usual.usage.total_tokens > len(texts), "usage")
cut = client.embeddings.create(model=model, input=texts[0], dimensions=8).data[0].embedding
check(len(cut) == 8, "dimensions")
refused(BadRequestError, lambda: client.embeddings.create(model=model, input=texts, dimensions=1 << 20))
print(json.dumps([d.embedding for d in usual.data]))
