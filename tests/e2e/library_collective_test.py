"""Collectives of libraries, below c10d and without PyTorch: MPI, NCCL, and those that are known by a table only."""
import csv
import json
import os
import re
import shutil
import signal

from collective_test import check_every_call, collectives_of
from harness import COMPLETE, PROGRAMS, PYTHON, TOP, check, check_equal, program_path, skip, test

RANKS = 4
STANDINS = os.path.join(TOP, "build", "standin")

# How a program of each is built and started.
MPI = {"openmpi": ("mpicc.openmpi", ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]),
       "mpich": ("mpicc.mpich", ["mpiexec.mpich"])}
LOGGED = ("function", "kind", "reduce_op", "dtype", "count", "bytes", "output_bytes", "peer", "in_place", "group_size",
          "splits", "output_splits")


def build(context, compiler, source, out, *options):
    process = context.run(compiler, "-O2", "-o", out, os.path.join(PROGRAMS, source), *options)
    check_equal(process.code, 0, f"exit code of {process}")
    return out


def build_stub(context, library, names, make, result):
    """A library of these functions; `make` puts a communicator where its argument of that number points to."""
    with open(context.path("names.h"), "w", encoding="ascii") as out:
        out.writelines(f"LIBRARY({name})\n" for name in sorted(names))
    return build(context, "gcc", "library_stub.c", context.path(library), "-shared", "-fPIC",
                 f"-DNAMES=\"{context.path('names.h')}\"", f"-DCOMMUNICATOR={COMMUNICATOR:#x}", f"-DMAKE={make}",
                 f"-DRESULT={result}")


def mpi_command(context, kind, *arguments):
    compiler, launcher = MPI[kind]
    if not shutil.which(compiler) or not shutil.which(launcher[0]):
        skip(f"there is no {kind}; run scripts/setup --tests")
    program = build(context, compiler, "mpi_program.c", context.path("program"), "-pthread")
    os.makedirs(context.path("log"), exist_ok=True)
    command = [program, context.path("log"), *arguments]
    return command if "alone" in arguments else [*launcher, "-n", str(RANKS), *command]


def logged_calls(context, rank):
    with open(context.path("log", f"{rank}.log"), encoding="utf-8") as log:
        return log.read().splitlines()


def check_calls(context, rank, rows):
    wanted = logged_calls(context, rank)
    got = [" ".join(row[column] or "-" for column in LOGGED) for row in rows]
    for index, (one, other) in enumerate(zip(got, wanted)):
        check_equal(one, other, f"call {index} of rank {rank}")
    check_equal(len(got), len(wanted), f"calls of rank {rank}")


def job_of(context):
    with open(context.path("out", "job.json"), encoding="utf-8") as source:
        return json.load(source)


@test(each=MPI, timeout=120)
def test_every_call_of_mpi_is_one_row(context, kind):
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", *mpi_command(context, kind), timeout=100)
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    job = job_of(context)
    check_equal([rank["rank"] for rank in job["ranks"]], list(range(RANKS)), "ranks, of which the launcher is none")
    check_equal({rank["rank_source"] for rank in job["ranks"]}, {"launcher"}, "where their numbers come from")
    for rank in range(RANKS):
        rows = collectives_of(context, rank)
        check_calls(context, rank, rows)
        check_equal({(row["layer"], row["library"], row["calls"]) for row in rows}, {("mpi", "mpi", "1")}, "layers")
        check(all(row["caller"].startswith("program!") for row in rows), "callers:", {row["caller"] for row in rows})
        world = [row for row in rows if row["communicator"] == "0" and row["sequence"]]
        check_equal({(row["matched_ranks"], row["absent_rank"], row["differs"]) for row in world},
                    {(str(RANKS), "", "0")}, "matches")
        check_equal([int(row["sequence"]) for row in world], list(range(len(world))), "sequence")
        check_equal({row["group_rank"] for row in world}, {str(rank)}, "rank in the world")


@test(each=MPI, timeout=120)
def test_running_program_of_mpi_is_attached_to_by_its_launcher(context, kind):
    """What the arguments of a call do not say of its communicator, the launcher's environment does."""
    job = context.start(*mpi_command(context, kind, "loop"))
    context.wait_steps(job, 4 * RANKS)
    process = context.run(context.hdtrace, "-p", job.pid, "-d", "2", "-o", context.path("out"))
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    check_equal([rank["rank"] for rank in job_of(context)["ranks"]], list(range(RANKS)), "ranks")
    for rank in range(RANKS):
        rows = collectives_of(context, rank)
        check(len(rows) > 10, f"{len(rows)} calls in two seconds")
        check_equal({(row["kind"], row["reduce_op"], row["dtype"], row["bytes"], row["group_rank"], row["group_size"])
                     for row in rows}, {("all_reduce", "sum", "float64", "96", str(rank), str(RANKS))}, "calls")
        check(sum(row["matched_ranks"] == str(RANKS) for row in rows) > 5, "matches", rows[:3])
    job.check_alive()
    job.send(signal.SIGTERM)  # its launcher ends the ranks
    job.wait()


@test(each=MPI)
def test_program_of_mpi_that_is_started_is_seen_from_its_first_call_on(context, kind):
    """Its loader told which libraries it is going to map."""
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", *mpi_command(context, kind, "alone"),
                          environment={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    check_calls(context, 0, collectives_of(context, 0))


@test(timeout=90)
def test_program_of_mpi_in_python_has_its_lines(context):
    """And what it asks of a communicator that it split is seen when the answer returns."""
    launcher = MPI["openmpi"][1]
    if not shutil.which(launcher[0]) or context.run(PYTHON, "-c", "import mpi4py").code:
        skip("there is no mpi4py; run scripts/setup --tests")
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", *launcher, "-n", str(RANKS), PYTHON,
                          program_path("mpi_python"), timeout=80)
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    lines = re.findall(r"\bline (\d+)", process.out)  # of ranks that print at once
    for rank in range(RANKS):
        rows = collectives_of(context, rank)
        check_equal([(row["function"], row["reduce_op"], row["bytes"], row["group_size"]) for row in rows],
                    [("MPI_Allreduce", "max", "80", "4"), ("MPI_Barrier", "", "0", "2"), ("MPI_Bcast", "", "80", "2")],
                    f"calls of rank {rank}")
        check_equal({row["file_name"] for row in rows}, {program_path("mpi_python")}, "files")
        check_equal(sorted(row["line_num"] for row in rows), sorted(set(lines)), "lines")


# --- below c10d ---------------------------------------------------------------------------

@test(root="cuda", device="cuda", timeout=120)
def test_call_of_nccl_below_c10d_is_part_of_its_row(context):
    """One row a collective, as without the library; what it tells besides is its stream and communicator."""
    check_every_call(context, "nccl", {"STANDIN_CUDA_DEVICES": "2"})
    functions = {"all_reduce": "ncclAllReduce", "reduce": "ncclReduce", "broadcast": "ncclBcast",
                 "all_gather": "ncclAllGather", "reduce_scatter": "ncclReduceScatter", "all_to_all": "ncclSend",
                 "send": "ncclSend", "receive": "ncclRecv", "barrier": "ncclAllReduce"}
    for rank in range(2):
        rows = collectives_of(context, rank)
        for row in rows:
            check_equal((row["layer"], row["library"], row["function"]), ("c10d", "nccl", functions[row["kind"]]),
                        f"layer, library and function of {row}")
            check_equal(row["calls"], "4" if row["kind"] == "all_to_all" else "1", f"calls of {row}")
            check(int(row["stream"]) and int(row["handle"], 16), "stream and communicator of", row)
        # Pairs have a communicator and a stream of their own.
        check_equal(len({(row["stream"], row["handle"]) for row in rows if row["kind"] not in ("send", "receive")}), 1,
                    "streams")
        check_equal({row["in_place"] for row in rows if row["kind"] == "all_reduce"}, {"1"}, "all-reduces in place")


@test(root="latest", timeout=120)
def test_call_of_mpi_below_c10d_is_part_of_its_row(context):
    """ProcessGroupMPI calls MPI on a thread of its own, later."""
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--",
                          *context.command(PYTHON, program_path("mpi_backend")), timeout=100)
    if "no MPI" in process.out:
        skip("this PyTorch has no MPI")
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    wanted = [line.split()[1:] for line in process.out.splitlines() if line.startswith("call ")]
    rows = collectives_of(context, 0)
    check_equal([[row["kind"], row["function"], row["count"]] for row in rows], wanted, "rows")
    check_equal({(row["layer"], row["library"], row["calls"]) for row in rows}, {("c10d", "mpi", "1")}, "layers")


# --- NCCL without PyTorch ---------------------------------------------------------------------

@test(root="cuda", timeout=90)
def test_program_of_nccl_without_pytorch(context):
    """Groups of sends and receives are an all-to-all where they are one; a communicator is known by how it was made."""
    context.run(*context.command("true")).check_code(0)  # the stand-ins are there
    program = build(context, "gcc", "nccl_program.c", context.path("program"), f"-L{STANDINS}", "-l:libnccl.so.2",
                    "-l:libcudart.so.12", "-l:libcuda.so.1")
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", "/bin/sh", "-c",
                          f"{program} 0 {os.getpid()} & {program} 1 {os.getpid()} & wait",
                          environment={"LD_LIBRARY_PATH": STANDINS, "STANDIN_CUDA_DEVICES": "2"})
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    columns = ("kind", "reduce_op", "dtype", "count", "bytes", "output_bytes", "peer", "in_place", "group_call", "calls",
               "splits", "output_splits")
    streams = {line.split()[1]: line.split()[2] for line in process.out.splitlines() if line.startswith("stream")}
    for rank in range(2):
        rows = collectives_of(context, rank)
        own, other = rank + 1, 2 - rank
        want = ["all_reduce sum float32 10 40 40 - 1 - 1 - -",
                "all_reduce user float16 10 20 20 - 0 - 1 - -",
                "broadcast - uint8 9 9 9 1 1 - 1 - -",
                "all_gather - bfloat16 4 8 16 - 1 - 1 - -",
                "reduce_scatter avg int64 8 64 32 - 1 - 1 - -",
                f"all_to_all - float64 {own + other} {8 * (own + other)} {8 * (2 * rank + 2)} - 0 1 4 "
                f"{{1-2}} {{{own}-{own}}}",
                # One side only is no all-to-all.
                *(["send - int32 3 12 0 1 0 2 1 - -"] * 2 if rank == 0 else ["receive - int32 3 12 12 0 0 2 1 - -"] * 2),
                "all_reduce max int32 2 8 8 - 1 3 1 - -", "all_reduce min int32 2 8 8 - 1 3 1 - -"]
        check_equal([" ".join(row[column] or "-" for column in columns) for row in rows], want, f"calls of rank {rank}")
        check_equal({(row["layer"], row["group_rank"], row["group_size"]) for row in rows},
                    {("nccl", str(rank), "2")}, "communicator")
        common = [row for row in rows if row["sequence"]]
        check_equal({row["matched_ranks"] for row in common}, {"2"}, "matches")
        check_equal({row["stream"] for row in rows}, {streams[str(rank)]}, "stream")


# --- libraries that are known from their documents only -----------------------------------------

COMMUNICATOR, STREAM, GIVES, GETS = 0x700000001000, 0x700000002000, 0x700000010000, 0x700000020000
NCCL_CALLS = [
    ("ncclAllReduce", [GIVES, GETS, 10, 7, 0, COMMUNICATOR, STREAM], "all_reduce sum float32 40 40 -"),
    ("ncclAllReduce", [GIVES, GETS, 10, 7, 9, COMMUNICATOR, STREAM], "all_reduce user float32 40 40 -"),
    ("ncclBroadcast", [GIVES, GETS, 10, 0, 1, COMMUNICATOR, STREAM], "broadcast - int8 10 10 1"),
    ("ncclBcast", [GIVES, 10, 1, 2, COMMUNICATOR, STREAM], "broadcast - uint8 10 10 2"),
    ("ncclReduce", [GIVES, GETS, 10, 6, 2, 1, COMMUNICATOR, STREAM], "reduce max float16 20 20 1"),
    ("ncclAllGather", [GIVES, GETS, 10, 4, COMMUNICATOR, STREAM], "all_gather - int64 80 320 -"),
    ("ncclReduceScatter", [GIVES, GETS, 10, 8, 3, COMMUNICATOR, STREAM], "reduce_scatter min float64 320 80 -"),
    ("ncclAllToAll", [GIVES, GETS, 10, 9, COMMUNICATOR, STREAM], "all_to_all - bfloat16 80 80 -"),
    ("ncclGather", [GIVES, GETS, 10, 2, 1, COMMUNICATOR, STREAM], "gather - int32 40 160 1"),
    ("ncclScatter", [GIVES, GETS, 10, 3, 0, COMMUNICATOR, STREAM], "scatter - uint32 0 40 0"),
    ("ncclSend", [GIVES, 10, 5, 3, COMMUNICATOR, STREAM], "send - uint64 80 0 3"),
    ("ncclRecv", [GETS, 10, 10, 3, COMMUNICATOR, STREAM], "receive - float8_e4m3fn 10 10 3"),
    ("ncclAllToAllv", [GIVES, "counts", 0, GETS, "counts", 0, 7, COMMUNICATOR, STREAM], "all_to_all - float32 40 40 -"),
]
HCCL_CALLS = [
    ("HcclAllReduce", [GIVES, GETS, 10, 4, 0, COMMUNICATOR, STREAM], "all_reduce sum float32 40 40 -"),
    ("HcclBroadcast", [GIVES, 10, 0, 1, COMMUNICATOR, STREAM], "broadcast - int8 10 10 1"),
    ("HcclReduce", [GIVES, GETS, 10, 3, 2, 1, COMMUNICATOR, STREAM], "reduce max float16 20 20 1"),
    ("HcclAllGather", [GIVES, GETS, 10, 5, COMMUNICATOR, STREAM], "all_gather - int64 80 320 -"),
    ("HcclReduceScatter", [GIVES, GETS, 10, 10, 3, COMMUNICATOR, STREAM], "reduce_scatter min float64 320 80 -"),
    ("HcclScatter", [GIVES, GETS, 10, 9, 0, COMMUNICATOR, STREAM], "scatter - uint32 0 40 0"),
    ("HcclSend", [GIVES, 10, 6, 3, COMMUNICATOR, STREAM], "send - uint64 80 0 3"),
    ("HcclRecv", [GETS, 10, 11, 3, COMMUNICATOR, STREAM], "receive - bfloat16 20 20 3"),
    ("HcclAlltoAll", [GIVES, 10, 2, GETS, 10, 2, COMMUNICATOR, STREAM], "all_to_all - int32 160 160 -"),
    ("HcclAlltoAllV", [GIVES, "counts", 0, 4, GETS, "counts", 0, 4, COMMUNICATOR, STREAM],
     "all_to_all - float32 40 40 -"),
    ("HcclBarrier", [COMMUNICATOR, STREAM], "barrier - - 0 0 -"),
]
COUNTS = [1, 2, 3, 4]
# The library's layer and file, how a communicator of four is made, the rank in it, calls.
STUBS = {"rccl": ("rccl", "librccl.so.1", ("ncclCommInitRank", ["result", RANKS, 1]), 1, NCCL_CALLS),
         "all of rccl": ("rccl", "librccl.so.1", ("ncclCommInitAll", ["result", RANKS, 0]), 0, NCCL_CALLS[:1]),
         "hccl": ("hccl", "libhccl.so", ("HcclCommInitRootInfo", [RANKS, 0, 1, "result"]), 1, HCCL_CALLS)}


@test(each=STUBS)
def test_catalogue_of_libraries_reads_every_call(context, kind):
    layer, library, make, rank, calls = STUBS[kind]
    stub = build_stub(context, library, {name for name, _, _ in calls} | {make[0]}, make[0], make[1].index("result"))
    played = [list(make), *([name, arguments] for name, arguments, _ in calls)]
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", PYTHON,
                          program_path("library_player"), stub, json.dumps(played), json.dumps(COUNTS))
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    rows = collectives_of(context, rank)
    for row, (name, _, want) in zip(rows, calls):
        got = " ".join(row[column] or "-" for column in ("kind", "reduce_op", "dtype", "bytes", "output_bytes", "peer"))
        check_equal((row["function"], got), (name, want), "call")
        check_equal((row["layer"], int(row["stream"]), int(row["handle"], 16), row["group_rank"], row["group_size"]),
                    (layer, STREAM, COMMUNICATOR, str(rank), str(RANKS)), f"stream and communicator of {name}")
        parts = "{" + "-".join(map(str, COUNTS)) + "}" if name.lower().endswith("allv") else ""
        check_equal((row["splits"], row["output_splits"]), (parts, parts), f"parts of {name}")
    check_equal(len(rows), len(calls), "calls")


@test(timeout=120, alone=True)
def test_64_ranks_that_call_at_a_steady_rate_lose_nothing(context):
    """Together 32,000 calls a second."""
    ranks, calls = 64, 1000
    stub = build_stub(context, "libnccl.so.2", {"ncclCommInitRank", "ncclAllReduce"}, "ncclCommInitRank", 0)
    program = build(context, "gcc", "library_rate.c", context.path("program"))
    context.run(context.hdtrace, "run", "-q", "-o", context.path("out"), "--", program, stub, ranks, calls, 2000,
                timeout=100).check_code(COMPLETE)
    for rank in range(ranks):
        rows = collectives_of(context, rank)
        check_equal([int(row["count"]) for row in rows], list(range(1, calls + 1)), f"calls of rank {rank}")
        check_equal({(row["group_rank"], row["group_size"], row["matched_ranks"], row["differs"]) for row in rows},
                    {(str(rank), str(ranks), str(ranks), "0")}, f"communicators and matches of rank {rank}")
