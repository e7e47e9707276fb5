"""kill -9 of everything, at any moment: no record is lost or there twice, and no job is disturbed.

`make torture` does it a hundred times (KILLS=, SEED=); as a part of all tests it is done a few times.
"""
import glob
import os
import random
import signal
import sqlite3
import threading
import time

from agents import Agent
from clickhouse import Server
from harness import POLL_SECONDS, check, check_equal, root_path, test, wait_until
from machines import processes_apart

KILLS = int(os.environ.get("KILLS") or 7)
SEED = int(os.environ.get("SEED") or 7)
SECONDS_OF_A_KILL = 15  # at most, on a machine that is busy
JOB = ("--steps", "150", "--pause", "0.01", "--losses")
# Of each table what tells a row from others; where rows are never written anew, all of it.
KEYS = {"run": "run", "rank": "run, rank", "period": "run, rank, device, start_time, end_time, peak_bytes, end_bytes",
        "step": "run, rank, start_time, step, duration_us, peak_bytes, end_bytes",
        "holder": "run, rank, device, time, microsecond, moment, kind, place, name, bytes",
        "block": "run, rank, device, time, microsecond, moment, place, bytes", "finding": "run, time, finding, bytes, text"}


class Shadow:
    """Keeps a second name of each segment that comes into a spool: all that was acknowledged, whoever is killed."""

    def __init__(self, spool, folder):
        self.spool, self.folder, self.ended = spool, folder, False
        os.makedirs(folder)
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self):
        while not self.ended:
            for path in glob.glob(os.path.join(self.spool, "*", "*.spool")):
                try:
                    os.link(path, os.path.join(self.folder, os.path.basename(path)))
                except (FileExistsError, FileNotFoundError):
                    pass
            time.sleep(0.002)

    def end(self):
        self.ended = True
        self.thread.join()


class Torture:
    def __init__(self, context):
        # Its thread first: one of whom the next process is in another namespace can have no more of them.
        self.shadow = Shadow(context.path("here", "spool"), context.path("shadow"))
        self.proc = processes_apart(context)
        self.context, self.random, self.killed, self.jobs = context, random.Random(SEED), [], []
        self.reference = context.program("loop", *JOB).check_code(0).out
        self.server = Server(context)
        self.agent = Agent(context, period="1s", url=self.server.url())
        self.job_start()

    # --- jobs ------------------------------------------------------------------------

    def job_start(self):
        self.job = self.context.program("loop", *JOB)
        self.jobs.append(self.job)

    def job_look(self):
        """One that has come to its end did what it does when nobody looks; another follows it."""
        if self.job.code is None:
            return
        check_equal((self.job.code, self.job.out), (0, self.reference), "a job's end and losses")
        self.job_start()

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.job_look()
            time.sleep(POLL_SECONDS / 5)

    def wait_for(self, condition, what):
        def looked():
            self.job_look()
            return condition()
        return wait_until(looked, what, timeout=60)

    # --- victims -----------------------------------------------------------------------

    def child(self, verb):
        """The agent's child that runs `hdtrace VERB`, None."""
        for path in glob.glob(f"{self.proc}/{self.agent.process.pid}/task/*/children"):
            try:
                with open(path, encoding="ascii") as source:
                    children = source.read().split()
                for pid in children:
                    with open(f"{self.proc}/{pid}/cmdline", "rb") as source:
                        if source.read().split(b"\0")[1:2] == [verb.encode()]:
                            return int(pid)
            except OSError:
                pass
        return None

    def kill_agent(self):
        self.agent.process.send(signal.SIGKILL)
        self.agent.process.wait()
        self.wait(self.random.random() * 0.5)
        self.agent.start()

    def kill_agent_that_sends(self):
        """Somewhere between a record's way to the disk and the end of its way to the store."""
        self.wait_for(lambda: glob.glob(self.agent.path("spool", "*", "*.spool")), "a segment")
        time.sleep(self.random.random() * 0.03)
        self.kill_agent()

    def asked(self, verb):
        """A child of the agent, which makes a capture of whom it knows when it is asked, or gives it to the store."""
        asked = 0

        def ask():
            nonlocal asked
            if time.monotonic() > asked + 1 and not self.child("record"):
                self.agent.process.send(signal.SIGUSR1)
                asked = time.monotonic()
            return self.child(verb)
        return self.wait_for(ask, lambda: f"a child of {self.agent.process}")

    def kill_child(self, verb):
        pid = self.asked(verb)
        self.wait(self.random.random() * (1.5 if verb == "record" else 0.1))
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it was faster

    def kill_agent_with_a_capture(self):
        pid = self.asked("record")
        self.wait(self.random.random())
        self.kill_agent()
        wait_until(lambda: not os.path.exists(f"{self.proc}/{pid}/exe"), "the end of the capture that nobody waits for")

    def kill_store(self):
        self.server.kill()
        self.wait(self.random.random())
        self.server.start()

    def kill_job(self):
        before = self.job.out.count("step ")
        self.job.send(signal.SIGKILL)
        self.job.wait()
        check(self.reference.startswith(self.job.out[:self.job.out.rfind("\n") + 1]), f"losses after {before} steps: {self.job}")
        self.job_start()

    def kill(self):
        victims = {"agent": self.kill_agent, "sender": self.kill_agent_that_sends, "store": self.kill_store, "job": self.kill_job,
                   "capture": lambda: self.kill_child("record"), "adding": lambda: self.kill_child("store"),
                   "agent with a capture": self.kill_agent_with_a_capture}
        # Each as often as any other, in an order that nobody chose.
        if len(self.killed) % len(victims) == 0:
            self.order = self.random.sample(sorted(victims), len(victims))
        name = self.order[len(self.killed) % len(victims)]
        self.killed.append(name)
        self.wait(self.random.random() * 1.5)
        victims[name]()

    # --- what came of it -------------------------------------------------------------------

    def capture_whole(self):
        """One that nobody kills, into the store: it may be that all others were."""
        def stored():
            if not self.child("record") and not self.child("store"):
                self.asked("record")
            return self.server.number("SELECT count(*) FROM finding") and self.server.number("SELECT count(*) FROM step")
        self.wait_for(stored, lambda: f"a capture in the store: {self.agent.process}")

    def finish(self):
        self.capture_whole()
        self.wait_for(lambda: self.job is not self.jobs[-1] or self.job.out.count("step ") > 20, "steps of the last job")
        self.agent.stop()
        self.shadow.end()
        check_equal(self.job.wait(), 0, f"the last job: {self.job}")
        check_equal(self.job.out, self.reference, "its losses")
        hdtrace = self.context.hdtrace
        self.context.run(hdtrace, "store", "flush", "--store", self.server.url(), "--spool", self.agent.path("spool"),
                         timeout=120).check_code(0)
        # What was acknowledged, in a store to which nothing ever happened.
        truth, spool = self.context.path("truth.db"), self.context.path("again")
        self.context.run(hdtrace, "store", "init", truth).check_code(0)
        status = self.context.run(hdtrace, "store", "status", "--store", truth, "--spool", spool).check_code(0)
        os.makedirs(spool)
        os.rename(self.context.path("shadow"), status.out.split()[1])
        self.context.run(hdtrace, "store", "flush", "--store", truth, "--spool", spool, timeout=120).check_code(0)
        with sqlite3.connect(truth) as store:
            return {table: [tuple(map(str, row)) for row in store.execute(f"SELECT {columns} FROM {table}")]
                    for table, columns in KEYS.items()}

    def rows(self, table, columns):
        """Of the store; as text, as its server writes it."""
        text = self.server.query(f"SELECT {columns} FROM {table} FINAL", "fleet")
        return [tuple(cell.replace("\\'", "'").replace("\\\\", "\\") for cell in line.split("\t")) for line in text.splitlines()]


def check_records(torture, truth):
    for table, columns in KEYS.items():
        rows = torture.rows(table, columns)
        missing = set(truth[table]) - set(rows)
        check(not missing, f"{len(missing)} of {len(truth[table])} rows of {table} are lost:", sorted(missing)[:3])
        check_equal(len(rows), len(set(rows)), f"rows of {table} against different ones")
    check(len(truth["period"]) >= len(torture.killed) / 2, "so few periods:", len(truth["period"]))
    check(truth["step"] and truth["finding"], "nothing of the captures came into the store")
    # No time of a rank is told twice.
    periods = sorted((run, rank, device, int(start), int(end))
                     for run, rank, device, start, end, *_ in torture.rows("period", KEYS["period"]))
    for before, after in zip(periods, periods[1:]):
        check(before[:3] != after[:3] or before[4] <= after[3], "periods overlap:", before, after)


@test(alone=True, timeout=120 + KILLS * SECONDS_OF_A_KILL)
def test_whatever_is_killed_no_record_is_lost_or_doubled_and_no_job_disturbed(context):
    root_path("clickhouse")
    torture = Torture(context)
    try:
        for _ in range(KILLS):
            torture.kill()
        truth = torture.finish()
    finally:
        torture.shadow.end()
        print(f"seed {SEED}, killed: {', '.join(torture.killed)}")
    check_records(torture, truth)
    check(not glob.glob(torture.agent.path("captures", "*.part")), "unfinished captures are left")
