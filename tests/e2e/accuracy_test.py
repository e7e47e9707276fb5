"""Every job under jobs/: the report that hdtrace makes is the reference's, to the last row (exact.py)."""
import collections
import glob
import os
import socket

import compare
import exact
import invariants
from harness import COMPLETE, HERE, JOBS, PYTHON, check, check_equal, program_path, say, split_steps, test

SHOWN = 12
ANY = (0, 1000)

# Names and holders are read out of the process while it goes on: of what is there for milliseconds only they may be missed.
READ_MEANWHILE = {"module": (95, 100), "type": (95, 100)}

# Where something else than a dispatch mode's own doing remains: job -> figures with other bounds than exact.EXACT.
EXCEPTIONS = {
    # A sparse tensor has no storage of its own: as an argument it makes no user, and what only reads it
    # (_indices, _values, is_coalesced, zero_) is no task. Its blocks are exact.
    "sparse_embeddings": {"tasks": (89, 100), "users": (77, 100)},
    # A mode under inference mode is shown composite operators (linear, softmax); untraced, only what these call
    # reaches a backend. Blocks are checked below.
    "inference": {"tasks": (60, 100), "extra_tasks": ANY, "rows": (60, 100)},
    # A model that is there for some milliseconds only: a task without its module is counted as another one.
    "saved_state": {"tasks": (97, 100)},
}

# The same where a later version differs: (root, job).
ROOT_EXCEPTIONS = {
    # quantile checks the range of its argument and selects; under a mode it does neither and sorts.
    ("latest", "mathematics"): {"tasks": (99, 100), "extra_tasks": (0, 11), "rows": (97, 100), "extra": (0, 9),
                                "users": (96, 100)},
    # More of the same as in 1.13.
    ("cuda", "sparse_embeddings"): {"tasks": (84, 100), "users": (76, 100)},
    # And a sparse gradient, which the mode refers to, is cloned instead of kept; to_dense has a Python form of its own.
    ("latest", "sparse_embeddings"): {"tasks": (82, 100), "extra_tasks": (0, 2), "rows": (90, 100),
                                      "lifetime": (93, 100), "users": (74, 100), "plot": (80, 100),
                                      "phase": (97, 100), "leaf": (95, 100), "stack": (95, 100), "peak": (0.97, 1)},
    # torch._dynamo is imported on the way: a record has 64 frames, those of the import system among them.
    ("cuda", "threads_in_turns"): {"stack": (89, 100)},
}

# The same between the plain and the sparse hooks.
HOOK_EXCEPTIONS = {
    # Plain hooks: add_ of a sparse tensor is seen as the add.out that it calls.
    "sparse_embeddings": {"tasks": (98.5, 100), "extra_tasks": (0, 1.5), "rows": (97, 100)},
}

# Smaller ones are numbers, which lite leaves out where operators in place wrap them.
LITE_BYTES_MIN = 64
ALL_JOBS = sorted(os.path.splitext(os.path.basename(path))[0] for path in glob.glob(os.path.join(JOBS, "*.py")))

# Those that other versions of PyTorch run as well, one of each kind. `make e2e MATCH=test_accuracy ALL_JOBS=1`: all.
ROOT_JOBS = ALL_JOBS if os.environ.get("ALL_JOBS") else [
    "attention", "autocast_mix", "cnn_sgd", "hooks_and_saving", "indexing", "inference", "mathematics", "mlp_adamw",
    "sparse_embeddings", "transformer_recompute"]

# Jobs that take their device from JOB_DEVICE.
DEVICE_JOBS = [job for job in ALL_JOBS if "JOB_DEVICE" in open(os.path.join(JOBS, job + ".py"), encoding="utf-8").read()]


def script(job):
    return os.path.join(JOBS, job + ".py")


def check_figures(figures, faults, exceptions):
    bounds = {**exact.EXACT, **READ_MEANWHILE, **exceptions}
    say("  ".join(f"{name} {value:.5g}" for name, value in figures.items()))
    say("\n".join(f"{figure}: {text}" for figure, text in faults[:SHOWN]))
    wrong = compare.out_of_bounds(figures, bounds)
    check(not wrong, "out of bounds:", ", ".join(f"{name} {figures[name]:.4g} not in {bounds[name]}" for name in wrong))


def check_accuracy(context, job, root=None):
    report = context.traced(script(job))
    plain, _ = compare.compare(context.reference(script(job)), report.folder)
    say("with the mode's artefacts: " + "  ".join(f"{name} {value:.5g}" for name, value in plain.items()))
    check_figures(*exact.compare_exactly(context.reference(script(job)), report.folder),
                  {**EXCEPTIONS.get(job, {}), **ROOT_EXCEPTIONS.get((root, job), {})})


@test(each=ALL_JOBS, timeout=120)
def test_accuracy(context, job):
    check_accuracy(context, job)


@test(each=ROOT_JOBS, timeout=240, root="cuda")
def test_accuracy_in_2_6(context, job):
    check_accuracy(context, job, "cuda")


@test(each=ROOT_JOBS, timeout=240, root="latest")
def test_accuracy_in_the_latest_version(context, job):
    check_accuracy(context, job, "latest")


@test(each=DEVICE_JOBS, timeout=240, root="cuda", device="cuda")
def test_accuracy_on_a_device(context, job):
    check_accuracy(context, job)


@test(each=ROOT_JOBS, timeout=120)
def test_both_sets_of_hooks_give_the_same_report(context, job):
    """What traced() ran with is --hooks auto: the sparse ones, which do not know inference mode, but for there."""
    sparse = context.traced(script(job))
    check_equal(sparse.live["target"]["hooks"], "plain" if job == "inference" else "sparse", "hooks of --hooks auto")
    plain = context.trace_run(script(job), options=("--hooks", "plain"))
    check_figures(*exact.compare_exactly(plain.folder, sparse.folder, hooks=True), HOOK_EXCEPTIONS.get(job, {}))


@test(each=ALL_JOBS, timeout=120)
def test_invariants(context, job):
    report = context.traced(script(job))
    invariants.check_report(report)
    invariants.check_schema(report)
    check_equal(report.live["complete"], True, "complete")


@test
def test_inference_mode_blocks_have_the_sizes_and_lines_of_the_reference(context):
    """Whatever the operators are called, each line makes blocks of the same sizes."""
    report = context.traced(script("inference"))
    reference = compare.read_csv(context.reference(script("inference")), "0", "memory")

    def made(rows):
        return collections.Counter((int(row["size"]), row["file_name"], row["line_num"]) for row in rows
                                   if row["type"] != "Workspace")
    missing = made(reference) - made(report.rows)
    check(not missing, "blocks that only the reference has:", dict(missing))


@test
def test_threads_that_run_at_once_keep_their_own_operators(context):
    report = context.trace_run(program_path("threads"))
    reference = compare.read_csv(context.reference(program_path("threads")), "0", "tasks")

    def sequences(tasks):
        threads = {}
        for task in tasks:
            if task["node_name"] not in compare.UNALIGNED_NODES:
                threads.setdefault(task["thread_id"], []).append(task["node_name"])
        return sorted(threads.values())
    check_equal([len(names) for names in sequences(report.tasks)], [len(names) for names in sequences(reference)],
                "operators of each thread")
    check(sequences(report.tasks) == sequences(reference), "an operator is in another thread's sequence")
    for row in report.rows:
        check(int(row["size"]) > 0 and row["node_name"], "a block without its operator", row)


@test
def test_steps_are_counted_by_completed_optimizer_steps(context):
    report = context.trace_run(program_path("loop"), "--steps", "5", "--pause", "0")
    steps = collections.Counter(int(task["step"]) for task in report.tasks)
    check(set(range(5)) <= set(steps) <= set(range(6)), "steps that have tasks:", sorted(steps))
    full = split_steps(report.tasks)[1:5]
    check(all(names == full[1] for names in full[1:]), "steps of the same loop differ:", [len(names) for names in full])


@test
def test_operators_of_forked_children_are_not_the_targets(context):
    report = context.trace_run(program_path("forking"))
    sizes = {int(row["size"]) for row in report.rows}
    check(1234 * 4 not in sizes, "a block of a child is in the report")
    names = [task["node_name"] for task in report.tasks]
    check_equal(names.count("aten.add.Tensor"), 3, "additions of the parent")


@test
def test_lite_level_sees_the_same_blocks(context):
    """Without tensor arguments there are no users; blocks are the same, but for numbers."""
    full = context.trace_run(script("mlp_adamw"), out="full")
    lite = context.trace_run(script("mlp_adamw"), options=("--level", "lite"), out="lite")

    def blocks(report):
        # lite has no profiler ranges and no empty: their blocks are those of zeros, and of no operator.
        names = {"profiler._record_function_enter.default": "aten.zeros.default",
                 "aten.empty.memory_format": "native.allocation"}
        return collections.Counter((names.get(row["node_name"], row["node_name"]), row["size"])
                                   for row in report.rows if int(row["size"]) >= LITE_BYTES_MIN)
    check(blocks(full) == blocks(lite), "only in full:", blocks(full) - blocks(lite), "only in lite:",
          blocks(lite) - blocks(full))
    check(any("lite" in line for line in lite.json["limitations"]), "the limits of lite are not in limitations:",
          lite.json["limitations"])


# Gloo works on threads of its own, beside the operators of the rank: where exactly what it holds is let go, differs.
OTHER_THREADS = {"lifetime": (97, 100), "plot": (94, 100)}


def check_ranks(context, backend, ranks, kind, exceptions):
    """Each rank's report is as exact as that of a process alone; gives the last."""
    arguments = (program_path("sharded"), backend, kind, "2")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "USE_LIBUV": "0",
              "GLOO_SOCKET_IFNAME": "lo", "STANDIN_CUDA_DEVICES": str(ranks)}
    for process in [context.start(*context.command(
            PYTHON, os.path.join(HERE, "reference.py"), "-o", context.path("reference"), "--device",
            f"cuda:{rank}" if backend == "nccl" else "cpu", *arguments), environment={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                    for rank in range(ranks)]:
        process.check_code(0)
    job = context.start(context.hdtrace, "run", "-o", context.path("out"), "--", *context.command(
        PYTHON, arguments[0], backend, ranks, *arguments[2:]), environment=shared)
    check_equal(job.wait(120), COMPLETE, f"exit code of {job}")
    for rank in range(ranks):
        say(f"rank {rank}")
        check_figures(*exact.compare_exactly(context.path("reference"), context.path("out"), str(rank)), exceptions)
    return context.report()


@test(timeout=180)
def test_each_rank_of_a_data_parallel_job_is_as_exact_as_a_process_alone(context):
    """Collectives of c10d are operators of the dispatcher, with their tensors as arguments."""
    report = check_ranks(context, "gloo", 4, "ddp", OTHER_THREADS)
    names = collections.Counter(task["node_name"] for task in report.tasks if task["node_name"].startswith("c10d."))
    check(names["c10d.allreduce_.default"] == 2 and names["c10d.broadcast_.default"] >= 3, "operators of c10d:", names)


@test(timeout=180, root="latest")
def test_each_rank_of_a_sharded_job_is_as_exact_as_a_process_alone(context):
    """The optimizer's operators are called by DTensor, with the shards."""
    report = check_ranks(context, "gloo", 2, "fsdp2", OTHER_THREADS)
    check(sum(task["node_name"] == "aten.sqrt.default" for task in report.tasks) == 36, "a root for each shard and step")


@test(timeout=180, root="cuda", device="cuda", each=("ddp", "fsdp1", "fsdp2"))
def test_each_rank_on_a_device_is_as_exact_as_a_process_alone(context, kind):
    check_ranks(context, "nccl", 2, kind, {})
