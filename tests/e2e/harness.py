"""What the end-to-end tests are written with.

A test is a function marked with @test; it gets a Context: a folder of its own,
the program under test, and ways to start processes that are ended with the
test. `check` fails a test with a message, `skip` says why it cannot run here.

A test with a root (@test(root="cuda")) runs its jobs in that root, of which
scripts/test-root tells more: program, trained, trace_run, traced, reference and
command do so by themselves. Paths are the same inside and outside. With
device="cuda" the jobs get JOB_DEVICE, and the reference follows that device.
"""
import contextlib
import ctypes
import csv
import errno
import fcntl
import functools
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = os.path.join(os.path.dirname(HERE), "jobs")  # targets of behaviour tests
JOBS = os.path.join(HERE, "jobs")                       # jobs of accuracy tests
SCHEMA = os.path.join(TOP, "docs", "report.schema.json")
TEST_ROOT = os.path.join(TOP, "scripts", "test-root")
PYTHON = "/usr/bin/python3"

TIMEOUT_SECONDS = 60
POLL_SECONDS = 0.05
OUTPUT_LINES = 12

# Exit codes of hdtrace.
COMPLETE, FAILED, USAGE, LOST = 0, 1, 2, 3
CANNOT_MAKE_ROOT = 77  # of scripts/test-root


class Failure(Exception):
    """A test failed; the text says what was wanted and what was there."""


class Skipped(Exception):
    """A test cannot run here; the text says why."""


def check(condition, *message):
    if not condition:
        raise Failure(" ".join(str(part) for part in message))


def check_equal(got, want, what):
    check(got == want, f"{what}: want {want!r}, got {got!r}")


def skip(reason):
    raise Skipped(reason)


# --- registry ---------------------------------------------------------------------

class Test:
    def __init__(self, name, function, timeout, needs_bpf, root, device, alone):
        self.name, self.function, self.timeout, self.needs_bpf = name, function, timeout, needs_bpf
        self.root, self.device, self.alone, self.file = root, device, alone, function.__module__


REGISTERED = []


def test(function=None, *, timeout=TIMEOUT_SECONDS, needs_bpf=True, each=None, root=None, device="cpu",
         alone=False):
    """Mark a test.

    With `each`, a list of values, one test a value: function(context, value). `root` and `device` say where its jobs
    run; without a root, on this machine itself. One that is `alone` has the machine for itself: it looks at all of
    its processes, or at how fast something is.
    """
    def register(function):
        if each is None:
            REGISTERED.append(Test(function.__name__, function, timeout, needs_bpf, root, device, alone))
        for value in each or ():
            @functools.wraps(function)
            def bound(context, value=value):
                function(context, value)
            REGISTERED.append(Test(f"{function.__name__}[{value}]", bound, timeout, needs_bpf, root, device, alone))
        return function
    return register(function) if function else register


def root_path(name):
    """Of a root that a test needs beside its own: made, if it is not there; without it the test is skipped."""
    made = subprocess.run([TEST_ROOT, name], capture_output=True, text=True, check=False)
    if made.returncode:
        skip(made.stderr.strip().rpartition("\n")[2])
    return made.stdout.strip()


def why_no_bpf():
    """None when BPF can be used here, else the reason."""
    if os.geteuid() != 0:
        return "not root"
    if os.uname().machine != "x86_64":
        return f"unknown number of the bpf call on {os.uname().machine}"
    bpf_call, map_create, attributes_size = 321, 0, 72
    attributes = (ctypes.c_uint32 * (attributes_size // 4))(2, 4, 8, 1)  # an array of one 8-byte value
    libc = ctypes.CDLL(None, use_errno=True)
    map_ = libc.syscall(bpf_call, map_create, attributes, attributes_size)
    if map_ < 0:
        return f"the kernel refuses BPF: {errno.errorcode.get(ctypes.get_errno(), ctypes.get_errno())}"
    os.close(map_)
    return None


# --- processes --------------------------------------------------------------------

class Process:
    """A process started by a test, its output in two files."""

    def __init__(self, argv, stem, environment, folder):
        self.argv, self.stem = [str(part) for part in argv], stem
        with open(stem + ".out", "wb") as out, open(stem + ".err", "wb") as err:
            self.popen = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder,
                                          env={**os.environ, "PYTHONWARNINGS": "ignore", **(environment or {})})
        self.pid = self.popen.pid

    def _read(self, suffix):
        with open(self.stem + suffix, encoding="utf-8", errors="replace") as source:
            return source.read()

    @property
    def out(self):
        return self._read(".out")

    @property
    def err(self):
        return self._read(".err")

    @property
    def code(self):
        """Exit code, negative signal number, or None while it runs."""
        return self.popen.poll()

    def wait(self, timeout=TIMEOUT_SECONDS):
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failure(f"not finished after {timeout} s: {self}") from None

    def send(self, number):
        os.kill(self.pid, number)

    def stop(self):
        if self.code is None:
            self.popen.kill()
            self.popen.wait()

    def check_alive(self):
        check(self.code is None, f"ended with {self.code}: {self}")

    def check_code(self, *wanted):
        check(self.wait() in wanted, f"exit code {self.code}, want {' or '.join(map(str, wanted))}: {self}")
        return self

    def __str__(self):
        lines = ["$ " + " ".join(self.argv)]
        for name, text in (("stdout", self.out), ("stderr", self.err)):
            lines += [f"  {name}: {line}" for line in text.splitlines()[-OUTPUT_LINES:]]
        return "\n".join(lines)


def wait_until(condition, what, timeout=20):
    """Value of condition() as soon as it is true."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"not within {timeout} s: {what() if callable(what) else what}")
        time.sleep(POLL_SECONDS)


# --- reports ----------------------------------------------------------------------

class Report:
    """The output folder of one rank."""

    def __init__(self, folder, rank=0):
        self.folder, self.rank = folder, rank
        self.read = {}  # path: (identity of the file, its content)

    def path(self, suffix):
        return os.path.join(self.folder, f"rank_{self.rank}", f"rank_{self.rank}_{suffix}")

    def _content(self, path, parse):
        """What `parse` makes of a file; once, as long as nobody replaces it."""
        with open(path, newline="", encoding="utf-8") as source:
            status = os.fstat(source.fileno())
            identity = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self.read.get(path, (None,))[0] != identity:
                self.read[path] = identity, parse(source)
        return self.read[path][1]

    def _rows(self, kind):
        csv.field_size_limit(1 << 24)
        return self._content(self.path(kind + ".csv"), lambda source: list(csv.DictReader(source)))

    @property
    def tasks(self):
        return self._rows("tasks")

    @property
    def steps(self):
        """Rows of the steps; none where no step was completed."""
        return self._rows("steps") if os.path.exists(self.path("steps.csv")) else []

    @property
    def rows(self):
        return self._rows("memory")

    @property
    def json(self):
        return self._content(self.path("memory.json"), json.load)

    @property
    def live(self):
        return self.json["live"]

    def event_counts(self):
        """(produced, received, lost) of the `live` section."""
        events = self.live["events"]
        return events["produced"], events["received"], events["lost"]

    def exists(self):
        return all(os.path.exists(self.path(name)) for name in ("memory.csv", "tasks.csv", "memory.json"))

    def files(self):
        """Relative name -> bytes of every file but the capture."""
        found = {}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(folder, name)
                if not name.endswith(".hdt"):
                    with open(path, "rb") as source:
                        found[os.path.relpath(path, self.folder)] = source.read()
        return found


def find_capture(folder):
    """The capture in an output folder, finished or being written; None if there is none."""
    capture = os.path.join(folder, "capture.hdt")
    return capture if os.path.exists(capture) else None


def split_steps(tasks):
    """Operator names of each step; a step ends with the last operator of its optimizer phase.

    The first and the last list may be parts of a step. detach is left out: the
    reference's dispatch mode causes and hides some.
    """
    steps, before = [[]], None
    for task in tasks:
        if task["task_name"] == "initialization":
            continue
        if before == "optimizer" and task["task_name"] != "optimizer":
            steps.append([])
        before = task["task_name"]
        if not task["node_name"].startswith("aten.detach"):
            steps[-1].append(task["node_name"])
    return steps


def is_subsequence(part, whole):
    rest = iter(whole)
    return all(item in rest for item in part)


# --- a test's surroundings -----------------------------------------------------------

class Context:
    """One running test: its folder, the program, and what it started."""

    def __init__(self, name, folder, hdtrace, cache, root=None, device="cpu"):
        self.name, self.folder, self.hdtrace, self.cache = name, folder, hdtrace, cache
        self.root, self.device = root, device
        self.processes = []

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def command(self, *argv):
        """The arguments that run a command where the test's jobs run: in its root, if it has one."""
        if self.root is None:
            return list(argv)
        work = os.path.dirname(self.folder)
        return [TEST_ROOT, "enter", self.root, "--bind", work, *argv]

    def start(self, *argv, environment=None):
        environment = {"JOB_DEVICE": self.device, **(environment or {})}
        stem = self.path(f"{len(self.processes)}-{os.path.basename(str(argv[0]))}")
        process = Process(argv, stem, environment, self.folder)
        self.processes.append(process)
        return process

    def run(self, *argv, timeout=TIMEOUT_SECONDS, environment=None):
        process = self.start(*argv, environment=environment)
        process.wait(timeout)
        return process

    def program(self, name, *arguments, environment=None):
        """Start tests/jobs/NAME.py."""
        return self.start(*self.command(PYTHON, os.path.join(PROGRAMS, name + ".py"), *arguments),
                          environment=environment)

    def trained(self, name, *arguments, steps=2):
        """Start tests/jobs/NAME.py and wait until it has done some steps."""
        job = self.program(name, *arguments)
        self.wait_steps(job, steps)
        return job

    def wait_steps(self, job, steps, timeout=30):
        """Wait until a job has printed that it did `steps` more steps than now."""
        before = job.out.count("step ")

        def progressed():
            check(job.code is None, f"the job ended early with {job.code}: {job}")
            return job.out.count("step ") >= before + steps
        wait_until(progressed, lambda: f"{steps} steps of {job}", timeout)

    def attach(self, job, *options, out="out"):
        """Start hdtrace on a running job."""
        return self.start(self.hdtrace, "-p", job.pid, "-o", self.path(out), *options)

    def attached(self, job, *options, out="out", job_steps=3):
        """Start hdtrace on a running job and wait until it records."""
        tracer = self.attach(job, *options, out=out)

        def recording():
            tracer.check_alive()
            return find_capture(self.path(out))
        wait_until(recording, lambda: f"a capture of {tracer}")
        self.wait_steps(job, job_steps)
        time.sleep(1)  # probes are in place and some chunks are written
        tracer.check_alive()
        return tracer

    def interrupted_run(self, said, *command, out="out"):
        """hdtrace run on a command, interrupted a second after the command has said something; the command goes on."""
        tracer = self.start(self.hdtrace, "run", "-o", self.path(out), "--", *command)
        wait_until(lambda: said in tracer.out, lambda: f"{said!r} of {tracer}", timeout=90)
        time.sleep(1)  # what it does next is seen
        tracer.send(signal.SIGINT)
        return tracer

    def trace_run(self, script, *arguments, options=(), out="out", timeout=TIMEOUT_SECONDS):
        """hdtrace run on a script, to its end; checks the exit code and gives the report."""
        process = self.run(self.hdtrace, "run", "-o", self.path(out), *options, "--",
                           *self.command(PYTHON, script, *arguments), timeout=timeout)
        check(process.code == COMPLETE, f"exit code {process.code}: {process}")
        report = self.report(out)
        check(report.exists(), f"the report is not complete in {self.path(out)}: {process}")
        return report

    def traced(self, script):
        """Report of `hdtrace run` on a script; made once for all tests of a run."""
        with self.shared("traced", os.path.basename(script)) as folder:
            if not os.path.exists(folder):
                self.trace_run(script)
                os.rename(self.path("out"), folder)
        return Report(folder)

    @contextlib.contextmanager
    def shared(self, *parts):
        """Where a result that several tests use is kept, apart for each root and device; nobody else makes it meanwhile."""
        where = os.path.basename(self.root) if self.root else "here"
        folder = os.path.join(self.cache, "-".join([where, self.device, *parts]).replace("/", "_"))
        with open(folder + ".lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder

    def report(self, out="out", rank=0):
        return Report(self.path(out), rank)

    def reference(self, script, *arguments):
        """Folder of the reference's report of a script; made once for all tests of a run."""
        with self.shared("reference", os.path.basename(script), *arguments) as folder:
            if not os.path.exists(folder):
                process = self.run(*self.command(PYTHON, os.path.join(HERE, "reference.py"), "--device", self.device,
                                                 "-o", folder + ".part", script, *arguments))
                check(process.code == 0, f"the reference failed: {process}")
                os.rename(folder + ".part", folder)
        return folder

    def finish(self):
        for process in reversed(self.processes):
            process.stop()


def program_path(name):
    return os.path.join(PROGRAMS, name + ".py")


def kill(process, number=signal.SIGKILL):
    process.send(number)


def say(*parts):
    """Something to show when the test fails."""
    print(*parts)
    sys.stdout.flush()
