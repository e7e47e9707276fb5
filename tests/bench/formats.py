#!/usr/bin/python3
"""How long each format of a million blocks takes to write, and how large it is.

    formats.py --hdtrace PATH --bench PATH --work DIR [--records N]

Exit code 1: one took longer than promised.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time

RECORDS = 3_500_000  # a million blocks
SECONDS_MAX = {"html": 20, "snapshot": 20, "perfetto": 20, "folded": 20, "sqlite": 40}


def write(options, kind):
    """Seconds to make one format of the capture, and megabytes that it has."""
    folder = os.path.join(options.work, kind)
    start = time.monotonic()
    subprocess.run([options.hdtrace, "report", "-q", "--format", kind, "-o", folder, options.work], check=True)
    seconds = time.monotonic() - start
    files = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    size = sum(map(os.path.getsize, files)) / 1e6
    shutil.rmtree(folder)
    return seconds, size


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hdtrace", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--records", type=int, default=RECORDS)
    options = parser.parse_args()
    late = []
    try:
        # That it takes longer than promised for fewer records is no failure here.
        subprocess.run([options.bench, "/bin/true", options.work, str(options.records), "irregular"], check=True,
                       stdout=subprocess.DEVNULL)
        for kind, promised in SECONDS_MAX.items():
            seconds, size = write(options, kind)
            print(f"{kind}: {size:.1f} MB, written in {seconds:.1f} s; promised for a million blocks: {promised} s")
            late += [kind] if seconds > promised else []
    finally:
        shutil.rmtree(options.work, ignore_errors=True)
    return int(bool(late))


if __name__ == "__main__":
    sys.exit(main())
