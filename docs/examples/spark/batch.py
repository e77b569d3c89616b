"""Answers requests with Spark: spark-submit batch.py MODEL REQUESTS ANSWERS TASKS, Parquet on storage that all nodes see."""

import os
import sys
import tempfile

import lowpack
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

RESULT = """id string, custom_id string, response struct<status_code: int, request_id: string, body: string,
            x_lowpack_ignored: array<string>>"""


def answer(batches):
    requests = list(batches)
    if not requests:  # an empty partition
        return
    with tempfile.TemporaryDirectory() as folder:
        asked, answers, errors = (os.path.join(folder, f"{name}.parquet") for name in ("asked", "answers", "errors"))
        pq.write_table(pa.Table.from_batches(requests), asked)
        lowpack.batch(model, asked, answers, errors=errors, arguments=["--any-model"])
        for path in answers, errors:
            yield from pq.read_table(path).to_batches()


if __name__ == "__main__":
    model, requests, target, tasks = sys.argv[1:]
    session = SparkSession.builder.getOrCreate()
    parts = session.read.parquet(requests).repartition(int(tasks))
    parts.mapInArrow(answer, RESULT).write.parquet(target)
