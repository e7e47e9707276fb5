"""Python stacks, in each interpreter there is, against what the program itself says.

HDTRACE_TEST_PYTHONS names further interpreters than Debian's, separated by spaces.
"""
import json
import os

from harness import COMPLETE, PROGRAMS, PYTHON, check, check_equal, find_capture, program_path, test, wait_until

INTERPRETERS = [PYTHON, *os.environ.get("HDTRACE_TEST_PYTHONS", "").split()]
FRAMES_MAX = 64  # of a record
LEAST_STACKS = 200


def libraries(context):
    """The folder with the allocator that frames.py loads."""
    folder = context.path("job")
    os.mkdir(folder)
    for name in ("libc10.so", "libtorch_cpu.so"):
        compiler = context.run("gcc", "-shared", "-nostdlib", "-o", os.path.join(folder, name),
                               os.path.join(PROGRAMS, "frames.c"))
        check(compiler.code == 0, f"not compiled: {compiler}")
    return folder


def stack_of(row):
    """[file, line, function] of each frame of a row, outermost first."""
    frames = [dict(part.split(":", 1) for part in frame.split(";")) for frame in row["python_stack"].split("|")]
    return [[frame["File"], int(frame["Line"]), frame["Function"]] for frame in frames]


def check_stacks(report, folder):
    with open(os.path.join(folder, "stacks.json"), encoding="utf-8") as source:
        wanted = {int(size): stack for size, stack in json.load(source).items()}
    got = {int(row["size"]): stack_of(row) for row in report.rows}
    check(got.keys() == wanted.keys(), f"{len(wanted.keys() - got.keys())} blocks are missing, "
          f"{len(got.keys() - wanted.keys())} unknown of {len(wanted)}")
    check(len(wanted) >= LEAST_STACKS, f"{len(wanted)} stacks, want {LEAST_STACKS}")
    for size, stack in wanted.items():
        check_equal(got[size], stack[-FRAMES_MAX:], f"the stack of block {size}")
    check_equal(report.event_counts()[2], 0, "lost")


@test(each=INTERPRETERS)
def test_stacks_of_a_program_traced_from_its_start_are_those_it_sees(context, python):
    folder = libraries(context)
    tracer = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", python, program_path("frames"), folder)
    tracer.check_code(COMPLETE)
    check_stacks(context.report(), folder)


@test(each=INTERPRETERS)
def test_stacks_of_a_program_that_runs_already_are_those_it_sees(context, python):
    folder = libraries(context)
    job = context.start(python, program_path("frames"), folder, "--wait")
    wait_until(lambda: "ready" in job.out, f"{job} to be ready")
    tracer = context.attach(job)
    wait_until(lambda: find_capture(context.path("out")), f"a capture of {tracer}")
    open(os.path.join(folder, "go"), "w", encoding="utf-8").close()
    job.check_code(0)
    tracer.check_code(COMPLETE)
    check_stacks(context.report(), folder)
