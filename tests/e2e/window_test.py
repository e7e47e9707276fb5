"""--until-oom: the trace ends when memory runs out, and its capture stays small until then."""
import json
import os
import signal
import subprocess

import invariants
from harness import COMPLETE, LOST, PYTHON, Report, check, check_equal, program_path, test, wait_until

MEBIBYTE = 1 << 20
ALWAYS = 9223372036854775807
WHOLE = ("size", "type", "node_name", "task_name", "file_name", "line_num", "python_stack", "is_persistent", "actual_used_memory")
OLDER = WHOLE[:-1]


class View:
    """The last tasks of a report, and its blocks then; tasks are numbered backwards, since two reports agree on the last."""

    def __init__(self, report, count):
        self.tasks, self.rows = report.tasks, report.rows
        self.first = len(self.tasks) - count

    def back(self, task):
        return task if task == ALWAYS else task - len(self.tasks)

    def task_rows(self):
        names = ("thread_id", "task_name", "node_name", "file_name", "line_num")
        return [[task[name] for name in names] for task in self.tasks[self.first:]]

    def row(self, row, names):
        users = [int(user) for user in row["user_tasks"].strip("{}").split("-") if user]
        return (row["device_addr"], self.back(int(row["end_time_stamp"])),
                [self.back(user) for user in users if user >= self.first], *(row[name] for name in names))

    def young(self):
        """What was made in the window, with its start."""
        return [(self.back(int(row["start_time_stamp"])), *self.row(row, WHOLE))
                for row in self.rows if int(row["start_time_stamp"]) > self.first]

    def older(self):
        """What was made before and lived on into the window."""
        return sorted(self.row(row, OLDER) for row in self.rows
                      if int(row["start_time_stamp"]) < self.first < int(row["end_time_stamp"]) - 1)


def different(got, want):
    return [pair for pair in zip(got, want) if pair[0] != pair[1]][:2]


@test(timeout=120)
def test_window_has_what_a_whole_capture_has_of_it(context):
    """Two traces of one job at the same time: one keeps a window, the other everything."""
    job = context.trained("loop", "--optimizer", "adamw", "--pause", "0", "--steps", "3000")
    whole = context.attach(job, out="whole")
    window = context.attach(job, "--until-oom", "--window", "1M", out="window")
    sizes = []
    while window.code is None:
        capture = context.path("window", "capture.hdt")
        sizes.append(os.path.getsize(capture) if os.path.exists(capture) else 0)
        try:
            window.popen.wait(0.05)
        except subprocess.TimeoutExpired:
            pass
    whole.check_code(COMPLETE)
    window.check_code(COMPLETE)
    reports = {name: Report(context.path(name)) for name in ("whole", "window")}
    live = reports["window"].live
    check(live["window"] and live["window"]["dropped_records"] > 0, "nothing was dropped:", live["window"])
    check_equal(reports["whole"].live["window"], None, "window of a whole capture")
    check(any("window" in text for text in reports["window"].json["limitations"]), "no limitation tells it")
    check(max(sizes) < 2 * MEBIBYTE, f"the capture grew to {max(sizes)} bytes")
    check(os.path.getsize(context.path("whole", "capture.hdt")) > 2 * MEBIBYTE, "the job is too small")
    check("dropped" in window.out, f"the summary does not tell it: {window}")
    count = sum(int(task["time_ns"]) >= live["window"]["since_ns"] for task in reports["window"].tasks)
    window, whole = (View(reports[name], count) for name in ("window", "whole"))
    for what in ("task_rows", "young", "older"):
        got, want = getattr(window, what)(), getattr(whole, what)()
        check(len(want) > 5, f"{what}: too few to compare: {len(want)}")
        check_equal(len(got), len(want), f"number of {what}")
        check(got == want, f"{what} differ:", different(got, want))
    invariants.check_report(reports["window"])


@test(timeout=120)
def test_blocks_older_than_the_window_keep_their_maker(context):
    """Traced from its first instruction: the parameters were made long before the window."""
    context.run(context.hdtrace, "run", "--until-oom", "--window", "1M", "-o", context.path("out"), "--",
                *context.command(PYTHON, program_path("loop"), "--optimizer", "adamw", "--pause", "0", "--steps", "2500"),
                timeout=100).check_code(COMPLETE)
    report = context.report()
    check(report.live["window"]["dropped_records"] > 0, "nothing was dropped")
    check_equal(report.live["counts"]["unknown_frees"], 0, "frees of blocks that nobody knows")
    for category, sizes, phase in (("Parameter", [16, 256, 1024, 8192], "forward"), ("Optstate", [16, 16, 256, 256, 1024, 1024, 8192, 8192], "optimizer")):
        blocks = [row for row in report.rows if row["type"] == category and row["is_persistent"] == "1" and int(row["size"]) > 8]
        check_equal(sorted(int(row["size"]) for row in blocks), sizes, f"persistent blocks of {category}")
        check_equal({row["task_name"] for row in blocks}, {phase}, f"phase of {category}")
        check(all("loop.py" in row["python_stack"] and row["node_name"].startswith("aten.") for row in blocks), "makers:", blocks)
    invariants.check_report(report)


@test(timeout=120)
def test_tracer_that_is_killed_while_it_compacts_leaves_a_capture_and_nothing_else(context):
    job = context.trained("loop", "--optimizer", "adamw", "--pause", "0")
    out = context.path("out")
    tracer = context.attached(job, "--until-oom", "--window", "1M")

    def compacting():
        tracer.check_alive()
        with open(f"/proc/{tracer.pid}/task/{tracer.pid}/children", encoding="ascii") as children:
            return children.read().split()
    child, = wait_until(compacting, "a process that compacts", 30)
    tracer.send(signal.SIGKILL)
    check_equal(tracer.wait(), -signal.SIGKILL, "end of the tracer")
    wait_until(lambda: not os.path.exists(f"/proc/{child}"), "the process that compacts outlives its tracer")
    check_equal(os.listdir(out), ["capture.hdt"], "files")
    context.run(context.hdtrace, "report", out).check_code(LOST)  # no end was written
    check(len(context.report().rows) > 100, "few blocks in the report")
    context.wait_steps(job, 3)


@test(root="cuda", device="cuda", each=("whole", "window"), timeout=150)
def test_trace_ends_when_the_device_is_full(context, kept):
    """The job goes on, and says what was allocated when it ran out of memory."""
    steps, memory = {"whole": (40, "1024"), "window": (3000, "8192")}[kept]
    process = context.run(context.hdtrace, "run", "--until-oom", "--window", "1M", "-o", context.path("out"), "--",
                          *context.command(PYTHON, program_path("leaking"), "--steps", str(steps)), timeout=140,
                          environment={"STANDIN_CUDA_MEMORY_MB": memory})
    process.check_code(COMPLETE)
    line = json.loads(process.out)
    report = context.report()
    check_equal(report.live["end_reason"], "out_of_memory", "why the trace ended")
    check_equal(bool(report.live["window"]), kept == "window", "whether older records were dropped")
    event, = report.live["out_of_memory"]
    check_equal((event["requested_bytes"], event["allocated_bytes"], event["reserved_bytes"]),
                (line["asked"], line["allocated"], line["reserved"]), "asked, allocated and reserved")
    check_equal(sum(event["categories"].values()), line["allocated"], "sum of categories")
    holder = event["lines"][0]
    check((holder["file_name"].endswith("leaking.py"), holder["line_num"]) == (True, line["line"]), "who holds most:", holder)
    check_equal(holder["bytes"], line["held"], "bytes that it holds")
    check_equal(report.live["devices"]["cuda:0"]["unexplained_totals"], 0, "totals that do not follow")
    check_equal(report.live["counts"]["unknown_frees"], 0, "frees of blocks that nobody knows")
    # All records are 6 MiB. What is alive stays, here up to 1.4, and what comes while others are dropped, about a second's.
    check(os.path.getsize(context.path("out", "capture.hdt")) < 5 * MEBIBYTE, "the capture is large")
    invariants.check_report(report)
