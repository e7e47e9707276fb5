"""Attached in the middle of a job: modules and types from then on are the reference's, which saw all of it."""
import collections
import os
import re

import compare
from harness import COMPLETE, JOBS, PYTHON, check, check_equal, find_capture, program_path, say, test, wait_until

ATTACH_SECONDS = 60
# What is compared is all of a report behind the attach; where it begins is not a task's begin, and objects are read meanwhile.
MODULES, TYPES = 99, 98
SHARES = (0, 0.55)


def job_path(job):
    path = os.path.join(JOBS, job + ".py")
    return path if os.path.exists(path) else program_path(job)


def paused(context, job, share):
    """hdtrace attached to a job that stands still, at a share of its calls, while it attaches."""
    count, go = 0, context.path("go")
    if share:
        process = context.run(*context.command(PYTHON, program_path("paused"), "-1", go, job_path(job)))
        count = int(int(re.search(r"^events (\d+)$", process.check_code(0).out, re.M)[1]) * share)
    process = context.program("paused", str(count), go, job_path(job))
    wait_until(lambda: "waiting" in process.out, lambda: f"{process} to wait", ATTACH_SECONDS)
    tracer = context.attach(process, "--verbose")
    wait_until(lambda: find_capture(context.path("out")) and "owners of storages read" in tracer.err,
               lambda: f"objects that {tracer} read", ATTACH_SECONDS)
    with open(go, "w", encoding="utf-8"):
        pass
    process.check_code(0)
    tracer.check_code(COMPLETE)
    return context.report()


def names_of(tasks):
    """Under the reference's mode kernels add up out of place where else they do it in place (docs/accuracy.md)."""
    return [task["node_name"].replace("_.", ".") for task in tasks]


def tasks_of(folder):
    return [task for task in compare.read_csv(folder, "0", "tasks")
            if task["node_name"] not in compare.UNALIGNED_NODES and task["task_name"] != "initialization"]


def rows_by_task(folder):
    rows = collections.defaultdict(list)
    for row in compare.read_csv(folder, "0", "memory"):
        if row["type"] not in compare.IGNORED_TYPES and row["task_name"] != "initialization":
            rows[int(row["start_time_stamp"]), row["size"]].append(row)
    return rows


def per_cent(pairs):
    pairs = list(pairs)
    return 100 * sum(want == got for want, got in pairs) / len(pairs) if pairs else 100


def check_attached(context, job, share):
    report, folder = paused(context, job, share), context.reference(job_path(job))
    want, got = tasks_of(folder), tasks_of(report.folder)
    aligned = [(want[i], got[j]) for i, j in compare.align(names_of(want), names_of(got))]
    check(len(aligned) > 0.97 * len(got), f"only {len(aligned)} of {len(got)} tasks are the reference's")
    modules = [(a["graph_name"], b["graph_name"]) for a, b in aligned if a["graph_name"]]
    # One that ran in place made no row.
    place = {int(a["task_index"]): int(b["task_index"]) for a, b in aligned if a["node_name"] == b["node_name"]}
    theirs, ours, types = rows_by_task(folder), rows_by_task(report.folder), []
    for (task, size), rows in theirs.items():
        mine = iter(ours.get((place.get(task), size), ()))
        for row in rows:
            if row["is_persistent"] == "1" and task in place:
                types.append((row["type"], next(mine, {"type": "no row"})["type"]))
    say(f"{len(got)} of {len(want)} tasks, {len(modules)} with modules, {len(types)} persistent rows")
    say([pair for pair in modules if pair[0] != pair[1]][:5], [pair for pair in types if pair[0] != pair[1]][:5])
    check(per_cent(modules) >= MODULES, f"{per_cent(modules)} % of modules are right")
    check(per_cent(types) >= TYPES, f"{per_cent(types)} % of types are right")
    # What was made before, and stays, has its type too.
    first = int(aligned[0][0]["task_index"])
    older = collections.Counter((row["size"], row["type"]) for (task, _), rows in theirs.items() for row in rows
                                if task < first and row["is_persistent"] == "1" and row["type"] in ("Parameter", "Buffer", "Optstate"))
    known = collections.Counter((row["size"], row["type"]) for row in report.rows)
    check(not older - known, "older than the attach, and not there:", older - known)
    return report, len(modules), sum(older.values())


@test(each=SHARES, timeout=240)
def test_every_kind_of_module_has_its_name(context, share):
    report, modules, older = check_attached(context, "named", share)
    check(modules > 200, f"{modules} tasks have modules")
    check(older > 15 or not share, f"{older} storages are older")
    check_equal(report.json["metadata"]["model"], "Wrapped", "model")


@test(root="latest", timeout=240)
def test_every_kind_of_module_has_its_name_in_the_latest_version(context):
    check_attached(context, "named", 0.55)


@test(timeout=240)
def test_what_a_backward_pass_recomputes_first_has_its_name(context):
    """Its modules are called by a checkpoint before anybody saw the model's own call."""
    check_attached(context, "checkpoint_plain", 0.5)
