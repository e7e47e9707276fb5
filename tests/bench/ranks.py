"""What hdtrace itself needs for many ranks: 64 processes that call a library of collectives at a steady rate.

    ranks.py [--hdtrace PATH] [--work DIR] [--ranks N] [--calls N]

Prints how many calls a second were seen, how many events were lost, and the most memory that hdtrace had until the reports were written.
"""
import argparse
import csv
import glob
import os
import shutil
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOBS = os.path.join(TOP, "tests", "jobs")
PAUSE_MICROSECONDS = 2000
POLL_SECONDS = 0.05


def build(work):
    """A library with two functions, and the program whose ranks call them."""
    names = os.path.join(work, "names.h")
    with open(names, "w", encoding="ascii") as out:
        out.write("LIBRARY(ncclCommInitRank)\nLIBRARY(ncclAllReduce)\n")
    library, program = os.path.join(work, "libnccl.so.2"), os.path.join(work, "program")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", f"-DNAMES=\"{names}\"", "-DCOMMUNICATOR=0x700000001000", "-DMAKE=ncclCommInitRank",
                    "-DRESULT=0", "-o", library, os.path.join(JOBS, "library_stub.c")], check=True)
    subprocess.run(["gcc", "-O2", "-o", program, os.path.join(JOBS, "library_rate.c")], check=True)
    return program, library


def peak_of(pid, before):
    """Highest resident bytes of a process so far; what was known before, when it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) << 10
    except (FileNotFoundError, ProcessLookupError):
        pass
    return before


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--hdtrace", default=os.path.join(TOP, "build", "hdtrace"))
    parser.add_argument("--work", default=os.path.join(TOP, "build", "bench"))
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--calls", type=int, default=1000)
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    os.makedirs(options.work)
    program, library = build(options.work)
    out = os.path.join(options.work, "out")
    tracer = subprocess.Popen([options.hdtrace, "run", "-q", "-o", out, "--", program, library, str(options.ranks), str(options.calls),
                               str(PAUSE_MICROSECONDS)])
    peak = 0
    while tracer.poll() is None:
        peak = peak_of(tracer.pid, peak)
        time.sleep(POLL_SECONDS)
    times = []
    for path in glob.glob(os.path.join(out, "rank_*", "rank_*_collectives.csv")):
        with open(path, newline="", encoding="utf-8") as source:
            times += [int(row["time_ns"]) for row in csv.DictReader(source)]
    seconds = (max(times) - min(times)) / 1e9 if times else 0
    print(f"{options.ranks} ranks: {len(times)} of {options.ranks * options.calls} calls seen, {len(times) / (seconds or 1):.0f} a second, "
          f"exit code {tracer.returncode}; hdtrace had {peak / 2**20:.0f} MiB at most")
    shutil.rmtree(options.work)
    return tracer.returncode


if __name__ == "__main__":
    sys.exit(main())
