#!/usr/bin/python3
"""How large the page of a million blocks is, and how long it takes to write and to show.

    page.py --hdtrace PATH --bench PATH --work DIR [--records N]

A capture of irregular times, sizes and addresses is made by report_bench. Exit code 1: more than the project promises.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "e2e"))
import browser  # noqa: E402

RECORDS = 3_500_000  # a million blocks
MEGABYTES_MAX, WRITE_SECONDS_MAX, SHOW_SECONDS_MAX = 60, 20, 5


def write(options):
    """Seconds to make the page of a capture, and its size in MB."""
    capture = os.path.join(options.work, "capture.hdt")
    start = time.monotonic()
    subprocess.run([options.hdtrace, "report", "-q", "--format", "html", "-o", options.work, capture], check=True)
    return time.monotonic() - start, os.path.getsize(os.path.join(options.work, "report.html")) / 1e6


def show(path):
    """(blocks, seconds from the call to the first whole picture, milliseconds of a whole picture, of a hundredth of it)."""
    with browser.Browser() as page:
        start = time.monotonic()
        page.open(path)
        page.wait("document.documentElement.dataset.ready || document.documentElement.dataset.failed", "the page", 120)
        seconds = time.monotonic() - start
        frames = page.run("return [1, 100].map(part => { const last = view.timeline.range('time')[1]; viewRange(0, last / part);"
                          "const start = performance.now(); sumChart(); drawChart(); fillBlocks(); drawBlocks();"
                          "return performance.now() - start; })")
        return page.run("return view.rank.count"), seconds, *frames


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hdtrace", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--records", type=int, default=RECORDS)
    options = parser.parse_args()
    reason = browser.why_no_browser()
    if reason:
        print(f"page: skipped, {reason}")
        return 0
    try:
        # That it takes longer than promised for fewer records is no failure here.
        subprocess.run([options.bench, options.hdtrace, options.work, str(options.records), "irregular"], check=True,
                       stdout=subprocess.DEVNULL)
        write_seconds, megabytes = write(options)
        blocks, show_seconds, whole, part = show(os.path.join(options.work, "report.html"))
    finally:
        shutil.rmtree(options.work, ignore_errors=True)
    print(f"page: {blocks} blocks, {megabytes:.1f} MB, written in {write_seconds:.1f} s, shown in {show_seconds:.1f} s; drawn again in "
          f"{whole:.0f} ms, a hundredth of it in {part:.0f} ms; promised for a million: {MEGABYTES_MAX} MB, {WRITE_SECONDS_MAX} s, "
          f"{SHOW_SECONDS_MAX} s")
    return int(megabytes > MEGABYTES_MAX or write_seconds > WRITE_SECONDS_MAX or show_seconds > SHOW_SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main())
