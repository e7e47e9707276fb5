"""What hdtrace writes for other people's viewers: every number is that of its own CSV, and their readers take it."""
import json
import os
import pickle
import re
import shutil

import viewers_truth
from harness import COMPLETE, FAILED, JOBS, PYTHON, TOP, USAGE, check, check_equal, program_path, skip, test

MLP = os.path.join(JOBS, "mlp_adamw.py")
ALL = ("--format", "all")
FORMATS = "csv,json,html,snapshot,perfetto,folded,sqlite"

# Run in a root: PyTorch's own reader of snapshots, which imports no more of PyTorch.
READER = """
import json, pickle, runpy, sys
viz = runpy.run_path(sys.argv[1])
with open(sys.argv[2], "rb") as source:
    data = pickle.load(source)
plots = [viz[name](data, plot_segments=True) if name == "trace_plot" else viz[name](data) for name in ("trace_plot", "segment_plot")]
print(json.dumps({"summary": viz["segsum"](data), "trace": viz["trace"](data), "plots": list(map(len, plots)),
                  "flames": [viz[name](data, format_flamegraph=lambda text: text) for name in ("segments", "memory")],
                  "allocated": sum(segment["allocated_size"] for segment in data["segments"])}))
"""


def check_formats(context, ranks=(0,), out="out"):
    if not shutil.which("node"):
        skip("node is not installed")
    return viewers_truth.check_all(context.path(out), ranks)


def report_again(context, *options, capture=None, out="again", codes=(COMPLETE,)):
    return context.run(context.hdtrace, "report", *options, "-o", context.path(out), capture or context.path("out")).check_code(*codes)


@test(timeout=120)
def test_every_format_has_the_numbers_of_the_csv(context):
    report = context.trace_run(program_path("hostile_names"), options=ALL)
    check_formats(context)
    report_again(context, "-q", *ALL)
    again = context.report("again").files()
    for name in ("snapshot.pickle", "peak.folded", "allocated.folded"):
        path = os.path.join("rank_0", f"rank_0_{name}")
        check(again[path] == report.files()[path], f"{name} is another one the second time")
    with open(os.path.join(TOP, "docs", "database.md"), encoding="utf-8") as page:
        queries = re.findall(r'sqlite3 job.sqlite "([^"]+)"', page.read())
    database = viewers_truth.sqlite3.connect(context.path("out", "job.sqlite"))
    answers = [database.execute(query).fetchall() for query in queries]
    lines = viewers_truth.collections.Counter()
    for line, value in viewers_truth.folded_of(report.path("peak.folded")).items():
        frames = line.split(";")[:-1]
        lines[frames[-1].rsplit(" (", 1)[1][:-1] if frames else None] += value
    place, most = max(((place, value) for place, value in lines.items() if place), key=lambda item: item[1])
    check_equal((len(answers), answers[0][0][0]), (3, most), f"the line that holds most at the peak, {place}")
    report_again(context, "-q", "--csv-layout", "mindspore", "--format", "csv", out="mindspore")
    viewers_truth.check_mindspore(report, context.path("mindspore"))
    check(not os.path.exists(context.path("mindspore", "rank_0", "rank_0_memory.csv")), "the other layout is there too")


@test(timeout=120)
def test_a_running_job_has_blocks_that_are_older(context):
    job = context.trained("loop")
    context.attach(job, "--steps", "2", *ALL).check_code(COMPLETE)
    check(any(block["preexisting"] for block in context.report().json["memory_blocks"]), "no block is older than the trace")
    check_formats(context)


@test(root="cuda", device="cuda", timeout=120)
def test_segments_and_exhausted_memory_are_in_the_snapshot(context):
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), *ALL, "--",
                          *context.command(PYTHON, program_path("exhausting"), "--times", "2"),
                          environment={"STANDIN_CUDA_MEMORY_MB": "1024"}).check_code(COMPLETE)
    check_formats(context)
    report = context.report()
    reader = os.path.join("/usr/lib/python3/dist-packages/torch/cuda/_memory_viz.py")
    done = context.run(*context.command(PYTHON, "-c", READER, reader, report.path("snapshot.pickle"))).check_code(0)
    seen = json.loads(done.out)
    held = sum(int(segment["size"]) for segment in report._rows("segments") if segment["allocator"] == "1" and not segment["end_time_ns"])
    left = [block for block in report.json["memory_blocks"] if block["is_persistent"]]
    check_equal(seen["allocated"], sum(block["allocated_bytes"] for block in left), "bytes of all segments")
    check("segments" in seen["summary"] and f"{held / 2**20:.1f}MiB" in seen["summary"], "reserved:", held, seen["summary"][-300:])
    check_equal(sum(int(line.rsplit(" ", 1)[1]) for line in seen["flames"][0].splitlines()), held, "bytes of the flame graph of segments")
    check_equal(seen["trace"].count("OutOfMemoryError"), 2, "times out of memory")
    check(min(seen["plots"]) > 10000, "no plots:", seen["plots"])
    check("perfetto " in process.err and "database " in process.err, "the files are not named:", process.err)


@test(root="cuda", device="cuda", timeout=120)
def test_a_snapshot_is_pytorchs_own_of_the_same_run(context):
    report = context.trace_run(program_path("snapshotting"), context.path("own.pickle"), options=ALL)
    check_formats(context)
    with open(report.path("snapshot.pickle"), "rb") as ours, open(context.path("own.pickle"), "rb") as own:
        got, want = pickle.load(ours), pickle.load(own)
    actions = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free")
    got, want = ([(entry["action"], entry["addr"], entry["size"], entry["stream"]) for entry in snapshot["device_traces"][0]
                  if entry["action"] in actions] for snapshot in (got, want))
    check({entry[0] for entry in want} == set(actions), "the job does not do all:", {entry[0] for entry in want})
    check(got[:len(want)] == want, "PyTorch's own differs:", viewers_truth.first_difference(got, want))
    check(not [entry for entry in got[len(want):] if entry[0].endswith("alloc")], "behind its end:", got[len(want):])


@test(timeout=120)
def test_collectives_flow_from_rank_to_rank(context):
    os.makedirs(context.path("log"))
    context.run(context.hdtrace, "run", "-o", context.path("out"), "--device", "all", *ALL, "--",
                *context.command(PYTHON, program_path("collectives"), "gloo", 2, context.path("log")), timeout=100).check_code(COMPLETE)
    flows = check_formats(context, (0, 1))
    with open(context.path("log", "0.log"), encoding="utf-8") as log:
        common = [line for line in log if line.split()[0] not in ("send", "receive")]
    check_equal(flows, len(common), "collectives that flow")


@test(timeout=120)
def test_formats_of_a_job_without_memory(context):
    job = context.trained("loop")
    context.run(context.hdtrace, "-p", job.pid, "-d", "0.5", "--device", "npu", "-q", *ALL, "-o", context.path("out")).check_code(COMPLETE)
    check_equal(set(os.listdir(context.path("out", "rank_0"))) - {"rank_0_steps.csv"}, {"rank_0_memory.json"}, "files of the rank")
    trace = viewers_truth.Trace(context.path("out", "job.pftrace"))
    check_equal([track["name"] for track in trace.tracks.values() if track["process"]], ["rank 0"], "processes")
    database = viewers_truth.sqlite3.connect(context.path("out", "job.sqlite"))
    check_equal(database.execute("SELECT count(*), (SELECT count(*) FROM blocks) FROM ranks").fetchone(), (1, 0), "ranks and blocks")


@test
def test_formats_are_asked_for_by_name(context):
    report = context.traced(MLP)
    written = [os.path.basename(name) for name in report.files()]
    check(not [name for name in written if name.endswith(("pickle", "pftrace", "folded", "sqlite"))], "by default too:", written)
    for verb in (("report", report.folder), ("run", "--", "true")):
        wrong = context.run(context.hdtrace, verb[0], "--format", "csv,pdf", *verb[1:]).check_code(USAGE)
        check(f"a list of {FORMATS} with commas, not csv,pdf" in wrong.err, "formats are not named:", wrong.err)
        helped = context.run(context.hdtrace, verb[0], "--help").check_code(COMPLETE)
        check(FORMATS in "".join(helped.out.split()), "formats are not in the help:", helped.out)
    for name, mark in (("docs/hdtrace.8", ".It Cm {}\n"), ("docs/viewers.md", "| `{}` |"), ("packaging/hdtrace.bash-completion", " {}")):
        with open(os.path.join(TOP, name), encoding="utf-8") as page:
            text = page.read()
        check(not [one for one in FORMATS.split(",") if mark.format(one) not in text], "a format is not in", name)
    report_again(context, "-q", "--format", "snapshot", capture=report.folder)
    check_equal(list(context.report("again").files()), [os.path.join("rank_0", "rank_0_snapshot.pickle")], "files")
    wrong = report_again(context, "--csv-layout", "odd", capture=report.folder, codes=(USAGE,))
    check("dryrun or mindspore, not odd" in wrong.err, "layouts are not named:", wrong.err)


@test
def test_a_full_disk_leaves_no_half_database(context):
    capture = context.traced(MLP).folder
    small = context.path("small")
    os.makedirs(small)
    mounted = context.run("mount", "-t", "tmpfs", "-o", "size=16k", "none", small)
    if mounted.code:
        skip(f"nothing can be mounted here: {mounted.err.strip()}")
    try:
        for kind in ("sqlite", "perfetto", "snapshot"):
            done = context.run(context.hdtrace, "report", "-q", "--format", kind, "-o", small, capture).check_code(FAILED)
            check("No space left on device" in done.err, "the reason is not told:", done.err)
            left = [name for _, _, names in os.walk(small) for name in names]
            check_equal(left, [], f"files that {kind} left")
    finally:
        context.run("umount", small).check_code(0)
