"""The openai package uploads requests, runs batches and reads their results. argv: base URL, key, another key, input
with good requests, the results of `lowpack batch` for it, folder for files."""
import json, sys, time
from openai import OpenAI, BadRequestError, ConflictError, NotFoundError
from expect import check, refused

url, key, other, good, want, folder = sys.argv[1] + "/v1", *sys.argv[2:]
client = OpenAI(base_url=url, api_key=key, max_retries=0)
stranger = OpenAI(base_url=url, api_key=other, max_retries=0)


def upload(lines):
    path = folder + "/upload.jsonl"
    with open(path, "w") as f:
        f.write("".join(json.dumps(x) + "\n" for x in lines))
    with open(path, "rb") as f:
        return client.files.create(file=f, purpose="batch")


def create(file, endpoint="/v1/completions", **more):
    return client.batches.create(input_file_id=file, endpoint=endpoint, completion_window="24h", **more)


def ended(batch):
    while batch.status not in ("failed", "completed", "cancelled", "expired"):
        time.sleep(0.05)
        batch = client.batches.retrieve(batch.id)
    return batch


def request(i, **body):
    return {"custom_id": f"r{i}", "method": "POST", "url": "/v1/completions", "body": {"prompt": "The river", "max_tokens": 4, **body}}


with open(good, "rb") as f:
    text = f.read()
with open(good, "rb") as f:
    file = client.files.create(file=f, purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600})
check(file.bytes == len(text) and file.purpose == "batch" and file.object == "file", file)
check(client.files.retrieve(file.id) == file and client.files.content(file.id).read() == text, "content")

batch = create(file.id, metadata={"a": "b"})
check(batch.object == "batch" and batch.metadata == {"a": "b"} and batch.input_file_id == file.id, batch)
batch = ended(batch)
check(batch.status == "completed" and batch.completed_at and batch.in_progress_at and batch.errors is None, batch)
check(batch.request_counts.total == batch.request_counts.completed == len(text.splitlines()), batch)
check(batch.error_file_id is None, batch)
lines = [json.loads(x) for x in client.files.content(batch.output_file_id).text.splitlines()]
for line, expected in zip(lines, open(want).read().splitlines(), strict=True):
    expected = json.loads(expected)
    check(line["response"]["body"].pop("created") == batch.created_at, "created")
    del expected["response"]["body"]["created"]
    check(line == expected, f"{line}\n{expected}")
check(client.files.retrieve(batch.output_file_id).purpose == "batch_output", "purpose of results")

mixed = ended(create(upload([request(0), request(1, max_tokens=10**6), request(2, model="absent")]).id))
check((mixed.request_counts.completed, mixed.request_counts.failed) == (1, 2), mixed)
failures = [json.loads(x) for x in client.files.content(mixed.error_file_id).text.splitlines()]
check([x["response"]["status_code"] for x in failures] == [400, 404] and all(x["error"] is None for x in failures), failures)

bad = ended(create(upload([request(0), request(0), {"custom_id": "x"}, {**request(3), "url": "/v1/responses"}]).id))
check(bad.status == "failed" and bad.output_file_id is None, bad)
check([(e.line, e.code) for e in bad.errors.data] == [(2, "duplicate_custom_id"), (3, "missing_required_parameter"), (4, "invalid_url")], bad.errors)

long = create(upload([request(i, max_tokens=200, extra=i, ignore_eos=True) for i in range(300)]).id)
refused(ConflictError, lambda: client.files.delete(long.input_file_id))
waiting = create(upload([request(0)]).id)
check(client.batches.cancel(long.id).status == "cancelling", "cancelling")
check(client.batches.cancel(waiting.id).status in ("cancelling", "completed"), "cancelling a batch that waits") if client.batches.retrieve(waiting.id).status == "validating" else None
long = ended(long)
check(long.status == "cancelled" and long.cancelled_at and long.request_counts.completed < 300, long)
if long.output_file_id:
    check(len(client.files.content(long.output_file_id).text.splitlines()) == long.request_counts.completed, long)
refused(ConflictError, lambda: client.batches.cancel(mixed.id))

check([b.id for b in client.batches.list(limit=2)][-1:] and len(list(client.batches.list(limit=2))) == 5, "pages of batches")
check(file.id in [f.id for f in client.files.list(purpose="batch", limit=3)], "pages of files")
check(client.files.delete(mixed.input_file_id).deleted, "delete")
refused(NotFoundError, lambda: client.files.retrieve(mixed.input_file_id))
refused(NotFoundError, lambda: create(mixed.input_file_id), "input_file_id")
refused(NotFoundError, lambda: stranger.files.retrieve(file.id))
refused(NotFoundError, lambda: stranger.files.content(batch.output_file_id))
refused(NotFoundError, lambda: stranger.batches.retrieve(batch.id))
refused(NotFoundError, lambda: stranger.batches.cancel(batch.id))
refused(NotFoundError, lambda: stranger.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h"))
check(not list(stranger.files.list()) and not list(stranger.batches.list()), "files of another client")
refused(BadRequestError, lambda: create(file.id, endpoint="/v1/moderations"), "endpoint")
refused(BadRequestError, lambda: client.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="1h"), "completion_window")
refused(BadRequestError, lambda: create(file.id, extra_body={"priority": 1}), "priority")
refused(BadRequestError, lambda: client.files.create(file=("a", b"x"), purpose="vision"), "purpose")
refused(NotFoundError, lambda: client.files.retrieve("file-../../x"))
print("done")
