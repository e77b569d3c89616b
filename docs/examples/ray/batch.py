"""Answers requests with Ray Data: python batch.py MODEL REQUESTS ANSWERS TASKS, Parquet on storage that all nodes see."""

import os
import sys
import tempfile

import lowpack
import pyarrow as pa
import pyarrow.parquet as pq
import ray

CPUS = 2  # of a task


def answer(requests: pa.Table, model: str) -> pa.Table:
    with tempfile.TemporaryDirectory() as folder:
        asked, answers, errors = (os.path.join(folder, f"{name}.parquet") for name in ("asked", "answers", "errors"))
        pq.write_table(requests, asked)
        lowpack.batch(model, asked, answers, errors=errors, threads=CPUS, arguments=["--any-model"])
        return pa.concat_tables([pq.read_table(answers), pq.read_table(errors)])


if __name__ == "__main__":
    model, requests, target, tasks = sys.argv[1:]
    whole = {"batch_format": "pyarrow", "batch_size": None}  # a block is answered at once
    parts = ray.data.read_parquet(requests).repartition(int(tasks))
    parts.map_batches(answer, num_cpus=CPUS, fn_kwargs={"model": model}, **whole).write_parquet(target)
