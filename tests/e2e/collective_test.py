"""Collectives of the ranks of a job: what each was, and who came last."""
import collections
import csv
import json
import os
import re
import signal

from harness import COMPLETE, PYTHON, USAGE, check, check_equal, find_capture, program_path, test, wait_until

RANKS = 2


def collectives_of(context, rank, out="out"):
    with open(context.path(out, f"rank_{rank}", f"rank_{rank}_collectives.csv"), newline="",
              encoding="utf-8") as source:
        return list(csv.DictReader(source))


def run(context, program, *arguments, environment=None, options=(), codes=(0,)):
    traced = context.run(context.hdtrace, "run", "-o", context.path("out"), "--device", "all", *options, "--",
                         *context.command(PYTHON, program_path(program), *arguments),
                         environment=environment, timeout=100)
    check(traced.code in codes, f"exit code {traced.code}: {traced}")
    return traced


def check_every_call(context, backend, environment=None):
    os.makedirs(context.path("log"))
    run(context, "collectives", backend, RANKS, context.path("log"), environment=environment)
    for rank in range(RANKS):
        rows = collectives_of(context, rank)
        with open(context.path("log", f"{rank}.log"), encoding="utf-8") as log:
            wanted = log.read().splitlines()
        got = [" ".join([row["kind"], row["reduce_op"] or "-", row["dtype"] or "-", row["count"], row["peer"] or "-"])
               for row in rows]
        check_equal(got, wanted, f"collectives of rank {rank}")
        check_equal({(row["group_rank"], row["group_size"]) for row in rows}, {(str(rank), str(RANKS))}, "groups")
        common = [row for row in rows if row["kind"] not in ("send", "receive")]
        # Two groups that the ranks use in different orders, once each.
        world = [row for row in common if row["communicator"] == common[0]["communicator"]]
        check_equal(len(common) - len(world), 2 if backend == "gloo" else 0, "collectives of other groups")
        check_equal([int(row["sequence"]) for row in world], list(range(len(world))), "sequence")
        check_equal({(row["matched_ranks"], row["absent_rank"], row["differs"]) for row in common},
                    {(str(RANKS), "", "0")}, "matches")
        # The numbers of rows that collectives.py asks for, of five elements each.
        uneven = "{" + "-".join(str(5 * ((rank + other) % 3 + 1)) for other in range(RANKS)) + "}"
        check_equal([(row["splits"], row["output_splits"]) for row in rows if row["kind"] == "all_to_all"][-1],
                    (uneven, uneven), "parts of single ranks")
        sizes = {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "uint8": 1, "": 0}
        for row in rows:
            check_equal(int(row["bytes"]), int(row["count"]) * sizes[row["dtype"]], f"bytes of {row}")
    return rows


@test(timeout=120)
def test_every_collective_of_gloo_is_one_row(context):
    check_every_call(context, "gloo")


@test(root="latest", timeout=120)
def test_every_collective_of_gloo_in_the_latest_version(context):
    rows = check_every_call(context, "gloo")
    check_equal([row["mode"] for row in rows].count("functional"), 2, "functional collectives")


@test(root="cuda", timeout=120)
def test_every_collective_of_gloo_in_the_cuda_build(context):
    check_every_call(context, "gloo")


@test(root="cuda", device="cuda", timeout=120)
def test_every_collective_of_nccl(context):
    check_every_call(context, "nccl", {"STANDIN_CUDA_DEVICES": str(RANKS)})


@test(timeout=120)
def test_buckets_of_gradients_are_told_from_other_collectives(context):
    run(context, "ranks", "gloo", 4)
    for rank in range(4):
        rows = collectives_of(context, rank)
        buckets = [row for row in rows if row["bucket"] == "1"]
        check_equal([(row["kind"], row["reduce_op"], row["count"], row["task_name"]) for row in buckets],
                    [("all_reduce", "sum", "12480", "backward")] * 3, "buckets")
        kinds = collections.Counter(row["kind"] for row in rows)
        check_equal((kinds["all_reduce"], kinds["all_gather"], kinds["barrier"]), (6, 1, 1), "kinds")
        check_equal([row["step"] for row in buckets], ["0", "1", "2"], "steps of buckets")


@test(timeout=120, alone=True)
def test_the_rank_that_comes_last_is_named_with_the_time_that_others_waited(context):
    traced = run(context, "late", "gloo", RANKS, "0.05")
    times = {rank: int(time_ns) for rank, time_ns in re.findall(r"^late (\d) (\d+)$", traced.out, re.MULTILINE)}
    skew = times["1"] - times["0"]
    for rank in range(RANKS):
        late = next(row for row in collectives_of(context, rank) if row["sequence"] == "3")
        check_equal((late["kind"], late["last_rank"]), ("all_reduce", "1"), "the late one")
        check(int(late["skew_ns"]) >= 40e6 and abs(int(late["skew_ns"]) - skew) < 10e6, f"skew {late['skew_ns']}, the ranks say {skew}")
        check_equal(int(late["wait_ns"]), int(late["skew_ns"]) if rank == 0 else 0, f"wait of rank {rank}")


@test(timeout=120)
def test_a_rank_that_never_comes_is_named_with_where_it_stands(context):
    tracer = context.interrupted_run("late 0", PYTHON, program_path("late"), "gloo", RANKS, "never")
    wait_until(lambda: os.path.exists(context.path("out", "job.json")), lambda: f"reports of {tracer}", timeout=60)
    with open(context.path("out", "job.json"), encoding="utf-8") as source:
        job = json.load(source)
    for rank in job["ranks"]:
        os.kill(rank["pid"], 9)
    check_equal([(one["rank"], one["kind"], one["absent_rank"]) for one in job["unfinished"]], [(0, "all_reduce", 1)],
                "what was never finished")
    absent = job["ranks"][1]["python_stack"]
    check(any("late.py" in line and line.endswith(" linger") for line in absent[:1]), "where rank 1 stands:", absent)
    waiting = job["ranks"][0]["python_stack"]
    check(any("distributed_c10d.py" in line for line in waiting), "where rank 0 stands:", waiting)


@test(timeout=120)
def test_ranks_attached_in_the_middle_are_matched(context):
    job = context.program("family", "exec", RANKS, "0")
    wait_until(lambda: job.out.count("step") > 8, lambda: f"steps of {job}", timeout=40)
    context.run(context.hdtrace, "-p", job.pid, "-d", "2", "-o", context.path("out")).check_code(COMPLETE)
    with open(context.path("out", "job.json"), encoding="utf-8") as source:
        for rank in json.load(source)["ranks"]:
            os.kill(rank["pid"], 9)
    times = [{row["time_ns"]: row for row in collectives_of(context, rank)} for rank in range(RANKS)]
    matched = [row for row in times[0].values() if row["matched_ranks"] == str(RANKS)]
    check(len(matched) > 20, "matched", len(matched), "of", len(times[0]))
    # A rank cannot be a whole step ahead: all-reduces hold it back.
    skews = sorted(int(row["skew_ns"]) for row in matched[:-1])
    check(skews[len(skews) // 2] < 200e6 and all(row["differs"] == "0" for row in matched[:-1]), "skews:", skews)


STEPS, LAYERS = 3, 4  # of tests/jobs/sharded.py


def check_sharded(context, backend, kind, operation):
    """Each layer, and the root, is gathered for the forward and, the root excepted, for the backward pass."""
    run(context, "sharded", backend, RANKS, kind, STEPS, environment={"STANDIN_CUDA_DEVICES": str(RANKS)})
    for rank in range(RANKS):
        rows = [row for row in collectives_of(context, rank) if row["kind"] != "barrier"]
        counts = collections.Counter((row["kind"], row["reduce_op"], row["task_name"]) for row in rows)
        check_equal(counts, {("all_gather", "", "forward"): STEPS * (LAYERS + 1), ("all_gather", "", "backward"): STEPS * LAYERS,
                             ("reduce_scatter", operation, "backward"): STEPS * (LAYERS + 1)}, f"collectives of rank {rank}")
        check_equal({(row["matched_ranks"], row["differs"]) for row in rows}, {(str(RANKS), "0")}, "matches")
        for row in rows:
            whole, part = (row["output_bytes"], row["bytes"]) if row["kind"] == "all_gather" else (row["bytes"], row["output_bytes"])
            check_equal(int(whole), RANKS * int(part), f"bytes of {row}")
        steps = [step for step in context.report(rank=rank).steps if step["complete"] == "1"]
        check_equal([(step["micro_steps"], step["collectives"]) for step in steps],
                    [("1", str(3 * LAYERS + 2))] * STEPS, f"passes and collectives of the steps of rank {rank}")
        metadata = context.report(rank=rank).json["metadata"]
        known = {degree: size for degree, size in metadata["parallel"].items() if size is not None}
        check_equal(known, {"dp": RANKS, "dp_shard": RANKS}, f"degrees that rank {rank} shows")
        blocks, _ = check_communication(context, rank)
        for row in rows:
            buffers, copies = ([blocks[index] for index in numbers(row[column])] for column in ("output_blocks", "copy_blocks"))
            if row["kind"] == "all_gather":
                # Unsharded: by FSDP1 the very block that the gather writes, by FSDP2 what is split off.
                unsharded = copies if kind == "fsdp2" else buffers
                check({block.get("communication") for block in unsharded} == {"gathered"}, f"unsharded parameters of {row}")
                check(sum(block["size"] for block in unsharded) in range(int(row["output_bytes"]) - 64, int(row["output_bytes"]) + 1), f"their bytes: {row}")
                check(kind != "fsdp1" or row["released_by"] in ("resize", ""), f"how they are let go: {row}")
            else:
                check_equal([blocks[index].get("communication") for index in numbers(row["input_blocks"])], ["buffer"], f"what is scattered by {row}")


@test(root="cuda", device="cuda", timeout=120, each=("fsdp1", "fsdp2"))
def test_shards_over_nccl_are_gathered_and_scattered(context, kind):
    check_sharded(context, "nccl", kind, "sum" if kind == "fsdp1" else "avg")


@test(root="latest", timeout=120)
def test_shards_over_gloo_are_gathered_and_scattered(context):
    check_sharded(context, "gloo", "fsdp2", "avg")


def numbers(text):
    return [int(part) for part in text.strip("{}").split("-") if part]


def check_communication(context, rank):
    """What the job must have had of each collective, and the sums of the steps counted again from the blocks."""
    report, rows = context.report(rank=rank), collectives_of(context, rank)
    blocks = report.json["memory_blocks"]
    for row in rows:
        listed = {index for column in ("input_blocks", "output_blocks", "copy_blocks") for index in numbers(row[column])}
        check_equal(int(row["communication_bytes"]), sum(blocks[index]["size"] for index in listed if "communication" in blocks[index]),
                    f"bytes for communication of {row}")
    times = {int(task["task_index"]): int(task["step"]) for task in report.tasks}
    for step in report.steps:
        made = [block for block in blocks if "communication" in block and times[block["start_time_stamp"]] == int(step["step"])]
        check_equal(int(step["communication_bytes"]), sum(block["size"] for block in made), f"bytes of step {step['step']}")
        check_equal(int(step["small_collectives"]), sum(row["small"] == "1" for row in rows if row["step"] == step["step"]), "small ones")
    return blocks, rows


PART_BYTES = 1024  # of tests/jobs/gathering.py


def check_gathering(context, backend):
    process = run(context, "gathering", backend, RANKS, environment={"STANDIN_CUDA_DEVICES": str(RANKS)})
    waited = dict(re.findall(r"^waited (\d) (\d+)$", process.out, re.MULTILINE))
    for rank in range(RANKS):
        blocks, rows = check_communication(context, rank)
        kinds = [(row["kind"], row["mode"], row["divided"], row["small"]) for row in rows]
        check_equal(kinds, [("all_gather", "functional", "", "0")] * 2 + [("all_gather", "eager", "", "0")] +
                    [("all_reduce", "eager", divided, "0") for divided in ("after", "before", "")] + [("all_reduce", "eager", "", "1")] * 2 +
                    [("all_reduce", "functional", "", "0"), ("all_gather", "functional", "", "0"), ("all_reduce", "functional", "", "0")] +
                    [("all_reduce", "eager", "", "0")] * 2, f"collectives of rank {rank}")
        first, second, by_hand = rows[:3]
        # Along the first dimension the result is what the gather wrote; along the second, its copy.
        check_equal((first["copy_blocks"], first["communication_bytes"]), ("", "0"), "gather along the first dimension")
        for row, buffers in ((second, [RANKS * PART_BYTES]), (by_hand, [PART_BYTES] * RANKS)):
            check_equal([(blocks[index]["size"], blocks[index].get("communication")) for index in numbers(row["output_blocks"])],
                        [(size, "buffer") for size in buffers], "what a gather along the second dimension wrote")
            copies = [blocks[index] for index in numbers(row["copy_blocks"])]
            check_equal([(copy["node_name"], copy["size"], "communication" in copy) for copy in copies],
                        [("aten.cat.default", RANKS * PART_BYTES, False)], "its copy")
        if backend == "gloo":
            # The work is done before the thread that waits for it is woken.
            check(int(rows[-1]["host_wait_ns"]) <= int(waited[str(rank)]), f"wait of rank {rank}: {rows[-1]}, it says {waited}")
        check_equal({row["host_wait_ns"] == "" for row in rows[:-1]}, {backend == "nccl"}, "waits are known")
        if backend == "gloo" and rank == 0:
            check(int(rows[-1]["duration_ns"]) >= int(rows[-1]["skew_ns"]) >= 40e6, f"duration of {rows[-1]}")
            check(int(rows[-1]["host_wait_ns"]) > 20e6, f"wait of {rows[-1]}")


@test(root="latest", timeout=120)
def test_collectives_over_gloo_have_their_memory_and_waits(context):
    check_gathering(context, "gloo")


@test(root="cuda", device="cuda", timeout=120)
def test_collectives_over_nccl_have_their_memory(context):
    check_gathering(context, "nccl")


@test(timeout=120)
def test_captures_of_several_machines_become_one_job(context):
    """Each rank is traced by a tracer of its own, as on a machine of its own."""
    job = context.program("family", "exec", RANKS, "0")
    wait_until(lambda: job.out.count("step") > 8, lambda: f"steps of {job}", timeout=40)
    pids = {int(rank): int(pid) for rank, pid in re.findall(r"rank (\d+) pid (\d+)", job.out)}
    tracers = [context.start(context.hdtrace, "-p", pids[rank], "-o", context.path(f"machine{rank}")) for rank in range(RANKS)]
    for rank in range(RANKS):
        wait_until(lambda: find_capture(context.path(f"machine{rank}")), lambda: f"a capture of {tracers[rank]}", timeout=40)
    context.wait_steps(job, 100)
    for tracer in tracers:
        tracer.send(signal.SIGINT)
    for tracer in tracers:
        tracer.check_code(COMPLETE)
    for pid in pids.values():
        os.kill(pid, 9)
    several = [context.path(f"machine{rank}") for rank in range(RANKS)]
    context.run(context.hdtrace, "report", *several).check_code(USAGE)
    context.run(context.hdtrace, "report", *several, "-o", context.path("out")).check_code(COMPLETE)
    with open(context.path("out", "job.json"), encoding="utf-8") as source:
        ranks = json.load(source)["ranks"]
    check_equal([(rank["rank"], rank["pid"], rank["capture"]) for rank in ranks],
                [(rank, pids[rank], rank) for rank in range(RANKS)], "ranks")
    check(ranks[0]["clock_offset_ns"] == 0 and abs(ranks[1]["clock_offset_ns"]) < 50e6, "offsets of one and the same clock:", ranks)
    matched = [row for row in collectives_of(context, 0) if row["matched_ranks"] == str(RANKS)]
    check(len(matched) > 20, f"{len(matched)} collectives are matched")
    skews = sorted(int(row["skew_ns"]) for row in matched[:-1])
    check(skews[len(skews) // 2] < 100e6 and all(row["differs"] == "0" for row in matched[:-1]), "skews:", skews)
    for rank in range(RANKS):
        one, whole = (context.report(out, rank) for out in (f"machine{rank}", "out"))
        check_equal(whole.rows, one.rows, f"rows of rank {rank}")
        check_equal(whole.tasks, one.tasks, f"tasks of rank {rank}")
