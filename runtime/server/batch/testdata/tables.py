"""Requests and results of a batch as Parquet files.

    python tables.py write LINES.jsonl TABLE.parquet    writes requests with pyarrow's defaults; body is the line's text
    python tables.py read TABLE.parquet                 prints results as lines of the output
"""
import json
import re
import sys

import pyarrow as pa
import pyarrow.parquet as pq

if sys.argv[1] == "write":
    rows = []
    for line in open(sys.argv[2], encoding="utf-8"):
        rows.append(json.loads(line) | {"body": re.search(r'"body": (.*)}$', line).group(1)})
    pq.write_table(pa.Table.from_pylist(rows), sys.argv[3])
else:
    for row in pq.read_table(sys.argv[2]).to_pylist():
        answer = row["response"]
        line = {"id": row["id"], "custom_id": row["custom_id"],
                "response": {"status_code": answer["status_code"], "request_id": answer["request_id"], "body": 0}}
        if answer["x_lowpack_ignored"]:
            line["response"]["x_lowpack_ignored"] = answer["x_lowpack_ignored"]
        line["error"] = None
        print(json.dumps(line, separators=(",", ":")).replace('"body":0', '"body":' + answer["body"]))
