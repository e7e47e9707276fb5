#!/usr/bin/python3
"""Check the report files of a rank with what users have: Python's csv and json, and jsonschema.

    report_check.py FOLDER RANK

Exits 1 and says why when a CSV is not what Python's csv writes, when the JSON
is not what Python's json writes or does not fit its schema, or when the two
disagree about a block.
"""
import csv
import io
import json
import os
import re
import sys

import jsonschema

FRAME = re.compile(r"File:(.+?);Line:(\d+);Function:(.+)")
csv.field_size_limit(1 << 24)


def fail(message):
    sys.exit(f"report_check: {message}")


def read_csv(path):
    data = open(path, "rb").read()
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))
    header = data.split(b"\r\n", 1)[0].decode().split(",")
    again = io.StringIO(newline="")
    writer = csv.DictWriter(again, header)
    writer.writeheader()
    writer.writerows(rows)
    if again.getvalue().encode("utf-8") != data:
        fail(f"{path} is not what Python's csv writes")
    if any("\n" in value or "\r" in value for row in rows for value in row.values()):
        fail(f"{path} has a line break inside a field")
    return rows


def read_json(path):
    data = open(path, "rb").read()
    value = json.loads(data)
    again = json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"
    if again != data:
        at = next((i for i, (a, b) in enumerate(zip(again, data)) if a != b), min(len(again), len(data)))
        print(again[max(0, at - 80):at + 40], data[max(0, at - 80):at + 40], sep="\n")
        fail(f"{path} is not what Python's json writes")
    schema = os.path.join(os.path.dirname(__file__), "../../docs/report.schema.json")
    jsonschema.validate(value, json.load(open(schema, encoding="utf-8")))
    return value


def check_stack(row):
    """Every piece is a frame for a reader, and the last one is the leaf."""
    frames = [FRAME.fullmatch(piece) for piece in row["python_stack"].split("|") if piece]
    if None in frames:
        fail(f"a reader cannot part {row['python_stack']}")
    line = frames[-1][2] if frames else "0"
    if line != row["line_num"]:
        fail(f"line_num {row['line_num']}, leaf {line}")


def check_rows(rows, blocks):
    if len(rows) != len(blocks):
        fail(f"{len(rows)} rows, {len(blocks)} blocks")
    for row, block in zip(rows, blocks):
        check_stack(row)
        for key, value in row.items():
            if key in ("pool_type", "last_user_task"):
                continue
            want = block.get(key, "")
            if key == "user_tasks":
                want = "{" + "-".join(map(str, want)) + "}"
            if value != re.sub("[\r\n]", " ", str(want)).encode("utf-8", "replace").decode():
                fail(f"{key}: {value} in the CSV, {want} in the JSON")


def main():
    folder, rank = sys.argv[1:]
    stem = os.path.join(folder, f"rank_{rank}", f"rank_{rank}_")
    report = read_json(stem + "memory.json")
    if report["status"] == "ok":
        check_rows(read_csv(stem + "memory.csv"), report["memory_blocks"])
        read_csv(stem + "tasks.csv")
    left = [name for name in os.listdir(os.path.dirname(stem)) if name.endswith(".tmp")]
    if left:
        fail(f"temporary files are left: {left}")


main()
