#!/usr/bin/python3
"""Run the end-to-end tests: real jobs under hdtrace, against the reference.

    run.py [-k PATTERN] [--list] [--jobs N] [--again N] [--tests DIR] [--hdtrace PATH] [--work DIR] [--keep]

Finds tests in *_test.py beside this file or in DIR and runs them, N at a time, each in a
process group and a folder of its own: those of this machine first, those of a
root when it is there, and those marked `alone` at last, one by one. Prints a
line a test, and at the end `N passed, N failed, N skipped`. Folders of failed
tests are kept.

With --again N, up to N tests that failed beside others are run once more, alone:
who passes then was disturbed, and is told at the end as unsteady, with what failed
at first. More failures than that are a fault, not a disturbance.
"""
import argparse
import fnmatch
import glob
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import harness  # noqa: E402

PASSED, FAILED, SKIPPED = 0, 1, 77
LOG_LINES = 60
SUMMARY_LINES = 8  # of each failed test, told again at the end
POLL_SECONDS = 0.02


def matches(test, patterns):
    """By name, by a glob of names, or by the file it stands in (attach_test)."""
    return not patterns or any(pattern in test.name or fnmatch.fnmatch(test.name, pattern) or pattern == test.file
                               for pattern in patterns)


def find_tests(folder, patterns):
    sys.path.insert(0, folder)
    for path in sorted(glob.glob(os.path.join(folder, "*_test.py"))):
        importlib.import_module(os.path.splitext(os.path.basename(path))[0])
    return [test for test in harness.REGISTERED if matches(test, patterns)]


def run_in_child(test, context, log):
    """The child's whole life: run one test, say in the log why it did not pass."""
    status = FAILED
    try:
        os.setpgid(0, 0)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        test.function(context)
        status = PASSED
    except harness.Skipped as reason:
        print(reason)
        status = SKIPPED
    except harness.Failure as failure:
        print(failure)
        place = traceback.extract_tb(failure.__traceback__)
        print("at " + " < ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in reversed(place)))
    except BaseException:
        traceback.print_exc()
    finally:
        context.finish()
        sys.stdout.flush()
        os._exit(status)


def folder_name(test):
    """Of several tests whose names differ in marks only, all but the first get a number."""
    names = [re.sub(r"[^\w.-]+", "_", other.name).strip("_") for other in harness.REGISTERED]
    place = harness.REGISTERED.index(test)
    earlier = names[:place].count(names[place])
    return names[place] + (f".{earlier + 1}" if earlier else "")


class Running:
    """A test on its way."""

    def __init__(self, test, root, options):
        self.test, self.options, self.start = test, options, time.monotonic()
        self.folder = os.path.join(options.work, folder_name(test))
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        context = harness.Context(test.name, self.folder, options.hdtrace, os.path.join(options.work, "reference"), root,
                                  test.device)
        self.log = os.path.join(self.folder, "test.log")
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            run_in_child(test, context, self.log)

    def over(self):
        """Did it end, or is its time over?"""
        return (os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
                or time.monotonic() > self.start + self.test.timeout)

    def finish(self):
        """(status, text to show); its process group is gone afterwards."""
        in_time = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with open(self.log, encoding="utf-8", errors="replace") as source:
            lines = source.read().splitlines()
        if not in_time:
            lines.append(f"not finished after {self.test.timeout} s")
            lines += processes_of(self.folder)
        if not in_time or status not in (PASSED, SKIPPED):
            status = FAILED
        if status in (PASSED, SKIPPED) and not self.options.keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            lines.append(f"kept: {self.folder}")
        return status, "\n".join(lines[-LOG_LINES:])


class Roots:
    """The roots that tests need, made one after the other while tests that need none run."""

    def __init__(self, names, work):
        self.names, self.work = names, work
        self.made = {}  # name: (path, exit code, last line)
        self.process = None

    def look(self):
        """To be called now and then: goes on with the next root when one is finished."""
        if self.process and self.process.poll() is not None:
            self.made[self.names.pop(0)] = (self.text("out"), self.process.returncode, self.text("err").split("\n")[-1])
            self.process = None
        if self.names and not self.process:
            with open(self.file("out"), "wb") as out, open(self.file("err"), "wb") as err:
                self.process = subprocess.Popen([harness.TEST_ROOT, self.names[0]], stdout=out, stderr=err)

    def file(self, suffix):
        return os.path.join(self.work, f"root-{self.names[0]}.{suffix}")

    def text(self, suffix):
        with open(self.file(suffix), encoding="utf-8", errors="replace") as source:
            return source.read().strip()

    def ready(self, test):
        return test.root is None or test.root in self.made

    def problem(self, test):
        """(status, reason) of a test whose root could not be made, else None."""
        if test.root is None:
            return None
        _, code, reason = self.made[test.root]
        if code == 0:
            return None
        return (SKIPPED if code == harness.CANNOT_MAKE_ROOT else FAILED), reason

    def path(self, test):
        return self.made[test.root][0] if test.root else None


class Tally:
    """What came out, as it is told."""

    def __init__(self):
        self.counts, self.failures = {PASSED: 0, FAILED: 0, SKIPPED: 0}, {}

    def add(self, test, status, text, seconds):
        self.counts[status] += 1
        word = {PASSED: "ok", FAILED: "FAILED", SKIPPED: "skipped"}[status]
        reason = f": {text}" if status == SKIPPED else ""
        print(f"{word:8}{test.name} ({seconds:.1f} s){reason}", flush=True)
        if status == FAILED:
            lines = ["    " + line for line in text.splitlines()]
            print("\n".join(lines), flush=True)
            self.failures[test] = lines[:SUMMARY_LINES]

    def take_back(self, test):
        """Forget that a test failed, as it is run again; what it said then."""
        self.counts[FAILED] -= 1
        return self.failures.pop(test)

    def close(self, unsteady):
        for word, tests in ("unsteady", unsteady), ("FAILED", self.failures):
            for test, lines in tests.items():
                print(f"\n{word}  {test.name}", *lines, sep="\n")
        skipped = f", {self.counts[SKIPPED]} skipped" if self.counts[SKIPPED] else ""
        if unsteady:
            print(f"\npassed only when run again, alone: {len(unsteady)}")
        print(f"{self.counts[PASSED]} passed, {self.counts[FAILED]} failed{skipped}")
        return 1 if self.counts[FAILED] else 0


def next_test(waiting, running, roots, jobs):
    """Take the test that may begin now, or None. One that is to be alone waits until nothing else is left."""
    if len(running) >= jobs or any(one.test.alone for one in running):
        return None
    for test in waiting:
        if roots.ready(test) and not (test.alone and (running or not waiting[0].alone)):
            waiting.remove(test)
            return test
    return None


def run_tests(tests, options):
    """Run all, in the order of the module's description."""
    no_bpf, tally, running = harness.why_no_bpf(), Tally(), []
    waiting = sorted(tests, key=lambda test: (test.alone, test.root is not None))
    roots = Roots(sorted({test.root for test in tests if test.root and not (test.needs_bpf and no_bpf)}), options.work)
    while waiting or running:
        roots.look()
        test = next_test(waiting, running, roots, options.jobs)
        if test is None:
            time.sleep(POLL_SECONDS)
        elif test.needs_bpf and no_bpf:
            tally.add(test, SKIPPED, no_bpf, 0)
        elif roots.problem(test):
            tally.add(test, *roots.problem(test), 0)
        else:
            running.append(Running(test, roots.path(test), options))
        for one in [one for one in running if one.over()]:
            running.remove(one)
            tally.add(one.test, *one.finish(), time.monotonic() - one.start)
    return tally.close(run_again(tally, roots, options))


def run_again(tally, roots, options):
    """Run the few tests that failed once more, alone; those that passed now, and how they failed before."""
    unsteady = {}
    if len(tally.failures) > options.again:
        return unsteady
    for test in list(tally.failures):
        if roots.problem(test):
            continue
        lines, folder = tally.take_back(test), os.path.join(options.work, folder_name(test))
        shutil.rmtree(folder + ".first", ignore_errors=True)
        os.rename(folder, folder + ".first")
        one = Running(test, roots.path(test), options)
        while not one.over():
            time.sleep(POLL_SECONDS)
        tally.add(test, *one.finish(), time.monotonic() - one.start)
        if test not in tally.failures:
            unsteady[test] = [line.replace(folder, folder + ".first") for line in lines]
    return unsteady


def processes_of(folder):
    """The last lines that the processes of a test wrote."""
    lines = []
    for path in sorted(glob.glob(os.path.join(folder, "*.out")) + glob.glob(os.path.join(folder, "*.err"))):
        with open(path, encoding="utf-8", errors="replace") as source:
            lines += [f"{os.path.basename(path)}: {line}" for line in source.read().splitlines()[-5:]]
    return lines


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-k", "--match", action="append", metavar="PATTERN",
                        help="only tests whose name has this in it or matches it as a glob, or of that file (attach_test); "
                             "may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of the tests")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many tests run at a time (1)")
    parser.add_argument("--again", type=int, default=0, metavar="N",
                        help="run those that failed once more, alone, if they are no more than N (0)")
    parser.add_argument("--tests", default=HERE, metavar="DIR", help="where the tests are")
    parser.add_argument("--hdtrace", default=os.path.join(harness.TOP, "build", "hdtrace"), metavar="PATH")
    parser.add_argument("--work", default=os.path.join(harness.TOP, "build", "e2e"), metavar="DIR",
                        help="where the tests' folders are made")
    parser.add_argument("--keep", action="store_true", help="keep the folders of tests that passed")
    options = parser.parse_args()
    options.hdtrace, options.work = os.path.abspath(options.hdtrace), os.path.abspath(options.work)
    return options


def main():
    options = parse_arguments()
    tests = find_tests(os.path.abspath(options.tests), options.match)
    if options.list:
        print("\n".join(test.name for test in tests))
        return 0
    if not tests:
        print("no test has such a name; see --list", file=sys.stderr)
        return 2
    if not os.access(options.hdtrace, os.X_OK):
        print(f"there is no program {options.hdtrace}; run make first, or give --hdtrace PATH", file=sys.stderr)
        return 2
    shutil.rmtree(os.path.join(options.work, "reference"), ignore_errors=True)
    os.makedirs(os.path.join(options.work, "reference"))
    return run_tests(tests, options)


if __name__ == "__main__":
    sys.exit(main())
