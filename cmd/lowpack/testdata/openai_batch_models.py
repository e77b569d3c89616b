"""The openai package runs a batch whose requests name the models of a folder. argv: base URL, requests, which name two
models by turns. Prints created_at of the batch, and then its results."""
import json, sys, time
from openai import OpenAI
from expect import check

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
check(len(client.models.list().data) == 2, "models")
with open(sys.argv[2], "rb") as f:
    text = f.read()
absent = json.dumps({"custom_id": "absent", "method": "POST", "url": "/v1/completions", "body": {"model": "none", "prompt": "a"}})
file = client.files.create(file=("in.jsonl", text + absent.encode()), purpose="batch")
batch = client.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h")
while batch.status not in ("failed", "completed", "cancelled", "expired"):
    time.sleep(0.05)
    batch = client.batches.retrieve(batch.id)
check(batch.status == "completed" and batch.request_counts.failed == 1, batch)
failure = json.loads(client.files.content(batch.error_file_id).text)
check(failure["custom_id"] == "absent" and failure["response"]["status_code"] == 404, failure)
check(failure["response"]["body"]["error"]["code"] == "model_not_found", failure)
print(batch.created_at)
print(client.files.content(batch.output_file_id).text, end="")
