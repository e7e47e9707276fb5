"""The audit store and its queries, over SQLite and Debian's ClickHouse: what they say of real jobs, and that nothing is lost."""
import csv
import io
import json
import os
import random
import sqlite3
import threading
import time

from clickhouse import Disturber, Keeper, Server, free_ports
from harness import COMPLETE, FAILED, PYTHON, USAGE, Failure, Report, check, check_equal, program_path, test, wait_until
from segment_test import SETTINGS, lines_of

GIGABYTE = 1 << 30
KILLS = 5


def store(context, action, *arguments, wanted=(COMPLETE,), url, timeout=60):
    argv = ["init", url, *arguments] if action == "init" else [action, *arguments, "--store", url]
    process = context.run(context.hdtrace, "store", *argv, "--spool", context.path("spool"), timeout=timeout)
    check(process.code in wanted, f"exit code {process.code}, want {wanted}: {process}")
    return process


def audit(context, name, *parameters, url, wanted=COMPLETE):
    process = context.run(context.hdtrace, "audit", name, *parameters, "--store", url, "--format", "json")
    check_equal(process.code, wanted, f"exit code of {process}")
    return json.loads(process.out)["rows"] if wanted == COMPLETE else process


def audit_both(context, urls, name, *parameters):
    """The rows, which have to be the same in each store."""
    answers = [audit(context, name, *parameters, url=url) for url in urls]
    check_equal(answers[1], answers[0], f"what ClickHouse says to {name}, against SQLite")
    return answers[0]


def waiting(context):
    """Bytes in the spools."""
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(context.path("spool"))
               for name in names)


def traced(context, name, out, *arguments, environment=None):
    process = context.run(context.hdtrace, "run", "-q", "-o", context.path(out), "--",
                          *context.command(PYTHON, program_path(name), *arguments), environment=environment)
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    return process


def category_bytes(report, device):
    """Bytes by category at the peak, of the rows of the CSV: those alive at the task where most was allocated."""
    return {name: size for name, size in report.json["devices"][device]["peak"].items() if name != "Total"}


def check_leak(context, urls, report, line):
    """The job that grows: its line, its bytes a step; against the CSVs."""
    facts = json.loads(line)
    rows = audit_both(context, urls, "leaks", "bytes=64K", "steps=6")
    check_equal([(row["job"], row["rank"]) for row in rows], [("growing.py", 0)], "what leaks")
    steps = [step for step in report.steps if step["complete"] == "1"]
    xs, ys = [int(step["step"]) for step in steps], [int(step["end_bytes"]) for step in steps]
    n, mean_x, mean_y = len(xs), sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)
    check(abs(rows[0]["growth_bytes_per_step"] - slope) <= 1, "growth:", rows[0], "by the CSV", slope)
    check_equal(rows[0]["steps_seen"], n, "steps seen")
    check(rows[0]["line"].endswith(f"growing.py:{facts['keep']}"), "line that leaks:", rows[0]["line"], "want", facts)


def check_tables(context, url, report):
    """What stands in the database itself, against the files of the report."""
    database = sqlite3.connect(url)
    period, = database.execute("SELECT peak_bytes, end_bytes, steps, parameter_bytes, gradient_bytes, activation_bytes, "
                               "optstate_bytes, other_bytes, workspace_bytes, temp_bytes, buffer_bytes FROM periods "
                               "WHERE job = 'growing.py'").fetchall()
    summary, peak = report.json["summary"], category_bytes(report, "cpu")
    names = ("Parameter", "Gradient", "Activation", "Optstate", "Other", "Workspace", "Temp", "Buffer")
    check_equal(period, (summary["peak_bytes"], summary["current_bytes"], report.live["counts"]["steps"],
                         *(peak[name] for name in names)), "period in the store")
    columns = ("step", "duration_ns", "peak_bytes", "end_bytes", "allocated_bytes", "operators")
    want = [tuple(int(row[name]) // (1000 if name.endswith("_ns") else 1) for name in columns) for row in report.steps]
    got = database.execute("SELECT step, duration_us, peak_bytes, end_bytes, allocated_bytes, operators FROM steps "
                           "WHERE job = 'growing.py' ORDER BY step").fetchall()
    check_equal(got, want, "steps in the store")
    # Whether it fits was asked only when it was put into the store, by --capacity.
    found = database.execute("SELECT finding, bytes, text FROM findings "
                             "WHERE job = 'growing.py' AND kind <> 'fit'").fetchall()
    check_equal(sorted(found), sorted((each["id"], each["bytes"], each["text"]) for each in report.json["findings"]),
                "findings in the store")
    dead, = database.execute("SELECT dead_bytes FROM periods WHERE job = 'growing.py'").fetchone()
    check_equal(dead, sum(each["bytes"] for each in report.json["findings"] if each["kind"] == "dead"), "dead at the peak")
    database.close()


def check_oom(context, urls, process):
    """The job that ran out of memory: what the allocator said, and who held it."""
    lines = lines_of(process)
    rows = [row for row in audit_both(context, urls, "oom") if row["job"] == "exhausting.py"]
    check_equal(len(rows), len(lines), "times out of memory")
    for row, line in zip(reversed(rows), lines):
        check_equal((row["asked_bytes"], row["allocated_bytes"], row["reserved_bytes"]),
                    (line["asked"], line["allocated"], line["reserved"]), "asked, allocated, reserved")
        check(row["line"].startswith("/") and "exhausting.py:" in row["line"], "line that asked:", row["line"])
        check_equal(row["holding_line_bytes"], 300 << 20, "bytes of the line that holds most")
        check_equal((row["holding_module"], row["holding_module_bytes"]), ("Cache", 300 << 20), "module that holds most")


def check_waste(context, urls, report):
    row, = [row for row in audit_both(context, urls, "waste", "per=job") if row["name"] == "exhausting.py"]
    device = report.live["devices"]["cuda:0"]
    check_equal(row["reserved_sum_bytes"], device["reserved_peak_bytes"], "reserved")
    check_equal(row["allocated_sum_bytes"], report.json["devices"]["cuda:0"]["peak"]["Total"], "allocated")
    check_equal(row["waste_bytes"], row["reserved_sum_bytes"] - row["allocated_sum_bytes"] + row["dead_sum_bytes"], "waste")


def check_capacity(context, urls, report):
    peak = report.json["summary"]["peak_bytes"]
    for size, verdict in ((peak * 2, "fits"), (peak + peak // 10, "fits"), (peak // 3, "no")):
        row, = [row for row in audit_both(context, urls, "capacity", f"device={size}") if row["job"] == "growing.py"]
        check_equal((row["verdict"], row["left_bytes"]), (verdict, size - peak), f"does it fit on {size}")
    row, = [row for row in audit_both(context, urls, "headroom") if row["job"] == "growing.py"]
    check_equal(row["headroom_bytes"], GIGABYTE - peak, "headroom")


def check_prediction(context, urls, report):
    """A dry run that says 10 % less than the job needed, for which the job's own CSV stands."""
    peak = max(int(row["actual_peak_memory"]) for row in report.rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, report.rows[0].keys())
    writer.writeheader()
    writer.writerows({**row, "actual_peak_memory": int(row["actual_peak_memory"]) * 9 // 10} for row in report.rows)
    path = context.path("rank_0_memory.csv")
    with open(path, "w", encoding="utf-8", newline="") as out:
        out.write(text.getvalue())
    for url in urls:
        check_equal(audit(context, "prediction", url=url), [], "before there is a prediction")
        store(context, "predict", path, "--job", "growing.py", url=url)
    row, = audit_both(context, urls, "prediction")
    check_equal((row["job"], row["rank"], row["predicted_bytes"], row["actual_bytes"]),
                ("growing.py", 0, peak * 9 // 10, report.json["summary"]["peak_bytes"]), "prediction")
    check_equal(audit_both(context, urls, "prediction", "percent=50"), [], "off by more than half")


def check_versions(context, urls):
    """The same job again, with another version: of one capture the peak is the same, of another job it is not."""
    for url in urls:
        store(context, "add", context.path("grown"), "--run", "a", "--job", "j", "--version", "1", "--model", "m", url=url)
        store(context, "add", context.path("exhausted"), "--run", "b", "--job", "j", "--version", "2", "--model", "m", url=url)
    row, = audit_both(context, urls, "regression-version", "old=1", "new=2")
    check_equal((row["job"], row["before_bytes"] + row["more_bytes"]), ("j", row["after_bytes"]), "regression")
    check_equal(audit_both(context, urls, "regression-version", "old=1", "new=1"), [], "no regression")


@test(root="cuda", device="cuda", timeout=150)
def test_questions_get_the_same_right_answers_from_both_stores(context):
    server = Server(context)
    urls = [context.path("audit.db"), server.url()]
    grown = context.run(context.hdtrace, "run", "-q", "-o", context.path("grown"), "--", PYTHON, program_path("growing"))
    check_equal(grown.code, COMPLETE, f"exit code of {grown}")
    exhausted = traced(context, "exhausting", "exhausted", "--times", "2",
                       environment={"STANDIN_CUDA_MEMORY_MB": "1024", **SETTINGS["plain"]})
    for url in urls:
        store(context, "init", url=url)
        for _ in range(2):  # what is added twice is there once
            store(context, "add", context.path("grown"), "--capacity", "1G", url=url)
            store(context, "add", context.path("exhausted"), url=url)
    check_equal([row["job"] for row in sorted(audit_both(context, urls, "runs"), key=lambda row: row["job"])],
                ["exhausting.py", "growing.py"], "runs")
    report = Report(context.path("grown"))
    check_tables(context, urls[0], report)
    check_leak(context, urls, report, grown.out.splitlines()[-1])
    check_oom(context, urls, exhausted)
    check_waste(context, urls, Report(context.path("exhausted")))
    check_capacity(context, urls, report)
    check_prediction(context, urls, report)
    check_versions(context, urls)
    for name in ("growth", "imbalance", "peak-over-time", "regression-time", "findings"):
        audit_both(context, urls, name, *(["job=growing.py"] if name == "peak-over-time" else []))
    check_forms(context, urls[0])


def check_forms(context, url):
    """Table and CSV, a folder of more queries, and what is refused."""
    table = context.run(context.hdtrace, "audit", "runs", "--store", url).check_code(COMPLETE)
    check("growing.py" in table.out and "MiB" in table.out, f"a table: {table}")
    text = context.run(context.hdtrace, "audit", "runs", "job=growing.py", "--store", url, "--format", "csv").check_code(COMPLETE)
    row, = csv.DictReader(io.StringIO(text.out))
    check_equal(int(row["highest_bytes"]), audit(context, "runs", "job=growing.py", url=url)[0]["highest_bytes"], "CSV")
    os.makedirs(context.path("queries"))
    for name, sql in (("mine", "-- title: Mine\n-- parameter: x text: any\nSELECT x AS y FROM parameter"),
                      ("broken", "SELECT 1"), ("writes", "-- title: Writes\nDELETE FROM run")):
        with open(context.path("queries", name + ".sql"), "w", encoding="utf-8") as out:
            out.write(sql)

    def mine(*arguments):
        return context.run(context.hdtrace, "audit", *arguments, "--queries", context.path("queries"), "--store", url,
                           "--format", "json")
    done = mine("mine", "x=' OR 1 --").check_code(COMPLETE)
    check_equal(json.loads(done.out)["rows"], [{"y": "' OR 1 --"}], "what a query of a folder says")
    check("broken.sql" in done.err and "title" in done.err, f"a broken query is told: {done}")
    check("may only read" in mine("writes").check_code(FAILED).err, "a query that writes")
    for arguments in (("mine",), ("mine", "y=1"), ("nothing",), ("headroom", "since=soon")):
        check(mine(*arguments).check_code(USAGE).err.count("\n") >= 1, "why it is refused:", arguments)


# --- nothing is lost, nothing is twice ---------------------------------------------------------

class Adding:
    """One capture again and again, each time as another run: how many records each has, and whether all came."""

    def __init__(self, context):
        self.context, self.runs = context, 0
        script = context.path("job.py")
        with open(script, "w", encoding="utf-8") as out:
            out.write("import torch\nw = torch.nn.Linear(4, 4)\no = torch.optim.SGD(w.parameters(), lr=.1)\n"
                      "for _ in range(50):\n    w(torch.ones(2, 4)).sum().backward(); o.step(); o.zero_grad()\n")
        process = context.run(context.hdtrace, "run", "-q", "-o", context.path("out"), "--format", "csv", "--", PYTHON, script)
        check_equal(process.code, COMPLETE, f"exit code of {process}")
        self.steps = len(Report(context.path("out")).steps)
        check(self.steps >= 49, "steps of the job:", self.steps)

    def add(self, url, *options, wanted=(COMPLETE,)):
        self.runs += 1
        return store(self.context, "add", self.context.path("out"), "--run", f"run{self.runs}", *options, url=url,
                     wanted=wanted)

    def check(self, server):
        check_equal(waiting(self.context), 0, "bytes that wait in the spool")
        check_equal(server.number("SELECT count(*) FROM steps"), self.runs * self.steps, "steps in the store")
        check_equal(server.number("SELECT count(DISTINCT run) FROM steps"), self.runs, "runs in the store")
        check_equal(server.number("SELECT count(*) FROM periods"), self.runs, "periods in the store")
        check_equal(server.number("SELECT sum(step) FROM steps"), self.runs * sum(range(self.steps)), "sum of step numbers")


@test(timeout=150)
def test_server_that_is_killed_gone_full_or_deaf_loses_and_doubles_nothing(context):
    server, adding = Server(context, queries=4), Adding(context)
    url = server.url()
    patient, hasty = ("--patience", "60"), ("--patience", "0")
    store(context, "init", url=url)
    adding.add(url)
    # Gone: it waits in the spool, and goes when the server is back.
    server.kill()
    gone = adding.add(url, *hasty, wanted=(FAILED,))
    check("nothing is lost" in gone.err and waiting(context) > 0, f"a server that is gone: {gone}")
    server.start()
    store(context, "flush", url=url)
    adding.check(server)
    kill_and_add(server, adding, url, patient)
    adding.check(server)
    deaf_server(context, server, adding, patient)
    adding.check(server)
    # Full: the quota of a user ends in the middle.
    poor = url.replace("http://", "http://poor:penny@")
    while adding.add(poor, *hasty, wanted=(COMPLETE, FAILED)).code == COMPLETE:
        check(adding.runs < 50, "a quota that never ends")
    check(waiting(context) > 0, "what the quota refused is not in the spool")
    store(context, "flush", url=url)
    adding.check(server)
    wrong_schema(context, server, adding, url)


@test(timeout=200)
def test_replicas_of_a_cluster_have_each_record_once_whichever_is_killed(context):
    keeper, ports = Keeper(context), free_ports(2)
    servers = [Server(context, name=f"replica{number}", tcp=port, replicas=ports, keeper=keeper) for number, port in enumerate(ports)]
    adding = Adding(context)
    urls = [server.url() + "?cluster=fleet&replicated=1" for server in servers]
    for url in urls:
        store(context, "init", url=url)

    def check_both():
        for server in servers:
            wait_until(lambda server=server: server.number("SELECT count(*) FROM step_local FINAL") == adding.runs * adding.steps,
                       lambda server=server: f"{server.number('SELECT count(*) FROM step_local FINAL')} of "
                       f"{adding.runs * adding.steps} steps in {server.folder}", timeout=60)
            adding.check(server)
    adding.add(urls[0])
    adding.add(urls[1])
    check_both()
    # One is gone: the other takes all, and what was sent to the one that is gone waits.
    servers[0].kill()
    adding.add(urls[1])
    adding.add(urls[0], "--patience", "0", wanted=(FAILED,))
    servers[0].start()
    store(context, "flush", url=urls[0])
    check_both()
    check_equal(servers[0].query("SELECT DISTINCT engine FROM system.tables WHERE name LIKE '%_local'"),
                "ReplicatedReplacingMergeTree\n", "engine of the tables")
    # The same again, from the other side.
    for url in urls:
        store(context, "add", context.path("out"), "--run", "run1", url=url)
    check_both()


def kill_and_add(server, adding, url, patient):
    """The server is killed at random moments while records come, and started again."""
    moments, kills, failures = random.Random(5), [], []

    def killer():
        try:
            while len(kills) < KILLS:
                time.sleep(moments.random() * 0.5)
                server.kill()
                kills.append(time.monotonic())
                time.sleep(moments.random() * 0.2)
                server.start()
        except Failure as failure:
            failures.append(failure)
    thread = threading.Thread(target=killer)
    thread.start()
    try:
        while thread.is_alive():
            adding.add(url, *patient)
    finally:
        thread.join()
    check(not failures, "the server could not be started again:", failures)


def deaf_server(context, server, adding, patient):
    """Answers get lost after the server took the rows, requests are cut, proxies fail, all of it slowly."""
    moments = random.Random(6)
    between = Disturber(server.port, lambda number, query: moments.choice(["lose", "cut", "fail", "slow", "pass"])
                        if "INSERT" in query else "pass")
    for _ in range(3):
        adding.add(between.url(), *patient)
    between.close()
    done = [what for what, query in between.seen if "INSERT" in query]
    check({"lose", "cut", "fail"} <= set(done), "what was done to requests:", done)


def wrong_schema(context, server, adding, url):
    """Tables of another version, or changed by somebody: refused, and what is to be written waits."""
    server.query("ALTER TABLE step DROP COLUMN wait_us", "fleet")
    refused = adding.add(url, wanted=(FAILED,))
    check("table step" in refused.err and "wait_us" in refused.err, f"a wrong schema: {refused}")
    check(waiting(context) > 0, "nothing waits")
    server.query("ALTER TABLE step ADD COLUMN wait_us Int64 AFTER optimizer_us", "fleet")
    store(context, "flush", url=url)
    adding.check(server)
    server.query("INSERT INTO hdtrace_schema VALUES (2)", "fleet")
    for action in ("init", "flush"):
        check("version 2" in store(context, action, url=url, wanted=(FAILED,)).err, "a newer schema")
    empty = server.url("nothing")
    check("store init" in store(context, "flush", url=empty, wanted=(FAILED,)).err, "a database that is not there")
    # Of a cluster, on a server that is one of it: the tables of all are asked.
    shared = server.url("shared") + "?cluster=fleet"
    store(context, "init", url=shared)
    for _ in range(2):
        store(context, "add", context.path("out"), "--run", "one", url=shared)
    check_equal(server.number("SELECT count(*) FROM steps", "shared"), adding.steps, "steps in a cluster")
    check_equal(server.number("SELECT count(*) FROM step_local FINAL", "shared"), adding.steps, "steps in its shard")
    check_equal([row["run"] for row in audit(context, "runs", url=shared)], ["one"], "runs in a cluster")
    wait_until(lambda: server.number("SELECT count(*) FROM runs", "shared") == 1, "a run in a cluster")
