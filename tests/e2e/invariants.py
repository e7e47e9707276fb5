"""What holds for every report, whatever was traced (docs/report-format.md).

Each function takes a harness.Report and fails with the first row that is wrong.
"""
import collections
import os
import re
from decimal import Decimal

from harness import SCHEMA, check, check_equal, skip
from reference import MEMORY_FIELDS

TASK_FIELDS = ("task_index", "time_ns", "thread_id", "step", "task_name", "node_name", "graph_name", "file_name",
               "line_num", "live_bytes", "launches", "forward_task", "forward_file_name",
               "forward_line_num")
PERSISTENT_END = 2**63 - 1
SMALL_BYTES = 2**20
PHASES = ("initialization", "forward", "recompute", "backward", "optimizer")
TYPES = ("Parameter", "Buffer", "Gradient", "Activation", "Temp", "Optstate", "Other", "Workspace")
PLOT = re.compile(r"^\d+\.\d{12}$")
FRAME = re.compile(r"^File:.*;Line:\d+;Function:.+$")
# Blocks that are no rows (data of torch.tensor, wrapped numbers) may count in totals.
TOTAL_TOLERANCE_BYTES = 64 << 10
TOTAL_TOLERANCE = 0.01


def check_report(report):
    check_dialect(report)
    rows, tasks = report.rows, report.tasks
    check_tasks(tasks)
    for place, row in enumerate(rows):
        try:
            check_row(row, tasks)
        except Exception as problem:
            problem.args = (f"row {place} ({row['node_name']}, {row['size']} B): {problem}",)
            raise
    check_order(rows)
    check_totals(rows, tasks)
    check_json(report, rows)
    check_steps(report)


def check_steps(report):
    """The steps hold all tasks, and the highest peak is that of the report."""
    steps = report.steps
    completed = max((int(task["step"]) for task in report.tasks), default=0)
    check(not steps or completed <= len(steps) <= completed + 2, f"{len(steps)} rows of steps, tasks know {completed} complete ones")
    check(all(step["complete"] == "1" for step in steps[:-1]), "a step before the last one is not complete")
    check(len(steps) < completed + 2 or steps[completed]["complete"] == "1", "two steps after the last one with a task are open")
    tasks = collections.Counter(int(task["step"]) for task in report.tasks if task["task_name"] != "initialization")
    for place, step in enumerate(steps):
        check_equal(int(step["step"]), place, "step")
        check(int(step["operators"]) >= tasks[place], f"step {place} has {step['operators']} operators, but {tasks[place]} tasks")
        check(int(step["end_bytes"]) <= int(step["peak_bytes"]), "more bytes at the end than at the peak:", step)
        phases = sum(int(step[f"{phase}_ns"]) for phase in ("forward", "recompute", "backward", "optimizer"))
        check(phases <= int(step["duration_ns"]) + 1, "phases are longer than the step:", step)
    if steps and len(report.json["devices"]) == 1:
        check_equal(max(int(step["peak_bytes"]) for step in steps), report.json["summary"]["peak_bytes"], "highest peak of a step")


def check_dialect(report):
    """As Python's csv module writes: CR LF after every line, no field with a line break, the exact header."""
    for kind, fields in (("memory", MEMORY_FIELDS), ("tasks", TASK_FIELDS)):
        with open(report.path(kind + ".csv"), "rb") as source:
            data = source.read()
        lines = data.split(b"\r\n")
        check_equal(lines[0].decode(), ",".join(fields), f"header of {kind}.csv")
        check_equal(lines[-1], b"", f"bytes after the last line end of {kind}.csv")
        check(not any(b"\n" in line or b"\r" in line for line in lines), f"{kind}.csv has a line break inside a line")
        data.decode("utf-8")


def check_tasks(tasks):
    for place, task in enumerate(tasks):
        check_equal(int(task["task_index"]), place, "task_index")
        check(task["task_name"] in PHASES, f"task {place}: phase {task['task_name']!r}")
        check(task["node_name"], f"task {place} has no node_name")
    steps = [int(task["step"]) for task in tasks]
    check(steps == sorted(steps) or len({task["thread_id"] for task in tasks}) > 1, "steps go back")


def row_users(row):
    text = row["user_tasks"]
    check(text.startswith("{") and text.endswith("}"), f"user_tasks {text!r}")
    return [int(user) for user in text[1:-1].split("-")] if text != "{}" else []


def check_row(row, tasks):
    start, end, size = (int(row[name]) for name in ("start_time_stamp", "end_time_stamp", "size"))
    persistent = end == PERSISTENT_END
    check(0 <= start < end, f"lifetime [{start}, {end})")
    check(persistent or end <= len(tasks), f"end {end} after the last of {len(tasks)} tasks")
    check_equal(row["is_persistent"], str(int(persistent)), "is_persistent")
    check(size > 0, "no bytes")
    check_equal(row["is_small"], str(int(size < SMALL_BYTES)), "is_small")
    check_equal(int(row["producer_task"]), start, "producer_task")
    check(row["task_name"] in PHASES and row["type"] in TYPES, f"phase {row['task_name']!r}, type {row['type']!r}")
    check(re.match(r"^0x[0-9a-f]+$", row["device_addr"]), f"device_addr {row['device_addr']!r}")
    check_plot(row, start, end, persistent)
    check_users(row, start, end)
    check_stack(row)
    if row["task_name"] != "initialization":
        check_equal((row["node_name"], row["task_name"]),
                    (tasks[start]["node_name"], tasks[start]["task_name"]), "operator and phase of its task")
    if row["type"] == "Workspace":
        check_equal(row_users(row), [], "users of a workspace")


def check_plot(row, start, end, persistent):
    check(PLOT.match(row["start_plot_time_stamp"]) or row["type"] == "Workspace",
          f"start_plot_time_stamp {row['start_plot_time_stamp']!r}")
    if row["start_plot_time_stamp"]:
        check(start < Decimal(row["start_plot_time_stamp"]) < start + 1, "start_plot_time_stamp outside its task")
    if persistent:
        check_equal(row["end_plot_time_stamp"], "", "end_plot_time_stamp of a persistent block")
    else:
        last = end - 1 if row["type"] == "Workspace" else end
        check(PLOT.match(row["end_plot_time_stamp"]), f"end_plot_time_stamp {row['end_plot_time_stamp']!r}")
        check(last < Decimal(row["end_plot_time_stamp"]) < last + 1, "end_plot_time_stamp outside its task")


def check_users(row, start, end):
    users = row_users(row)
    check(users == sorted(set(users)), f"users {users} do not ascend")
    check(all(start <= user <= end for user in users), f"users {users} outside [{start}, {end}]")
    check_equal(row["last_user_task"], str(users[-1]) if users else "", "last_user_task")


def check_stack(row):
    pieces = row["python_stack"].split("|") if row["python_stack"] else []
    check(all(FRAME.match(piece) for piece in pieces), f"python_stack {row['python_stack']!r}")
    if pieces:
        leaf = f"File:{row['file_name']};Line:{row['line_num']};Function:"
        check(pieces[-1].startswith(leaf), f"leaf {pieces[-1]!r} is not {row['file_name']}:{row['line_num']}")
    else:
        check_equal((row["file_name"], row["line_num"]), ("", "0"), "leaf of an empty stack")


def check_order(rows):
    starts = [int(row["start_time_stamp"]) for row in rows]
    check(starts == sorted(starts), "rows are not in order of start_time_stamp")
    peak = 0
    for place, row in enumerate(rows):
        used, row_peak = int(row["actual_used_memory"]), int(row["actual_peak_memory"])
        check(row_peak >= peak, f"row {place}: actual_peak_memory falls from {peak} to {row_peak}")
        check(used <= row_peak, f"row {place}: used {used} over peak {row_peak}")
        peak = row_peak
    # A workspace takes no event number: those of one task share their coordinates.
    counted = [row for row in rows if row["type"] != "Workspace"]
    places = [row["start_plot_time_stamp"] for row in counted]
    places += [row["end_plot_time_stamp"] for row in counted if row["end_plot_time_stamp"]]
    check(len(places) == len(set(places)), "two events have the same plot coordinate")


def check_totals(rows, tasks):
    """live_bytes of a task is the sum of the rows that are alive at its end."""
    changes = [0] * (len(tasks) + 1)
    for row in rows:
        if row["type"] != "Workspace" or int(row["end_time_stamp"]) > int(row["start_time_stamp"]) + 1:
            changes[int(row["start_time_stamp"])] += int(row["size"])
            changes[min(int(row["end_time_stamp"]), len(tasks))] -= int(row["size"])
    live = 0
    most = max((int(task["live_bytes"]) for task in tasks), default=0)
    tolerance = TOTAL_TOLERANCE_BYTES + TOTAL_TOLERANCE * most
    for place, task in enumerate(tasks):
        live += changes[place]
        check(abs(int(task["live_bytes"]) - live) <= tolerance,
              f"task {place}: live_bytes {task['live_bytes']}, rows alive add up to {live}")


def check_json(report, rows):
    data = report.json
    check_equal(data["schema_version"], 3, "schema_version")
    check_equal(data["status"], "ok", "status")
    check_equal(len(data["memory_blocks"]), len(rows), "memory_blocks in the JSON, against rows in the CSV")
    for block, row in zip(data["memory_blocks"], rows):
        check_equal([block["size"], block["node_name"], block["user_tasks"]],
                    [int(row["size"]), row["node_name"], row_users(row)], "a block in the JSON")
    check("complete" in data["live"] and isinstance(data["limitations"], list), "live.complete or limitations missing")
    produced, received, lost = report.event_counts()
    check_equal(received + lost, produced, "events received + lost, against produced")


def check_schema(report):
    """The JSON is valid by the schema that the project ships."""
    try:
        import jsonschema
    except ImportError:
        skip("python3-jsonschema is not installed")
    import json
    check(os.path.exists(SCHEMA), f"there is no {SCHEMA}")
    with open(SCHEMA, encoding="utf-8") as source:
        schema = json.load(source)
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    problem = next(iter(validator(schema).iter_errors(report.json)), None)
    check(problem is None, problem and f"{'/'.join(map(str, problem.absolute_path))}: {problem.message[:300]}")
