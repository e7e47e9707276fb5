"""Which processes are ranks, of which job, with which number."""
import json
import os
import signal
import time

from harness import COMPLETE, check, check_equal, program_path, test, wait_until

HOW = ["exec", "spawn", "fork", "torchrun"]
RANKS = 2


def pids_of(job):
    """rank -> pid, as the job prints them."""
    words = [line.split() for line in job.out.splitlines() if " pid " in line]
    return {int(line[1]): int(line[3]) for line in words}


def family(context, how, *options):
    job = context.program("family", how, RANKS, *(options or ("0",)))
    wait_until(lambda: len(pids_of(job)) == RANKS and job.out.count("step") > 8 or job.check_alive(),
               lambda: f"ranks that train: {job}", timeout=40)
    return job


def kill_family(context, job):
    for pid in pids_of(job).values():
        os.kill(pid, 9)
    job.stop()


def reports_of(folder):
    """Folder of a rank, below `folder` -> JSON."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith("_memory.json"):
                with open(os.path.join(where, name), encoding="utf-8") as source:
                    found[os.path.relpath(where, folder)] = json.load(source)
    return found


def target_of(report):
    return report["live"]["target"]


@test(each=HOW, timeout=120)
def test_the_launcher_stands_for_its_ranks(context, how):
    job = family(context, how, "0", *(["--workers"] if how in ("exec", "fork") else []))
    context.run(context.hdtrace, "-p", job.pid, "-d", "3", "-o", context.path("out")).check_code(COMPLETE)
    reports = reports_of(context.path("out"))
    pids = pids_of(job)
    kill_family(context, job)
    check_equal(sorted(reports), [f"rank_{rank}" for rank in range(RANKS)], "folders of ranks")
    check_equal(sorted(target_of(report)["pid"] for report in reports.values()), sorted(pids.values()), "traced pids")
    if how in ("exec", "torchrun"):
        for rank in range(RANKS):
            target = target_of(reports[f"rank_{rank}"])
            check_equal((target["pid"], target["rank_source"], target["world_size"], target["local_rank"]),
                        (pids[rank], "RANK", RANKS, rank), "place of a rank")
    for name, report in reports.items():
        check(report["live"]["counts"]["steps"] > 0, "no step of", name)


@test(each=["exec", "spawn", "torchrun"], timeout=120)
def test_a_started_launcher_is_no_rank_and_ranks_are_seen_from_their_first_operator(context, how):
    traced = context.run(context.hdtrace, "run", "-o", context.path("out"), "--",
                         *context.command("/usr/bin/python3", program_path("family"), how, RANKS, 3))
    check_equal(traced.code, 0, f"exit code of {traced}")
    reports = reports_of(context.path("out"))
    check_equal(sorted(target_of(report)["pid"] for report in reports.values()), sorted(pids_of(traced).values()),
                "traced pids")
    for name, report in reports.items():
        check(report["live"]["from_start"], name, "is not seen from its start")
        check_equal(report["live"]["counts"]["steps"], 3, f"steps of {name}")


@test(timeout=120, alone=True)
def test_two_jobs_at_once_are_kept_apart(context):
    jobs = [family(context, "exec", "0") for _ in range(2)]
    context.run(context.hdtrace, "-p", "all", "-d", "2", "-o", context.path("out")).check_code(COMPLETE)
    reports = reports_of(context.path("out"))
    for job in jobs:
        pids = pids_of(job)
        kill_family(context, job)
        mine = {target_of(report)["rank"]: (target_of(report)["pid"], name.split("/")[0])
                for name, report in reports.items() if target_of(report)["pid"] in pids.values()}
        check_equal({rank: pid for rank, (pid, _) in mine.items()}, pids, "ranks of a job")
        folders = {folder for _, folder in mine.values()}
        check(len(folders) == 1 and folders.pop().startswith("job_"), "folders of a job:", mine)


@test
def test_a_rank_that_ends_leaves_the_others_traced(context):
    job = family(context, "exec", "0")
    tracer = context.start(context.hdtrace, "-p", job.pid, "-o", context.path("out"))
    pids = pids_of(job)
    wait_until(lambda: os.path.exists(context.path("out", "capture.hdt")), "a capture")
    context.wait_steps(job, 60)
    os.kill(pids[1], 9)
    time.sleep(2)  # its end is seen
    tracer.send(signal.SIGINT)
    tracer.check_code(COMPLETE)
    job.stop()
    reports = reports_of(context.path("out"))
    check_equal(sorted(reports), ["rank_0", "rank_1"], "folders of ranks")
    check_equal(reports["rank_1"]["live"]["end_reason"], "exit", "end of the rank that was killed")


@test
def test_a_place_that_cannot_be_is_told_by_name(context):
    job = context.program("loop", environment={"RANK": "4", "WORLD_SIZE": "4"})
    context.wait_steps(job, 2)
    tracer = context.run(context.hdtrace, "-p", job.pid, "-d", "1", "-o", context.path("out")).check_code(COMPLETE)
    check("RANK is 4, which is not below WORLD_SIZE, 4" in tracer.err, "not told:", tracer.err)
    check_equal(sorted(os.listdir(context.path("out"))), ["capture.hdt", "rank_0", "report.html"], "the output folder")


@test
def test_both_pids_of_a_job_in_a_container_are_told(context):
    context.start("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "/usr/bin/python3",
                  program_path("loop"))
    job = context.processes[0]
    context.wait_steps(job, 2)
    context.run(context.hdtrace, "-p", job.pid, "--steps", "2", "-o", context.path("out")).check_code(COMPLETE)
    target = target_of(context.report().json)
    check_equal(target["namespace_pid"], 1, "pid inside")
    check(target["pid"] not in (1, job.pid), "pid outside:", target["pid"])


@test
def test_a_started_command_has_the_limits_of_its_starter(context):
    traced = context.run("prlimit", "--nofile=256:4096", context.hdtrace, "run", "-q", "-o", context.path("out"), "--",
                         "/bin/sh", "-c", "ulimit -Sn")
    check_equal(traced.out, "256\n", f"limit of open files in {traced}")


@test(timeout=300, alone=True)
def test_64_ranks_are_traced_at_once(context):
    job = context.program("many", 64)
    wait_until(lambda: "children" in job.out, lambda: f"children of {job}", timeout=30)
    children = [int(word) for word in job.out.split()[1:]]
    tracer = context.run("prlimit", "--nofile=256:8192", context.hdtrace, "-p", job.pid, "-d", "5", "-o",
                         context.path("out"), timeout=250)
    for pid in children:
        os.kill(pid, 9)
    tracer.check_code(COMPLETE)
    reports = reports_of(context.path("out"))
    check_equal(sorted(target_of(report)["pid"] for report in reports.values()), sorted(children), "traced pids")
    check_equal(len(reports), 64, "ranks")
