"""Writes the rows of a JSON file as Parquet: text or messages, with other columns beside them.

    python parquet_writer.py ROWS.json DIR    writes a file for each codec, version of pages and use of dictionaries
"""
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq

with open(sys.argv[1], encoding="utf-8") as f:
    rows = json.load(f)
message = pa.struct([("role", pa.string()), ("content", pa.string())])
types = {"text": pa.string(), "messages": pa.list_(message), "id": pa.int64()}
table = pa.Table.from_pylist(rows, schema=pa.schema([(name, types[name]) for name in rows[0]]))
count = 0
for codec in "none", "snappy", "gzip", "zstd":
    for version in "1.0", "2.0":
        for dictionary in True, False:
            pq.write_table(table, f"{sys.argv[2]}/{count:02d}.parquet", compression=codec, data_page_version=version,
                           use_dictionary=dictionary, row_group_size=7, data_page_size=200)
            count += 1
large = {"text": pa.large_string(), "messages": pa.large_list(message)}
for i, field in enumerate(table.schema):
    if field.name in large:
        table = table.set_column(i, field.name, table[field.name].cast(large[field.name]))
pq.write_table(table, f"{sys.argv[2]}/{count:02d}.parquet", use_compliant_nested_type=False)
print(count + 1)
