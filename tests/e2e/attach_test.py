"""Attaching to processes that already run, and to libraries that come later."""
import importlib.util
import os
import re
import shutil
import time

import invariants
from compare import read_csv
from harness import (COMPLETE, PYTHON, check, check_equal, is_subsequence, program_path, say, split_steps, test,
                     wait_until)

STEADY_STEPS = 4


def steady_step(context, *arguments):
    """Operator names of one step of the loop in its steady state, by the reference."""
    folder = context.reference(program_path("loop"), "--steps", str(STEADY_STEPS), "--pause", "0", *arguments)
    return split_steps(read_csv(folder, "0", "tasks"))[STEADY_STEPS - 1]


def full_steps(report, least):
    steps = split_steps(report.tasks)[1:-1]
    check(len(steps) >= least, f"{len(steps)} full steps in the report, want {least}")
    return steps


def check_same_steps(got, want):
    for number, names in enumerate(got):
        place = next((i for i, pair in enumerate(zip(names, want)) if pair[0] != pair[1]), min(len(names), len(want)))
        check(names == want, f"full step {number}: {len(names)} operators, want {len(want)}; first difference at "
              f"{place}: got {names[place:place + 4]}, want {want[place:place + 4]}")


def check_attached_steps(context):
    job = context.trained("loop")
    tracer = context.attach(job, "--steps", "5").check_code(COMPLETE)
    say(tracer)
    check_same_steps(full_steps(context.report(), 3), steady_step(context))
    job.check_alive()


@test
def test_attach_in_the_middle_gives_the_operators_of_each_full_step(context):
    check_attached_steps(context)


@test(root="cuda", device="cuda", timeout=240)
def test_attach_in_the_middle_of_a_job_on_a_device_gives_its_operators(context):
    check_attached_steps(context)


@test(root="latest", timeout=240)
def test_attach_in_the_middle_of_the_latest_version_gives_its_operators(context):
    check_attached_steps(context)


@test
def test_attach_in_the_middle_with_adamw_misses_no_operator(context):
    """Counters made before the attach cannot be told from other blocks, so there may be more operators, not fewer."""
    job = context.trained("loop", "--optimizer", "adamw")
    context.attach(job, "--steps", "5").check_code(COMPLETE)
    want = steady_step(context, "--optimizer", "adamw")
    for number, names in enumerate(full_steps(context.report(), 3)):
        check(is_subsequence(want, names), f"full step {number} lacks operators: {len(names)}, want {len(want)}")


@test
def test_attach_invents_no_block(context):
    job = context.trained("loop")
    context.attach(job, "--steps", "5").check_code(COMPLETE)
    folder = context.reference(program_path("loop"), "--steps", str(STEADY_STEPS), "--pause", "0")
    known = {(row["node_name"], row["size"]) for row in read_csv(folder, "0", "memory")}
    report = context.report()
    for row in report.rows:
        if row["type"] != "Workspace" and row["task_name"] != "initialization":
            check((row["node_name"], row["size"]) in known, "no such block in the job:", row["node_name"], row["size"])
    invariants.check_report(report)
    invariants.check_schema(report)


@test
def test_steps_option_ends_the_trace_after_so_many_steps(context):
    job = context.trained("loop", "--pause", "0.2")
    context.attach(job, "--steps", "3").check_code(COMPLETE)
    steps = {int(task["step"]) for task in context.report().tasks}
    check(3 <= len(steps) <= 5, "steps in the report:", sorted(steps))
    job.check_alive()


@test
def test_duration_option_ends_the_trace_after_so_many_seconds(context):
    job = context.trained("loop")
    start = time.monotonic()
    context.attach(job, "-d", "2").check_code(COMPLETE)
    seconds = time.monotonic() - start
    check(2 <= seconds <= 12, f"-d 2 took {seconds:.1f} s")
    check(context.report().tasks, "no task in the report")
    job.check_alive()


@test
def test_library_that_is_loaded_after_the_attach_is_traced(context):
    job = context.program("loop", "--late", "3", "--steps", "5")
    time.sleep(0.5)
    context.attach(job).check_code(COMPLETE)
    job.check_code(0)
    check_same_steps(split_steps(context.report().tasks)[1:5], steady_step(context))


@test
def test_run_follows_exec_of_a_shell(context):
    out = context.path("out")
    context.run(context.hdtrace, "run", "-o", out, "--", "/bin/sh", "-c",
                f"exec /usr/bin/python3 {program_path('loop')} --steps 3 --pause 0").check_code(COMPLETE)
    folder = context.reference(program_path("loop"), "--steps", "3", "--pause", "0")
    check_same_steps(split_steps(context.report().tasks)[1:3], split_steps(read_csv(folder, "0", "tasks"))[1])


@test
def test_run_gives_each_program_of_a_shell_a_rank(context):
    """The shell itself has none; programs one after the other and beside each other have."""
    job = f"{PYTHON} {program_path('loop')} --steps 3 --pause 0"
    context.run(context.hdtrace, "run", "-o", context.path("out"), "--", "/bin/bash", "-c",
                f"{job}; {job} & {job} & wait").check_code(COMPLETE)
    check_equal(sorted(os.listdir(context.path("out"))),
                ["capture.hdt", "job.json", "rank_0", "rank_1", "rank_2", "report.html", "steps.csv"], "the output folder")
    want = [task["node_name"] for task in context.report(rank=0).tasks]
    for rank in (1, 2):
        check_equal([task["node_name"] for task in context.report(rank=rank).tasks], want, f"operators of rank {rank}")


@test
def test_run_survives_programs_that_end_at_once(context):
    script = "for i in $(seq 200); do /bin/true & done; wait; exit 9"
    traced = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", "/bin/bash", "-c", script)
    check_equal(traced.code, 9, f"exit code of {traced}")


@test
def test_forked_children_are_no_ranks_and_a_limitation(context):
    report = context.trace_run(program_path("forking"))
    check_equal(sorted(os.listdir(report.folder)), ["capture.hdt", "rank_0", "report.html"], "the output folder")
    check(any(line.startswith("3 children") for line in report.json["limitations"]),
          "no line about the children:", report.json["limitations"])


@test
def test_job_in_namespaces_of_its_own_is_traced(context):
    parent = context.start("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", PYTHON,
                           program_path("loop"))
    context.wait_steps(parent, 2)
    with open(f"/proc/{parent.pid}/task/{parent.pid}/children", encoding="utf-8") as children:
        pid = children.read().split()[0]
    context.run(context.hdtrace, "-p", pid, "--steps", "3", "-o", context.path("out")).check_code(COMPLETE)
    check(any(row["file_name"].endswith("loop.py") for row in context.report().rows), "no line of the job")
    parent.check_alive()


@test
def test_job_in_another_root_is_traced(context):
    """Its libraries are at other paths outside: the mapped files themselves are read."""
    root = context.path("root")
    folders = [name for name in ("usr", "etc", "proc", "dev") if os.path.isdir("/" + name)]
    for name in folders + ["job"]:
        os.makedirs(os.path.join(root, name))
    for name in ("lib", "lib64", "bin"):
        os.symlink(f"usr/{name}", os.path.join(root, name))
    shutil.copy(program_path("loop"), os.path.join(root, "job"))
    mounts = "; ".join(f"mount --rbind /{name} {root}/{name}" for name in folders)
    job = context.start("unshare", "--mount", "/bin/sh", "-c", f"{mounts}; exec chroot {root} {PYTHON} /job/loop.py")
    context.wait_steps(job, 2)
    context.attach(job, "--steps", "3").check_code(COMPLETE)
    check(any(row["file_name"] == "/job/loop.py" for row in context.report().rows), "no line of the job")
    job.check_alive()


@test
def test_libraries_that_were_replaced_on_disk_are_traced(context):
    """As after an upgrade of the package, while the job still has the old ones mapped."""
    libraries = context.path("libraries")
    os.makedirs(libraries)
    library = os.path.join(libraries, "libc10.so.1.13")
    shutil.copy("/usr/lib/x86_64-linux-gnu/libc10.so.1.13", library)
    job = context.start(PYTHON, program_path("loop"), environment={"LD_LIBRARY_PATH": libraries})
    context.wait_steps(job, 2)
    os.unlink(library)
    with open(library, "w", encoding="utf-8") as other:
        other.write("no library")
    context.attach(job, "--steps", "3").check_code(COMPLETE)
    paths = [entry["path"] for entry in context.report().live["target"]["libraries"]]
    check(f"{library} (deleted)" in paths, "libraries:", paths)
    check(context.report().rows, "no block in the report")
    job.check_alive()


@test
def test_several_pids_give_a_rank_each_in_order_of_pid(context):
    jobs = sorted([context.trained("loop"), context.trained("loop", "--optimizer", "adamw")], key=lambda job: job.pid)
    pids = ",".join(str(job.pid) for job in [jobs[1], jobs[0], jobs[1]])  # one twice
    context.start(context.hdtrace, "-p", pids, "-o", context.path("out"), "--steps", "4").check_code(COMPLETE)
    check_equal(sorted(os.listdir(context.path("out"))),
                ["capture.hdt", "job.json", "rank_0", "rank_1", "report.html", "steps.csv"], "the output folder")
    for rank, job in enumerate(jobs):
        names = {task["node_name"] for task in context.report(rank=rank).tasks}
        check(names, f"no task of rank {rank}")
        check_equal("aten.addcdiv_.default" in names, "adamw" in job.argv, f"operators of AdamW in rank {rank}")
        job.check_alive()


@test(timeout=150)
def test_ten_cycles_of_attach_and_detach_leave_the_job_as_it_was(context):
    job = context.trained("loop", "--pause", "0.005")
    want = steady_step(context)
    for cycle in range(10):
        out = f"out-{cycle}"
        context.attach(job, "--steps", "3", out=out).check_code(COMPLETE)
        check_same_steps(full_steps(context.report(out), 1), want)
        job.check_alive()
    context.wait_steps(job, 5)


@test
def test_two_tracers_on_one_job_both_see_everything(context):
    job = context.trained("loop")
    tracers = [context.attach(job, "--steps", "6", out=f"out-{number}") for number in range(2)]
    for number, tracer in enumerate(tracers):
        tracer.check_code(COMPLETE)
        check_same_steps(full_steps(context.report(f"out-{number}"), 3), steady_step(context))
    job.check_alive()


@test
def test_output_and_exit_code_are_those_of_an_untraced_run(context):
    arguments = (program_path("loop"), "--steps", "20", "--pause", "0", "--status", "7")
    plain = context.run("/usr/bin/python3", *arguments)
    traced = context.run(context.hdtrace, "run", "-q", "-o", context.path("out"), "--", "/usr/bin/python3", *arguments)
    check_equal((plain.code, traced.code), (7, 7), "exit codes untraced, traced")
    check(traced.out == plain.out, f"output differs: {plain} {traced}")


AHEAD = r"^hdtrace: (\S+): PyTorch is looked at before it is loaded$"


def looked_at(context, *command):
    """Folders of the PyTorch that a command was expected to load, and the messages of its trace."""
    process = context.run(context.hdtrace, "run", "--verbose", "-o", context.path("out"), "--", *command,
                          environment={"PATH": os.path.dirname(PYTHON) + ":/bin"})
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    check(context.report().tasks, "nothing was traced")
    return re.findall(AHEAD, process.err, re.MULTILINE), process.err


@test
def test_pytorch_of_a_command_is_looked_at_before_it_starts(context):
    loaded = os.path.join(os.path.dirname(importlib.util.find_spec("torch").origin), "lib")
    script = context.path("script")
    with open(script, "w", encoding="utf-8") as out:
        out.write(f"#!/usr/bin/env -S {PYTHON}\nimport torch\ntorch.ones(1000)\n")
    os.chmod(script, 0o755)
    for command in ([PYTHON, script], [script], ["/bin/sh", "-c", f"{PYTHON} {script}"]):
        folders, _ = looked_at(context, *command)
        check(loaded in folders, f"{command} loads {loaded}, looked at: {folders}")


@test
def test_wrong_guess_at_pytorch_costs_nothing(context):
    """What lies where that Python would have its packages is no PyTorch; it loads another one, which is traced as always."""
    folder = context.path("prefix", "lib", "python3.11", "site-packages", "torch", "lib")
    os.makedirs(folder)
    os.makedirs(context.path("prefix", "bin"))
    os.symlink(PYTHON, context.path("prefix", "bin", "python3"))
    torch = os.path.join(os.path.dirname(importlib.util.find_spec("torch").origin), "lib")
    shutil.copy(os.path.join(torch, "libc10.so"), os.path.join(folder, "libc10.so"))
    shutil.copy(os.path.join(torch, "libc10.so"), os.path.join(folder, "libtorch_cpu.so"))
    with open(os.path.join(folder, "libtorch_python.so"), "wb") as out:
        out.write(os.urandom(5000))
    folders, messages = looked_at(context, context.path("prefix", "bin", "python3"), "-c", "import torch; torch.ones(1000)")
    check(folder in folders and torch in folders, f"looked at: {folders}")
    complaints = [line for line in messages.splitlines() if folder in line and not re.match(AHEAD, line)]
    check(not complaints, "of libraries that nobody loaded:", complaints)
