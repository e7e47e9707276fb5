#!/usr/bin/python3
"""Run the end-to-end tests: real jobs under hdtrace, against the reference.

    run.py [-k PATTERN] [--list] [--hdtrace PATH] [--work DIR] [--keep]

Finds tests in *_test.py beside this file, runs them one after the other, each
in a process group and a folder of its own, prints a line a test, and at the end
`N passed, N failed, N skipped`. Folders of failed tests are kept.
"""
import argparse
import fnmatch
import glob
import importlib
import os
import re
import shutil
import signal
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


def find_tests(patterns):
    for path in sorted(glob.glob(os.path.join(HERE, "*_test.py"))):
        importlib.import_module(os.path.splitext(os.path.basename(path))[0])
    return [test for test in harness.REGISTERED if matches(test, patterns)]


def run_in_child(test, context, log):
    """The child's whole life: run one test, say in the log why it did not pass."""
    os.setpgid(0, 0)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    status = FAILED
    try:
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


def wait_child(pid, timeout):
    """Exit status, or None when the time was over; the child's group is gone afterwards."""
    deadline, over = time.monotonic() + timeout, False
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            over = True
            break
        time.sleep(POLL_SECONDS)
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    _, status = os.waitpid(pid, 0)
    return None if over else os.waitstatus_to_exitcode(status)


def run_test(test, options, no_bpf):
    """(status, text to show) of one test."""
    if test.needs_bpf and no_bpf:
        return SKIPPED, no_bpf
    root = None
    if test.root:
        root, code, reason = harness.provide_root(test.root)
        if code != 0:
            return SKIPPED if code == harness.CANNOT_MAKE_ROOT else FAILED, reason
    folder = os.path.join(options.work, re.sub(r"[^\w.-]+", "_", test.name).strip("_"))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    context = harness.Context(test.name, folder, options.hdtrace, os.path.join(options.work, "reference"), root,
                              test.device)
    log = os.path.join(folder, "test.log")
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        run_in_child(test, context, log)
    status = wait_child(pid, test.timeout)
    with open(log, encoding="utf-8", errors="replace") as source:
        lines = source.read().splitlines()
    if status is None:
        lines.append(f"not finished after {test.timeout} s")
        lines += processes_of(folder)
    elif status not in (PASSED, SKIPPED):
        status = FAILED
    if status in (PASSED, SKIPPED) and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        lines.append(f"kept: {folder}")
    return FAILED if status is None else status, "\n".join(lines[-LOG_LINES:])


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
    parser.add_argument("--hdtrace", default=os.path.join(harness.TOP, "build", "hdtrace"), metavar="PATH")
    parser.add_argument("--work", default=os.path.join(harness.TOP, "build", "e2e"), metavar="DIR",
                        help="where the tests' folders are made")
    parser.add_argument("--keep", action="store_true", help="keep the folders of tests that passed")
    options = parser.parse_args()
    options.hdtrace, options.work = os.path.abspath(options.hdtrace), os.path.abspath(options.work)
    return options


def main():
    options = parse_arguments()
    tests = find_tests(options.match)
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
    no_bpf = harness.why_no_bpf()
    counts, failures = {PASSED: 0, FAILED: 0, SKIPPED: 0}, []
    for test in tests:
        start = time.monotonic()
        status, text = run_test(test, options, no_bpf)
        counts[status] += 1
        word = {PASSED: "ok", FAILED: "FAILED", SKIPPED: "skipped"}[status]
        reason = f": {text}" if status == SKIPPED else ""
        print(f"{word:8}{test.name} ({time.monotonic() - start:.1f} s){reason}", flush=True)
        if status == FAILED:
            lines = ["    " + line for line in text.splitlines()]
            print("\n".join(lines), flush=True)
            failures += [f"FAILED  {test.name}", *lines[:SUMMARY_LINES]]
    if failures:
        print("\n" + "\n".join(failures))
    skipped = f", {counts[SKIPPED]} skipped" if counts[SKIPPED] else ""
    print(f"{counts[PASSED]} passed, {counts[FAILED]} failed{skipped}")
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
