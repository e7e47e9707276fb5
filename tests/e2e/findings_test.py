"""Findings of jobs that waste memory in one way each: what is told, by how much it is off, and that others are silent.

The measure of what a finding would save is the same job without the fault: its own peak.
"""
import collections
import json
import os
import re

from harness import COMPLETE, FAILED, JOBS, PYTHON, SCHEMA, USAGE, Report, check, check_equal, program_path, test
from page_truth import held_after, own_line

TIMEOUT = 180
WASTEFUL = program_path("wasteful")
# What is told of a job beside its peak.
TOLD = {"none": [], "layers": [], "zeroed": ["gradients"], "late": ["gradients"], "logits": ["logits"], "dead": ["dead"],
        "leak": ["growth"], "foreach": ["optimizer"], "idle": ["idle"], "whole": ["recompute"]}
KIBIBYTE = 1 << 10


def wasted(context, fault):
    """The report of a job with a fault; made once for all tests of a run."""
    with context.shared("wasteful", fault) as folder:
        if not os.path.exists(folder):
            # It makes its model when it is told that the trace has begun.
            job = context.trained("wasteful", fault, context.path(f"go-{fault}"))
            tracer = context.attached(job, "-q", out=fault)
            with open(context.path(f"go-{fault}"), "w", encoding="utf-8"):
                pass
            check_equal((job.wait(TIMEOUT), tracer.wait(TIMEOUT)), (0, COMPLETE), f"exit codes of {job} and {tracer}")
            os.rename(context.path(fault), folder)
    return Report(folder)


def line_of(pattern):
    """The line of the job that has this text."""
    with open(WASTEFUL, encoding="utf-8") as source:
        return next(f"{WASTEFUL}:{number}" for number, line in enumerate(source, 1) if re.search(pattern, line))


def explained(context, *arguments, code=COMPLETE):
    """Findings of `hdtrace explain --json`, which fit the schema."""
    process = context.run(context.hdtrace, "explain", "--json", *arguments)
    check_equal(process.code, code, f"exit code of {process}")
    value = json.loads(process.out)
    check_schema(value, "explanation")
    return value["findings"]


def check_schema(value, name):
    import jsonschema
    with open(SCHEMA, encoding="utf-8") as source:
        schema = json.load(source)
    jsonschema.validate(value, {"$ref": f"#/definitions/{name}", "definitions": schema["definitions"]})


def close(got, want, share):
    return abs(got - want) <= share * want


# --- what the CSV says -------------------------------------------------------------------------------------

class Truth:
    """Sums over the rows of a report, independent of how hdtrace makes its own."""

    def __init__(self, report):
        self.rows, self.blocks, self.tasks = report.rows, report.json["memory_blocks"], report.tasks
        self.peak = report.live["devices"]["cpu"]["peak"]
        for row, block in zip(self.rows, self.blocks):
            block["line"] = own_line(block)
            block["alive"] = block["start_time_ns"] <= self.peak["time_ns"] < (block["end_time_ns"] or float("inf"))
            block["last"] = int(row["last_user_task"] or row["start_time_stamp"])
            block["row"] = row

    def lines_at_peak(self):
        sums = collections.Counter()
        for block in self.blocks:
            if block["alive"]:
                sums[block["line"]] += block["allocated_bytes"] or block["size"]
        return sums

    def dead(self):
        return [block for block in self.blocks if block["alive"] and block["last"] < self.peak["task"] and held_after(block["row"]) > 1]

    def step_ends(self, line):
        """Bytes of a line that are alive where each complete step ends."""
        begins = {}
        for task in self.tasks:
            begins.setdefault(int(task["step"]), int(task["time_ns"]))
        ends = [begins[step] for step in sorted(begins)][1:]
        return [sum(block["size"] for block in self.blocks if block["line"] == line
                    and block["start_time_ns"] < end <= (block["end_time_ns"] or float("inf"))) for end in ends]


# --- kinds ---------------------------------------------------------------------------------------------------

@test(each=sorted(TOLD), timeout=TIMEOUT)
def test_finding_of(context, fault):
    report, healthy = wasted(context, fault), wasted(context, "none")
    findings = report.json["findings"]
    check_equal(sorted(one["kind"] for one in findings), sorted(["peak", *TOLD[fault]]), "findings")
    truth, peak, base = Truth(report), report.json["summary"]["peak_bytes"], healthy.json["summary"]["peak_bytes"]
    top = findings[-1]
    check_equal((top["kind"], top["bytes"], top["numbers"]["task"]), ("peak", peak, truth.peak["task"]), "the last one is the peak")
    lines = [one for one in top["evidence"] if one["kind"] == "line"]
    check_equal([(one["name"], one["bytes"]) for one in lines], truth.lines_at_peak().most_common(len(lines)), "lines of the peak")
    check_equal(findings, explained(context, report.folder), "what explain says of the same capture")
    if not TOLD[fault]:
        return
    found = findings[0]
    check(found["text"] and found["advice"] and found["evidence"], f"it says nothing: {found}")
    if fault == "whole":
        # It would be what the same job has without recomputation; and that is no more than it is with it.
        check(close(found["numbers"]["peak_without_bytes"], base, 0.02), f"without it {base}, told was {found['numbers']}")
        check(peak > 0.98 * base, f"recomputation lowered {base} to {peak}")
    elif fault != "leak":
        check(close(peak - found["saves_bytes"], base, 0.01), f"{peak} less {found['saves_bytes']}, and {base} without the fault")
    CHECKS.get(fault, lambda *_: None)(found, truth)


def check_dead(found, truth):
    dead = truth.dead()
    check_equal((found["bytes"], found["numbers"]["blocks"]), (sum(block["size"] for block in dead), len(dead)), "bytes and blocks")
    check_equal(max(block["size"] for block in dead), 1024 * KIBIBYTE, "the largest of them")
    cost = sum(int(row["size"]) * held_after(row) for row in truth.rows
               if own_line({"python_stack": row["python_stack"]}) == line_of(r"return torch.ones"))
    check_equal((found["evidence"][0]["name"], found["evidence"][0]["byte_tasks"]), (line_of(r"return torch.ones"), cost), "bytes × tasks")


def check_leak(found, truth):
    line = line_of(r"return torch.ones")
    ends = truth.step_ends(line)
    check_equal(found["evidence"][0]["name"], line, "line")
    check_equal(found["bytes"], ends[-1] - ends[1], f"growth from the second step on, of {ends}")
    check_equal((found["numbers"]["bytes_per_step"], found["numbers"]["steps"]), (256 * KIBIBYTE, len(ends) - 2), "bytes a step")


def check_gradients(found, truth):
    alive = [block for block in truth.blocks if block["alive"] and block["type"] == "Gradient"]
    check_equal((found["bytes"], found["numbers"]["blocks"]), (sum(block["size"] for block in alive), len(alive)), "gradients at the peak")


def check_zeroed(found, truth):
    check_gradients(found, truth)
    check(line_of(r"set_to_none=False") in found["advice"], found["advice"])


CHECKS = {"dead": check_dead, "leak": check_leak, "late": check_gradients, "zeroed": check_zeroed,
          "logits": lambda found, _: check_equal(found["bytes"], 256 * 1024 * 4, "bytes of logits"),
          "idle": lambda found, _: check_equal(found["bytes"], 1024 * KIBIBYTE, "bytes that stay")}


# --- words, fit, summary ----------------------------------------------------------------------------------------

@test(timeout=TIMEOUT)
def test_explanation_has_the_findings_in_words_and_tells_what_fits(context):
    report = wasted(context, "zeroed")
    peak = report.json["summary"]["peak_bytes"]
    process = context.run(context.hdtrace, "explain", report.folder)
    check_equal((process.code, process.err), (COMPLETE, ""), f"exit code and stderr of {process}")
    words = " ".join(process.out.split())
    for finding in report.json["findings"]:
        for text in (finding["text"], finding["advice"]):
            check(" ".join(text.split()) in words, f"{text} is not in {process.out}")
    check(all(len(line) <= 100 or " " not in line.strip() for line in process.out.splitlines()), f"lines are too long: {process.out}")
    for size, severity, missing in ((f"{peak}", "note", 0), (f"{peak - 4096}", "critical", 4096)):
        fit = next(one for one in explained(context, "--device-memory", size, report.folder) if one["kind"] == "fit")
        check_equal((fit["severity"], fit["bytes"]), (severity, missing), f"on {size} bytes")
    again = context.run(context.hdtrace, "report", report.folder, "-o", context.path("again"))
    check(" ".join(report.json["findings"][0]["text"].split()) in " ".join(again.out.split()), f"the summary does not tell: {again}")


@test(needs_bpf=False)
def test_explain_says_what_is_wrong_with_its_arguments(context):
    for arguments, code, text in (((), USAGE, "which trace"), (("--device-memory", "much", "."), USAGE, "40G"),
                                  ((context.path("none"),), FAILED, "cannot read"), ((context.path("."),), FAILED, "capture.hdt")):
        process = context.run(context.hdtrace, "explain", *arguments)
        check_equal(process.code, code, f"exit code of {process}")
        check(text in process.err and not process.out, f"{text} is not told: {process}")


@test(root="cuda", device="cuda", timeout=TIMEOUT)
def test_exhausted_device_is_explained_in_words(context):
    process = context.run(context.hdtrace, "run", "-q", "-o", context.path("out"), "--",
                          *context.command(PYTHON, program_path("exhausting")), environment={"STANDIN_CUDA_MEMORY_MB": "1024"})
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    said, event = json.loads(process.out.splitlines()[-1]), context.report().live["out_of_memory"][-1]
    findings = {one["kind"]: one for one in explained(context, "--device-memory", "1G", context.path("out"))}
    found = findings["out_of_memory"]
    check_equal((found["severity"], found["numbers"]["requested_bytes"], found["numbers"]["allocated_bytes"], found["numbers"]["reserved_bytes"]),
                ("critical", said["asked"], said["allocated"], said["reserved"]), "what the allocator said")
    check_equal(found["numbers"]["missing_bytes"], said["asked"] - (said["reserved"] - said["allocated"]), "what was missing")
    sizes = sorted((block["allocated_bytes"] or block["size"] for block in context.report().json["memory_blocks"]
                    if block["start_time_ns"] <= event["time_ns"] < (block["end_time_ns"] or float("inf"))), reverse=True)
    enough = next((count for count in range(1, len(sizes) + 1) if sum(sizes[:count]) >= found["numbers"]["missing_bytes"]), 0)
    check_equal(found["numbers"]["blocks_enough"], enough, f"how many of {sizes} would have had to go")
    device = context.report().live["devices"]["cuda:0"]
    check_equal(findings["fit"]["numbers"]["held_bytes"], device["reserved_peak_bytes"] + device["outside_peak_bytes"], "what was held")
    peak = context.report().json["devices"]["cuda:0"]["peak"]["Total"]
    beyond = device["reserved_peak_bytes"] - peak
    check_equal("fragmentation" in findings, beyond >= max(22 << 20, 0.1 * peak), f"told that {beyond} were held beyond {peak}")


# --- two runs -------------------------------------------------------------------------------------------------

def compared(context, *arguments, codes=(COMPLETE,)):
    process = context.run(context.hdtrace, "diff", "--json", *arguments)
    check(process.code in codes, f"exit code of {process}")
    value = json.loads(process.out)
    check_schema(value, "comparison")
    return value


def check_group(entries, first, second, what):
    """Entries of a comparison, against sums of both sides."""
    names = {name for name in (*first, *second) if first[name] or second[name]}
    check_equal({one["name"]: (one["first_bytes"], one["second_bytes"]) for one in entries},
                {name: (first[name], second[name]) for name in names}, what)
    for one in entries:
        check_equal(one["change_bytes"], one["second_bytes"] - one["first_bytes"], f"change of {one['name']}")
        want = 100 * one["change_bytes"] / one["first_bytes"] if one["first_bytes"] else None
        check(want is None and one["change_percent"] is None or abs(one["change_percent"] - want) < 1e-6, f"percent of {one}")
    sizes = [abs(one["change_bytes"]) for one in entries]
    check_equal(sizes, sorted(sizes, reverse=True), f"order of {what}")


GROUPS = {"categories": lambda row: row["type"], "modules": lambda row: row["graph_name"], "operators": lambda row: row["node_name"],
          "lines": lambda row: f'{row["file_name"]}:{row["line_num"]}' if row["file_name"] or row["line_num"] != "0" else ""}


def sums_of_csv(rows, key):
    """What is alive at the task of the peak, as the README tells."""
    peak = int(max(rows, key=lambda row: int(row["actual_used_memory"]))["start_time_stamp"])
    sums = collections.Counter()
    for row in rows:
        if int(row["start_time_stamp"]) <= peak < int(row["end_time_stamp"]):
            sums[key(row)] += int(row["size"])
    return sums


@test(timeout=TIMEOUT)
def test_two_runs_side_by_side(context):
    healthy, dead = wasted(context, "none"), wasted(context, "dead")
    rank, = compared(context, healthy.folder, dead.folder)["ranks"]
    peaks = [report.json["summary"]["peak_bytes"] for report in (healthy, dead)]
    check_equal((rank["first"]["peak_bytes"], rank["second"]["peak_bytes"], rank["accepted"]), (*peaks, None), "peaks")
    check_group(rank["categories"], *[collections.Counter({name: size for name, size in report.json["devices"]["cpu"]["peak"].items() if name != "Total"})
                                      for report in (healthy, dead)], "categories")
    new = next(one for one in rank["lines"] if one["name"] == line_of(r"return torch.ones"))
    check_equal((new["first_bytes"], new["second_bytes"], new["change_percent"]), (0, 1024 * KIBIBYTE, None), "the line that is new")
    steps = [sorted(int(row["peak_bytes"]) for row in report.steps if row["complete"] == "1") for report in (healthy, dead)]
    check_equal([(rank[side]["steps"], rank[side]["step_peak_bytes"]) for side in ("first", "second")],
                [(len(values), values[len(values) // 2]) for values in steps], "steps")
    process = context.run(context.hdtrace, "diff", healthy.folder, dead.folder)
    check_equal((process.code, process.err), (COMPLETE, ""), f"exit code and stderr of {process}")
    check(re.search(r"wasteful.py:\d+ +0 B +1.0 MiB +\+1.0 MiB +new", process.out), f"the new line is not told: {process.out}")
    # The same from the CSV files of both alone.
    rank, = compared(context, *[report.path("memory.csv") for report in (healthy, dead)])["ranks"]
    for group, key in GROUPS.items():
        check_group(rank[group], sums_of_csv(healthy.rows, key), sums_of_csv(dead.rows, key), group)
    check_equal(rank["first"]["steps"], len(steps[0]), "steps of the CSV beside it")


@test(timeout=TIMEOUT)
def test_dry_run_is_judged_by_the_live_run(context):
    script = os.path.join(JOBS, "mlp_adamw.py")
    live, dry = context.traced(script), context.reference(script)
    rows = Report(dry).rows
    predicted = max(int(row["actual_peak_memory"]) for row in rows)
    peak = live.json["summary"]["peak_bytes"]
    error = 100 * abs(predicted - peak) / peak
    for tolerance, accepted in ((None, error <= 5), (error + 0.01, True), (max(0, error - 0.01), error == 0)):
        options = ["--tolerance", str(tolerance)] if tolerance is not None else []
        value = compared(context, *options, "--dry-run", dry, live.folder, codes=(COMPLETE,) if accepted else (REFUSED,))
        check_equal((value["accepted"], value["ranks"][0]["accepted"]), (accepted, accepted), f"accepted, by {tolerance}")
        check(abs(value["ranks"][0]["error_percent"] - error) < 1e-6, f"{error} %, told was {value['ranks'][0]['error_percent']}")
    check_group(value["ranks"][0]["categories"], sums_of_csv(rows, GROUPS["categories"]),
                collections.Counter({name: size for name, size in live.json["devices"]["cpu"]["peak"].items() if name != "Total"}), "categories")
    # One that says twice as much; and one of a rank that did not run.
    for name, change in (("rank_0_memory.csv", 2), ("rank_5_memory.csv", 1)):
        with open(context.path(name), "w", encoding="utf-8") as out:
            out.write(",".join(rows[0]) + "\n" + "".join(",".join(f'"{value}"' if column == "python_stack" else str(int(value) * change) if column in (
                "size", "actual_used_memory", "actual_peak_memory") else value for column, value in row.items()) + "\n" for row in rows))
        process = context.run(context.hdtrace, "diff", "--dry-run", context.path(name), live.folder)
        check_equal(process.code, REFUSED, f"exit code of {process}")
        check("not accepted" in process.out, f"it is not told: {process}")
    check("rank 5 is in the dry run only" in process.out, f"the rank is not told: {process}")


REFUSED = 4


@test(needs_bpf=False)
def test_wrong_csv_is_told_with_line_and_column(context):
    with open(context.path("rank_0_memory.csv"), "w", encoding="utf-8") as out:
        out.write("start_time_stamp,end_time_stamp,size,file_name,line_num,type,node_name,graph_name\n0,1,8,a.py,1,Temp,x,\n1,2,eight,a.py,1,Temp,x,\n")
    path = context.path("rank_0_memory.csv")
    for arguments, code, text in (((path, path), FAILED, 'line 3, column size: "eight" is no whole number'), ((path,), USAGE, "two runs"),
                                  (("--dry-run", path), USAGE, "which live run"), ((path, path, path), USAGE, "one too many"),
                                  ((context.path("."), context.path("none")), FAILED, "line 3"), (("--tolerance", "x", path, path), USAGE, "percent")):
        process = context.run(context.hdtrace, "diff", *arguments)
        check_equal(process.code, code, f"exit code of {process}")
        check(text in process.err and not process.out, f"{text} is not told: {process}")
