#!/usr/bin/python3
"""How much does a look at all objects of a running job disturb it? Step times during such looks and between them.

    walk.py [--hdtrace PATH] [--blocks N] [--seconds S] [--strict]

The job is a model of five modules a block, 1,000 in all, that trains without a pause. hdtrace is attached to it
with --verbose, by which it says when it looked at the objects and for how long; the job says when each step
ended, by the same clock. The ratio is that of a step all of which a look goes on: what steps with a look in them took
longer than the median of the others, over the time that looks were in them.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOB = os.path.join(TOP, "tests", "jobs", "owners.py")
BEFORE_SECONDS = 5
PROMISED_RATIO = 1.10  # of a step during a look to one between looks
PROMISED_SECONDS = 2.0  # that a look takes


def steps_of(text):
    """[(begin, end)] in seconds of CLOCK_MONOTONIC."""
    ends = [float(second) for second in re.findall(r"^step \d+ ([0-9.]+)$", text, re.M)]
    return list(zip(ends, ends[1:]))


def overlap(step, looks):
    return sum(max(0.0, min(step[1], end) - max(step[0], begin)) for begin, end in looks)


def median_ms(steps):
    return statistics.median(end - begin for begin, end in steps) * 1e3


def trace(options, folder):
    """Steps before the attach, traced steps, and looks."""
    with open(os.path.join(folder, "steps"), "w+", encoding="utf-8") as out:
        job = subprocess.Popen(["/usr/bin/python3", JOB, "--blocks", str(options.blocks), "--pause", "0"], stdout=out)
        try:
            while "step 3" not in open(out.name, encoding="utf-8").read():
                if job.poll() is not None:
                    sys.exit("the job ended")
                time.sleep(0.1)
            time.sleep(BEFORE_SECONDS)
            attached = time.monotonic()
            done = subprocess.run([options.hdtrace, "-p", str(job.pid), "--verbose", "-d", str(options.seconds), "-o",
                                   os.path.join(folder, "out")], capture_output=True, text=True)
        finally:
            job.kill()
            job.wait()
        steps = steps_of(open(out.name, encoding="utf-8").read())
    looks = [(float(at), float(at) + float(took) / 1e3) for at, took in
             re.findall(r"at ([0-9.]+) s: \d+ owners of storages read in ([0-9.]+) ms", done.stderr)]
    if done.returncode or not looks:
        sys.exit(f"hdtrace failed with {done.returncode}:\n{done.stderr}")
    # Attaching the probes and writing the report are no looks: what counts is from the first to the last of these.
    traced = [step for step in steps if looks[0][0] <= step[1] <= max(looks[-1][1], attached + options.seconds)]
    return [step for step in steps if step[1] < attached], traced, looks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--hdtrace", default=os.path.join(TOP, "build", "hdtrace"), metavar="PATH")
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--strict", action="store_true", help="exit 1 when it is more than is promised")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hdtrace-bench-") as folder:
        before, traced, looks = trace(options, folder)
    during = [step for step in traced if overlap(step, looks)]
    between = [step for step in traced if not overlap(step, looks)]
    longest = max(end - begin for begin, end in looks)
    if not during or not between:
        sys.exit(f"of {len(traced)} steps {len(during)} were during a look and {len(between)} between: trace for longer")
    looked = sum(overlap(step, looks) for step in during)
    longer = sum(end - begin for begin, end in during) - len(during) * median_ms(between) / 1e3
    ratio = looked / max(looked - longer, looked / 10)
    print(f"\nlooks at the objects of {5 * options.blocks} modules: {len(looks)}, the longest took {longest * 1e3:.0f} ms "
          f"(promised {PROMISED_SECONDS * 1e3:.0f})")
    print(f"  step before the attach {median_ms(before):.1f} ms, traced {median_ms(between):.1f} ms, "
          f"{len(during)} with {looked:.1f} s of looks in them {median_ms(during):.1f} ms: ratio {ratio:.3f} (promised {PROMISED_RATIO})")
    return 1 if options.strict and (ratio > PROMISED_RATIO or longest > PROMISED_SECONDS) else 0


if __name__ == "__main__":
    sys.exit(main())
