"""Python stacks, in each interpreter there is, against what the program itself says.

HDTRACE_TEST_PYTHONS names further interpreters, separated by spaces.
"""
import json
import os
import sys

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


def check_stacks(report, folder, least=LEAST_STACKS):
    with open(os.path.join(folder, "stacks.json"), encoding="utf-8") as source:
        wanted = {int(size): stack for size, stack in json.load(source).items()}
    got = {int(row["size"]): stack_of(row) for row in report.rows if int(row["size"]) in wanted}
    check(len(wanted) >= least, f"{len(wanted)} stacks, want {least}")
    check_equal(len(got), len(wanted), "blocks of the job")
    for size, stack in wanted.items():
        check_equal(got[size], stack[-FRAMES_MAX:], f"the stack of block {size}")
    check_equal(report.event_counts()[2], 0, "lost")


def check_from_start(context, python, *options, least=LEAST_STACKS):
    folder = libraries(context)
    tracer = context.run(context.hdtrace, "run", "-o", context.path("out"), "--",
                         *context.command(python, program_path("frames"), folder, *options))
    tracer.check_code(COMPLETE)
    check_stacks(context.report(), folder, least)
    check(not any("no Python stacks" in line for line in context.report().json["limitations"]), "a limit that is none")


def check_attached(context, python, *options):
    folder = libraries(context)
    job = context.start(*context.command(python, program_path("frames"), folder, "--wait", *options))
    wait_until(lambda: "ready" in job.out, lambda: f"{job} to be ready")
    tracer = context.attach(job)
    wait_until(lambda: find_capture(context.path("out")), lambda: f"a capture of {tracer}")
    open(os.path.join(folder, "go"), "w", encoding="utf-8").close()
    job.check_code(0)
    tracer.check_code(COMPLETE)
    check_stacks(context.report(), folder)


@test(each=INTERPRETERS)
def test_stacks_of_a_program_traced_from_its_start_are_those_it_sees(context, python):
    check_from_start(context, python)


@test(each=INTERPRETERS)
def test_stacks_of_a_program_that_runs_already_are_those_it_sees(context, python):
    check_attached(context, python)


@test
def test_stacks_of_a_program_that_is_gone_at_once_have_their_names(context):
    check_from_start(context, PYTHON, "--few", least=1)


def unknown_python(context):
    """A copy of this machine's interpreter that says of itself, where hdtrace looks, that it is one of the future."""
    with open(os.path.realpath(PYTHON), "rb") as source:
        program = source.read()
    version = sys.hexversion.to_bytes(8, "little")
    check_equal(program.count(version), 1, "places that Py_Version may be at")
    path = context.path("python3.99")
    with open(path, "wb") as out:
        out.write(program.replace(version, (0x036300F0).to_bytes(8, "little")))
    os.chmod(path, 0o755)
    return path


@test
def test_an_unknown_interpreter_is_refused_by_name_and_the_rest_remains(context):
    folder = libraries(context)
    tracer = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", unknown_python(context),
                         program_path("frames"), folder, environment={"PYTHONHOME": "/usr"})
    tracer.check_code(COMPLETE)
    check("CPython 3.99.0 is unknown" in tracer.err and "are left out" in tracer.err, tracer)
    report = context.report()
    check(len(report.rows) >= LEAST_STACKS, f"{len(report.rows)} blocks")
    check(not any(row["python_stack"] or row["file_name"] for row in report.rows), "a stack was invented")
    check(any("no Python stacks" in line for line in report.json["limitations"]), report.json["limitations"])


@test(root="python39")
def test_stacks_in_cpython_3_9_are_those_the_program_sees(context):
    check_attached(context, PYTHON)


@test(root="cuda", each=["from its start", "attached"])
def test_stacks_in_cpython_3_13_with_pytorch_are_those_the_program_sees(context, when):
    (check_from_start if when == "from its start" else check_attached)(context, PYTHON, "--torch")


@test(root="latest", each=["from its start", "attached"])
def test_stacks_in_the_latest_cpython_with_pytorch_are_those_the_program_sees(context, when):
    (check_from_start if when == "from its start" else check_attached)(context, PYTHON, "--torch")
