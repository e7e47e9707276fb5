"""The test roots themselves: what PyTorch does in them, before hdtrace looks (docs/testing.md)."""
import json
import os
import re

import compare
from harness import CANNOT_MAKE_ROOT, JOBS, PYTHON, TEST_ROOT, TOP, check, check_equal, test

MEGABYTE = 1 << 20
VERSIONS = "import sys, torch; print(torch.__version__, sys.version_info[:2], torch.cuda.is_available())"
ERROR_MEMORY_ALLOCATION = 2
ON_DEVICE = {"cudaMalloc", "cudaMallocAsync", "cudaMallocFromPoolAsync", "cuMemAlloc_v2", "cuMemAllocAsync",
             "cuMemCreate"}


def facts_of(context, case, **environment):
    """What tests/jobs/device_cases.py prints about a case."""
    process = context.program("device_cases", case, environment=environment).check_code(0)
    return json.loads(process.out)


@test(root="cuda", needs_bpf=False)
def test_cuda_root_has_the_cuda_build_of_pytorch(context):
    process = context.run(*context.command(PYTHON, "-c", VERSIONS))
    check(re.match(r"2\.6\..* \(3, 13\) True$", process.out), process)


@test(root="latest", needs_bpf=False)
def test_latest_root_has_a_pytorch_after_2_6(context):
    process = context.run(*context.command(PYTHON, "-c", VERSIONS))
    found = re.match(r"2\.(\d+)\..* \(3, (\d+)\) False$", process.out)
    check(found and int(found[1]) > 6 and int(found[2]) > 13, process)


@test(root="cuda", needs_bpf=False)
def test_a_command_in_a_root_keeps_process_folder_and_environment(context):
    process = context.run(*context.command(PYTHON, "-c", "import os; print(os.getpid(), os.getcwd(), os.environ['X'])"),
                          environment={"X": "kept"})
    check_equal(process.out.split(), [str(process.pid), context.folder, "kept"], "pid, folder, environment")
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        check(context.root not in mounts.read(), "something is still mounted in the root")


@test(root="latest")
def test_a_traced_command_in_a_root_is_the_process_that_hdtrace_started(context):
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", *context.command(
        PYTHON, "-c", "import os, torch; print(os.getpid()); torch.ones(1000)"))
    target = context.report().live["target"]
    check_equal(str(target["pid"]), process.out.split()[0], "pid")
    check(target["executable"].startswith(os.path.realpath(context.root) + "/"), "the path outside is not told:", target["executable"])


@test(needs_bpf=False)
def test_what_is_no_root_is_not_entered(context):
    process = context.run(TEST_ROOT, "enter", context.folder, "/bin/true")
    check(process.code == 1 and "is no root" in process.err, process)


# It begins a root, keeps the options of apt that it was given, and fails.
FAILING_MMDEBSTRAP = """#!/bin/sh
for argument; do
    case $argument in --aptopt=*) cp "${argument#*=}" "$HDTRACE_TEST_CACHE/apt.conf" ;; esac
done
shift $(($# - 2)) # TARGET MIRROR
mkdir -p "$1/etc"
echo "E: no network to $2" >&2
exit 1
"""


def where_no_root_can_be_made(context, why):
    """An environment without mmdebstrap, or with one that fails."""
    programs = context.path("bin")
    os.mkdir(programs)
    path = programs
    if why == "mmdebstrap fails":
        with open(os.path.join(programs, "mmdebstrap"), "w", encoding="utf-8") as script:
            script.write(FAILING_MMDEBSTRAP)
        os.chmod(script.name, 0o755)
        path += ":" + os.environ["PATH"]
    return {"PATH": path, "HDTRACE_TEST_CACHE": context.path("cache")}


WHY = {"there is no mmdebstrap": "there is no mmdebstrap; run scripts/setup --tests",
       "mmdebstrap fails": "mmdebstrap could not make it: E: no network to "}


@test(needs_bpf=False, each=WHY)
def test_a_root_that_cannot_be_made_is_told_with_the_reason(context, why):
    process = context.run(TEST_ROOT, "cuda", environment=where_no_root_can_be_made(context, why))
    check_equal(process.code, CANNOT_MAKE_ROOT, f"exit code of {process}")
    check("test-root: the root cuda cannot be made: " + WHY[why] in process.err.splitlines()[-1], process)
    check(not any(entry.is_dir() for entry in os.scandir(context.path("cache"))), "something was left of it")


@test(needs_bpf=False)
def test_roots_come_through_the_proxy_of_apt(context):
    proxy = 'Acquire::http::Proxy "http://127.0.0.1:9/";'
    with open(context.path("proxy.conf"), "w", encoding="utf-8") as options:
        options.write(proxy + "\n")
    context.run(TEST_ROOT, "latest", environment={**where_no_root_can_be_made(context, "mmdebstrap fails"),
                                                  "APT_CONFIG": context.path("proxy.conf")})
    with open(context.path("cache", "apt.conf"), encoding="utf-8") as options:
        found = options.read().splitlines()
    check(proxy in found and 'Acquire::Check-Valid-Until "false";' in found, "options that were given to apt:", found)


@test(needs_bpf=False)
def test_a_test_without_its_root_is_shown_as_skipped(context):
    runner = os.path.join(TOP, "tests", "e2e", "run.py")
    process = context.run(PYTHON, runner, "--hdtrace", context.hdtrace, "--work", context.path("work"), "-k",
                          "test_training_on_the_device", environment=where_no_root_can_be_made(context, "no mmdebstrap"))
    lines = process.out.splitlines()
    check(process.code == 0 and lines[-1] == "0 passed, 0 failed, 1 skipped", process)
    check(lines[-2].startswith("skipped test_training") and "there is no mmdebstrap" in lines[-2], process)


SOMETIMES = """
import os
from harness import check, test


@test(needs_bpf=False, each={str(number): times for number, times in enumerate(TIMES)})
def test_fails_at_first(context, number):
    times = TIMES[int(number)]
    with open(os.path.join(os.path.dirname(__file__), number), "a", encoding="utf-8") as runs:
        runs.write("x")
        check(runs.tell() > times, f"run {runs.tell()} of {times}")
"""


@test(needs_bpf=False)
def test_a_test_that_failed_is_run_once_more_and_told(context):
    runner = os.path.join(TOP, "tests", "e2e", "run.py")
    for times, code, last in (([1, 2], 1, "1 passed, 1 failed"), ([1, 1], 0, "2 passed, 0 failed"),
                              ([1, 1, 1], 1, "0 passed, 3 failed")):
        folder = context.path("-".join(map(str, times)))
        os.makedirs(folder)
        with open(os.path.join(folder, "own_test.py"), "w", encoding="utf-8") as source:
            source.write(SOMETIMES.replace("TIMES", repr(times)))
        process = context.run(PYTHON, runner, "--again", "2", "--tests", folder, "--hdtrace", context.hdtrace, "--work",
                              os.path.join(folder, "work"))
        check((process.code, process.out.splitlines()[-1]) == (code, last), process)
        check_equal(process.out.count("unsteady  test_"), times.count(1) if len(times) < 3 else 0, f"told by {process}")


@test(needs_bpf=False)
def test_removing_roots_spares_what_is_mounted_in_them(context):
    mounted = context.path("cache", "latest-1", "mnt")
    os.makedirs(mounted)
    process = context.run("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$1" && touch "$1/kept" && "$2" remove; '
                          'test -e "$1/kept" && echo spared', "sh", mounted, TEST_ROOT,
                          environment={"HDTRACE_TEST_CACHE": context.path("cache")})
    check_equal(process.out, "spared\n", f"what {process} says")
    check(f"{mounted} is a mount; unmount it" in process.err, process)


@test(root="cuda", needs_bpf=False)
def test_training_on_the_device_reuses_its_memory(context):
    facts = facts_of(context, "training")
    check_equal(len(set(facts["allocated"][1:])), 1, f"different bytes allocated after a step: {facts}")
    check(0 < facts["allocated"][-1] <= facts["reserved"] and facts["allocations"] > 100, facts)


@test(root="cuda", needs_bpf=False)
def test_the_memory_cap_gives_an_out_of_memory_error(context):
    for name in ("STANDIN_CUDA_MEMORY_MB", "FAKE_CUDA_MEM_MB"):
        facts = facts_of(context, "out_of_memory", **{name: "100"})
        check("Tried to allocate 80.00 MiB" in facts["error"], facts)
        check_equal((facts["free"], facts["ooms"]), (60 * MEGABYTE, 1), "bytes free, errors")


@test(root="cuda", needs_bpf=False)
def test_devices_have_memory_of_their_own(context):
    facts = facts_of(context, "two_devices", STANDIN_CUDA_DEVICES="2", STANDIN_CUDA_MEMORY_MB="60")
    check_equal(facts["count"], 2, "devices")
    check_equal(facts["allocated"], facts["sizes"], "bytes allocated on each")
    check_equal(facts["used"], facts["sizes"], "bytes that the driver counts on each")


@test(root="cuda", needs_bpf=False)
def test_no_device_means_no_cuda(context):
    process = context.run(*context.command(PYTHON, "-c", VERSIONS), environment={"STANDIN_CUDA_DEVICES": "0"})
    check(process.out.endswith("False\n"), process)


@test(root="cuda", needs_bpf=False)
def test_expandable_segments_are_mapped_and_unmapped(context):
    facts = facts_of(context, "expandable_segments", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    check(facts["expandable"] and all(facts["expandable"]), facts)
    check_equal((facts["used"], facts["used_then"]), (80 * MEGABYTE, 40 * MEGABYTE), "bytes used with and without one")
    check_equal(facts["reserved_then"], 40 * MEGABYTE, "bytes reserved")


@test(root="cuda", needs_bpf=False)
def test_a_graph_captures_its_streams_and_replays_their_time(context):
    facts = facts_of(context, "graph", STANDIN_KERNEL_US="1000")
    check(facts["pool"] > 0 and facts["side"] and facts["side_after"], facts)
    check(4 <= facts["milliseconds"] < 1000, "four kernels of 1 ms:", facts)


@test(root="cuda", needs_bpf=False)
def test_streams_have_a_time_of_their_own(context):
    facts = facts_of(context, "streams", STANDIN_KERNEL_US="100000", STANDIN_CLOCK="waits")
    check(1000 <= facts["milliseconds"] < 5000, "ten kernels of 100 ms:", facts)
    check(facts["busy"] and not facts["busy_after"], facts)


@test(root="cuda", needs_bpf=False)
def test_the_asynchronous_allocator_counts_what_tensors_hold(context):
    facts = facts_of(context, "asynchronous_pools", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    check_equal(facts, {"backend": "cudaMallocAsync", "allocated": 30 * MEGABYTE, "allocated_then": 0}, "facts")


@test(root="cuda", needs_bpf=False, each=("runtime_calls", "driver_calls"))
def test_each_call_allocates_counts_and_fails(context, case):
    for name, facts in facts_of(context, case).items():
        size = 4 * MEGABYTE if name in ON_DEVICE else 0
        check_equal(facts, {"code": 0, "too_large": ERROR_MEMORY_ALLOCATION, "untouched": True, "used": size, "released": 0,
                            "released_again": True, "used_after": 0}, name)


@test(root="cuda", needs_bpf=False)
def test_ranks_exchange_data_and_wait_for_the_last(context):
    process = context.program("ranks", "nccl", 2, environment={"STANDIN_CUDA_DEVICES": "2"}).check_code(0)
    found = {int(rank): (int(total), int(waited))
             for rank, total, waited in re.findall(r"rank (\d) sum (\d+) waited (\d+)", process.out)}
    check_equal({rank: total for rank, (total, _) in found.items()}, {0: 3, 1: 3}, "sums of each rank")
    check(found[0][1] >= 190 > 150 > found[1][1], "milliseconds that the first and the late rank waited:", found)


def check_reference(context):
    folder = context.reference(os.path.join(JOBS, "mlp_adamw.py"))
    rows, tasks = compare.read_csv(folder, "0", "memory"), compare.read_csv(folder, "0", "tasks")
    check({"forward", "backward", "optimizer"} <= {task["task_name"] for task in tasks}, "phases of", len(tasks), "tasks")
    check({"Parameter", "Gradient", "Activation", "Optstate"} <= {row["type"] for row in rows}, "types of", len(rows), "rows")


@test(root="cuda", device="cuda", needs_bpf=False)
def test_reference_follows_the_device(context):
    check_reference(context)


@test(root="cuda", needs_bpf=False)
def test_reference_follows_the_cpu_in_the_cuda_root(context):
    check_reference(context)


@test(root="latest", needs_bpf=False)
def test_reference_follows_the_cpu_in_the_latest_root(context):
    check_reference(context)
