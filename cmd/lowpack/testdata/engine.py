"""Runs an example of docs/examples on four workers of this machine, and prints its answers.

    python engine.py ray|spark EXAMPLE MODEL LINES.jsonl FOLDER    prints custom_id, status and body of every row
"""
import json
import os
import runpy
import sys

import pyarrow as pa
import pyarrow.parquet as pq

engine, example, model, lines, folder = sys.argv[1:]
requests, answers = f"{folder}/requests.parquet", f"{folder}/answers"
rows = []
for line in open(lines, encoding="utf-8"):
    start = line.index('"body":') + len('"body":')
    body, end = json.JSONDecoder().raw_decode(line, start)
    rows.append(json.loads(line) | {"body": line[start:end]})
pq.write_table(pa.Table.from_pylist(rows), requests)
if engine == "ray":
    os.environ["RAY_worker_niceness"] = "0"  # workers have 15, and wait for every other process of a busy machine
    import ray
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
else:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--master local[4,4] pyspark-shell"  # four threads, four tries of a task
sys.argv[1:] = [model, requests, answers, "4"]
printed, sys.stdout = sys.stdout, sys.stderr
runpy.run_path(example, run_name="__main__")
for row in pq.read_table(answers).to_pylist():
    answer = row["response"]
    print(json.dumps([row["custom_id"], answer["status_code"], answer["body"]]), file=printed)
