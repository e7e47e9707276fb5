#!/usr/bin/python3
"""How many records a second each store takes, how large they are there, and how long the questions of a fleet take.

The records of so many ranks over so many hours (fleet_bench.c) go into SQLite and into Debian's ClickHouse. Exit code 1: a
query does not find the rank that leaks, differs or ran out of memory, or the stores do not say the same.
"""
import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
from clickhouse import Server  # noqa: E402

SINCE = "since=2026-09-01"
QUESTIONS = {
    "headroom": [SINCE], "waste": [SINCE], "peak-over-time": [SINCE, "hours=1", "model=Model3"],
    "regression-time": ["before_since=1790000000", "before_until=1790003600", "after_since=1790003600", "after_until=1800000000",
                        "percent=0"],
    "imbalance": [SINCE], "growth": [SINCE, "bytes=32M"], "leaks": [SINCE], "oom": [SINCE], "capacity": [SINCE, "device=40G"],
    "runs": [SINCE],
}
OF_ONE_JOB = ("headroom", "waste", "growth", "oom")


def ask(options, url, name, parameters):
    """(seconds, rows)"""
    begin = time.monotonic()
    done = subprocess.run([options.hdtrace, "audit", name, *parameters, "until=2027-01-01", "--store", url, "--format", "json"]
                          if name != "regression-time" else
                          [options.hdtrace, "audit", name, *parameters, "--store", url, "--format", "json"],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    return time.monotonic() - begin, json.loads(done.stdout)["rows"]


def check_found(rows):
    """The three jobs that are not as they should be."""
    harness.check_equal({row["job"] for row in rows["growth"]}, {"job0"}, "jobs that leak")
    harness.check_equal([(row["job"], row["highest_rank"]) for row in rows["imbalance"]], [("job1", 5)], "jobs that differ")
    harness.check_equal([(row["job"], row["rank"]) for row in rows["oom"]], [("job2", 3)], "jobs that ran out of memory")


def fill(options, url, spool):
    done = subprocess.run([options.bench, url, spool, str(options.ranks), str(options.hours)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def sizes_sqlite(path):
    """{table: (rows, bytes)}"""
    database = sqlite3.connect(path)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    found = {name: size for name, size in database.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name")}
    return {name: (database.execute(f"SELECT count(*) FROM {name}").fetchone()[0], found[name])
            for name in ("period", "step", "holder", "block")}


def sizes_clickhouse(server):
    for name in ("period", "step", "holder", "block"):
        server.query(f"OPTIMIZE TABLE {name} FINAL", "fleet")
    lines = server.query("SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'fleet' "
                         "GROUP BY table").splitlines()
    return {name: (int(rows), int(size)) for name, rows, size in (line.split("\t") for line in lines)
            if name in ("period", "step", "holder", "block")}


def show(options, title, filled, sizes, times):
    days = options.ranks * options.hours / 24
    total = sum(size for _, size in sizes.values())
    print(f"{title}: {filled['records']} records, {filled['records'] / filled['send_seconds']:.0f} a second into the store, "
          f"{filled['records'] / filled['write_seconds']:.0f} a second into the spool")
    print(f"  {total / 1e6:.0f} MB, {total / days / 1e3:.0f} kB a rank and day: "
          + ", ".join(f"{name} {size / rows:.0f} B" for name, (rows, size) in sizes.items()))
    print("  " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in times.items()))


def measure(options, title, url, sizes):
    filled = fill(options, url, os.path.join(options.work, "spool-" + title))
    sized, times, rows = sizes(), {}, {}
    for name, parameters in QUESTIONS.items():
        times[name], rows[name] = ask(options, url, name, parameters)
    for name in OF_ONE_JOB:
        if name != "waste":
            times[name + " of one job"], _ = ask(options, url, name, [*QUESTIONS[name], "job=job7"])
    show(options, title, filled, sized, times)
    check_found(rows)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hdtrace", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--ranks", type=int, default=10000)
    parser.add_argument("--hours", type=int, default=6)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.hdtrace, options.bench = os.path.abspath(options.hdtrace), os.path.abspath(options.bench)
    options.work = os.path.abspath(os.path.join(options.work, "fleet"))
    shutil.rmtree(options.work, ignore_errors=True)
    os.makedirs(options.work)
    context = harness.Context("fleet", options.work, options.hdtrace, options.work)
    try:
        path = os.path.join(options.work, "audit.db")
        rows = measure(options, "SQLite", path, lambda: sizes_sqlite(path))
        server = Server(context)
        other = measure(options, "ClickHouse", server.url(), lambda: sizes_clickhouse(server))
        for name, wanted in rows.items():
            harness.check_equal(other[name] == wanted, True, f"both stores say the same to {name}")
    except harness.Skipped as reason:
        print("skipped  ClickHouse:", reason)
    except harness.Failure as failure:
        print("failed:", failure)
        return 1
    finally:
        context.finish()
        if not options.keep:
            shutil.rmtree(options.work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
