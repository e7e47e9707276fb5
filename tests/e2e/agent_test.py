"""hdtrace agent on real jobs: metrics, records, captures, its configuration, and its end in the midst of things.

It traces every training process of the machine, so that each test has that for itself.
"""
import glob
import json
import os
import re
import signal
import socket
import time

from agents import Agent
from harness import HERE, PROGRAMS, PYTHON, TOP, check, check_equal, program_path, test, wait_until
from machines import mounts_apart
from privileges_test import CAPABILITIES, job_of_somebody_else
from prometheus import promtool

PACKAGED = os.path.join(TOP, "packaging", "agent")
AGENT_KILOBYTES = 64 << 10  # that it may ever have
RULES = os.path.join(PACKAGED, "hdtrace.rules.yml")
def trained(context, number=0, of_somebody_else=False):
    """A job with a launcher's name, whatever else runs on this machine: (process, its label)."""
    name = f"{context.name}.{os.getpid()}.{number}"
    environment = {"TORCHELASTIC_RUN_ID": name, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    if of_somebody_else:
        return job_of_somebody_else(context, environment), "job_" + name
    job = context.program("loop", "--optimizer", "adamw", environment=environment)
    context.wait_steps(job, 2)
    return job, "job_" + name


def check_powers(process):
    """What an agent of root has kept, in each of its threads, and what it could get by starting a program."""
    with open("/usr/include/linux/capability.h", encoding="utf-8") as source:
        numbers = {name: int(number) for name, number in re.findall(r"#define CAP_(\w+)\s+(\d+)\n", source.read())}
    mask = sum(1 << numbers[name.upper()] for name in (*CAPABILITIES, "sys_nice"))
    threads = glob.glob(f"/proc/{process.pid}/task/*/status")
    check(len(threads) > 2, "only so many threads:", threads)
    for path in threads:
        with open(path, encoding="ascii") as source:
            status = dict(line.rstrip("\n").split(":\t") for line in source if line.startswith(("Cap", "NoNew")))
        for name in ("CapPrm", "CapEff", "CapBnd"):
            check_equal(f"{int(status[name], 16):x}", f"{mask:x}", f"{name} of {path}")
        check_equal((int(status["CapInh"], 16) & ~mask, status["NoNewPrivs"]), (0, "1"), f"to be gained in {path}")


@test(alone=True, timeout=180)
def test_agent_tells_metrics_of_each_job_and_keeps_its_records(context):
    agent = Agent(context)
    jobs, labels = zip(*(trained(context, number) for number in range(2)))
    for label in labels:
        agent.wait_value("hdtrace_steps_total", lambda steps: steps and steps > 5, "steps", job=label)
        agent.wait_value("hdtrace_memory_category_bytes", lambda held: held and held > 0, "bytes of parameters",
                         job=label, category="Parameter")
    wait_until(lambda: all(len(agent.rows(f"SELECT 1 FROM period JOIN run USING (run) WHERE instance = '{label}'")) > 2
                           for label in labels), "periods in the store")
    check_promtool(agent)
    sums = {}
    for its, value in agent.series("hdtrace_memory_category_bytes", job=labels[0]).items():
        sums[dict(its)["device"]] = sums.get(dict(its)["device"], 0) + value
    check(sums.get("cpu"), "no categories:", sums)
    check_equal(agent.value("hdtrace_events_lost_total", job=labels[0]), 0, "events lost")
    with open(f"/proc/{agent.process.pid}/status", encoding="utf-8") as status:
        highest, = re.findall(r"^VmHWM:\s+(\d+) kB$", status.read(), re.MULTILINE)
    check(int(highest) < AGENT_KILOBYTES, f"the agent had {highest} KiB")
    for job in jobs:
        job.check_alive()
        job.stop()
    wait_until(lambda: not any(agent.series("hdtrace_memory_allocated_bytes", job=label) for label in labels),
               "the end of the series of jobs that ended")
    agent.stop()
    for label in labels:
        runs = agent.rows(f"SELECT job, model, source FROM run WHERE instance = '{label}'")
        check_equal(runs, [("loop.py", "Sequential", "agent")], "runs")
    for job in jobs:
        (run, steps, lost), = agent.rows(f"SELECT run, steps, lost_events FROM rank WHERE pid = {job.pid}")
        check(5 < steps <= job.out.count("step "), f"{steps} steps of {job.out.count('step ')}")
        check_equal(lost, 0, "lost events")
        periods = agent.rows(f"SELECT start_time, end_time, peak_bytes, end_bytes, parameter_bytes FROM period "
                             f"WHERE run = '{run}' AND device = 'cpu' ORDER BY start_time")
        check(len(periods) > 1, "periods:", periods)
        check(all(a[1] == b[0] for a, b in zip(periods, periods[1:])), "there are gaps between periods:", periods)
        check(all(peak >= end for _, _, peak, end, _ in periods), "more at the end than at the peak:", periods)
        parameters, = {row[4] for row in periods if row[4]}
        check_equal(parameters, 4 * (32 * 64 + 64 + 64 * 4 + 4), "bytes of parameters")


def check_promtool(agent):
    check_equal(promtool("check", "metrics", text=agent.get()[1]), (0, ""), "promtool check metrics")
    status, open_metrics = agent.get(Accept="application/openmetrics-text; version=1.0.0")
    check_equal((status, open_metrics.splitlines()[-1]), (200, "# EOF"), "OpenMetrics")
    families = set(re.findall(r"^# TYPE (\w+) ", open_metrics, re.MULTILINE))
    for path in ("hdtrace.rules.yml", "hdtrace.dashboard.json"):
        with open(os.path.join(PACKAGED, path), encoding="utf-8") as file:
            # What has colons is the name of a rule.
            used = set(re.findall(r"(?<![:\w])hdtrace_\w+", file.read()))
        unknown = {name for name in used if name not in families and re.sub("_total$", "", name) not in families}
        check(not unknown, f"{path} asks for what is not told:", unknown)


@test(needs_bpf=False, timeout=300)
def test_rules_for_prometheus_fire_for_the_rank_that_they_are_about(context):
    for arguments in (("check", "rules", RULES), ("test", "rules", os.path.join(HERE, "hdtrace.rules.test.yml"))):
        code, said = promtool(*arguments)
        check_equal(code, 0, f"promtool {arguments}: {said}")
    with open(os.path.join(PACKAGED, "hdtrace.dashboard.json"), encoding="utf-8") as file:
        dashboard = json.load(file)
    check(all(target["expr"] for panel in dashboard["panels"] for target in panel["targets"]), "a panel without a query")


@test(needs_bpf=False)
def test_profile_for_apparmor_can_be_compiled(context):
    """Whether it allows enough only a kernel with AppArmor would tell."""
    profile = os.path.join(PACKAGED, "apparmor.d", "hdtrace-agent")
    context.run("apparmor_parser", "--skip-kernel-load", "--skip-cache", "--warn=all", profile).check_code(0)
    with open(profile, encoding="utf-8") as source:
        allowed = set(re.findall(r"^ *capability (\w+),", source.read(), re.MULTILINE))
    with open(os.path.join(PACKAGED, "hdtrace-agent.service"), encoding="utf-8") as source:
        unit, = re.findall(r"^CapabilityBoundingSet=(.*)$", source.read(), re.MULTILINE)
    check_equal({f"CAP_{name.upper()}" for name in allowed - {"setpcap"}}, set(unit.split()), "capabilities of profile and unit")
    check_equal({f"CAP_{name.upper()}" for name in (*CAPABILITIES, "sys_nice")}, set(unit.split()), "and of the agent")


@test(alone=True, timeout=180)
def test_agent_makes_a_full_capture_when_it_is_asked(context):
    agent = Agent(context)
    check_powers(agent.process)
    # With what is left it sees, and its capture too, into processes of others.
    job, label = trained(context, of_somebody_else=True)
    agent.wait_value("hdtrace_steps_total", lambda steps: steps is not None, "the job", job=label)
    agent.process.send(signal.SIGUSR1)
    wait_until(lambda: glob.glob(agent.path("captures", f"*-{job.pid}-asked", "rank_0", "rank_0_memory.csv")),
               lambda: f"a capture of {agent.process}", timeout=60)
    check(agent.value("hdtrace_agent_captures_total") >= 1, "no capture is counted")
    job.check_alive()
    # Its records have the run that the agent knows.
    (run,), = agent.rows(f"SELECT run FROM run WHERE instance = '{label}'")
    wait_until(lambda: agent.rows(f"SELECT 1 FROM step WHERE run = '{run}'"), "steps of the capture in the store", timeout=30)
    agent.stop()


@test(alone=True, timeout=120)
def test_agent_keeps_its_configuration_when_a_new_one_is_wrong(context):
    agent = Agent(context, metrics="ranks = 5")
    agent.write(metrics="ranks = many")
    agent.process.send(signal.SIGHUP)
    wait_until(lambda: "ranks is a whole number" in agent.process.err, lambda: f"the reason in {agent.process}")
    check("agent.conf:8:" in agent.process.err, f"no line in {agent.process}")
    agent.wait_value("hdtrace_agent_configuration_valid", lambda valid: valid == 0, "that it was refused")
    with open(context.path("token"), "w", encoding="utf-8") as file:
        file.write("a token of some length\n")
    agent.write(metrics="token = " + context.path("token"))
    agent.process.send(signal.SIGHUP)
    wait_until(lambda: "was read again" in agent.process.err, lambda: f"the new one in {agent.process}")
    agent.stop()


@test(alone=True, timeout=120)
def test_endpoint_asks_for_its_token_and_bears_bad_clients(context):
    with open(context.path("token"), "w", encoding="utf-8") as file:
        file.write("a-token-of-some-length\n")
    agent = Agent(context, metrics="token = " + context.path("token"))
    # Who connects and says nothing, and who asks and does not read, keep nobody waiting.
    idle = [socket.create_connection(("127.0.0.1", agent.port)) for _ in range(8)]
    for one in idle[:4]:
        one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
    wait_until(lambda: agent.get(Authorization="Bearer a-token-of-some-length")[0] == 200, "an answer")
    check_equal(agent.get()[0], 401, "without a token")
    check_equal(agent.get(Authorization="Bearer a-token-of-some-lengtH")[0], 401, "with another token")
    check_equal(agent.get("/health")[0], 200, "health")
    check_equal(agent.get("/other", Authorization="Bearer a-token-of-some-length")[0], 404, "another path")
    for one in idle:
        one.close()
    agent.stop()


@test(alone=True, timeout=180)
def test_agent_that_is_killed_loses_no_record_and_harms_no_job(context):
    agent = Agent(context, period="1s")
    job, label = trained(context)
    agent.wait_value("hdtrace_agent_records_total", lambda records: records and records > 4, "records")
    kept = 0

    def periods():
        return agent.rows(f"SELECT run, rank, device, period.start_time FROM period JOIN run USING (run) WHERE instance = '{label}'")
    for _ in range(3):
        agent.process.send(signal.SIGKILL)
        agent.process.wait()
        spooled = glob.glob(agent.path("spool", "*", "*.spool"))
        context.wait_steps(job, 2)
        agent.start()
        agent.wait_value("hdtrace_steps_total", lambda steps: steps and steps > 1, "the job again", job=label)
        wait_until(lambda: not [path for path in spooled if os.path.exists(path)], "older segments in the store")
        wait_until(lambda: len(periods()) > kept, f"more periods than {kept}")
        found = periods()
        check_equal(len(set(found)), len(found), "periods twice")
        kept = len(found)
    check_equal(len(agent.rows(f"SELECT run FROM run WHERE instance = '{label}'")), 1, "runs, of a job that was met again")
    agent.stop()
    job.check_alive()


@test(alone=True, timeout=180)
def test_agent_sees_a_job_after_more_processes_than_it_has_places(context):
    """PROGRAM_TARGETS_MAX of them, and more, that mapped PyTorch and are gone."""
    with open(os.path.join(TOP, "include", "hdtrace", "program.h"), encoding="utf-8") as source:
        places = int(re.search(r"#define PROGRAM_TARGETS_MAX (\d+)", source.read())[1])
    program, library = context.path("many_torches"), context.path("libtorch_cpu.so")
    context.run("gcc", "-O2", "-o", program, os.path.join(PROGRAMS, "many_torches.c")).check_code(0)
    # With code in it: what has none is not mapped as code, and no library for anybody who looks.
    with open(context.path("empty.c"), "w", encoding="utf-8") as out:
        out.write("int nothing(void) { return 0; }\n")
    context.run("gcc", "-shared", "-o", library, context.path("empty.c")).check_code(0)
    agent = Agent(context)
    for _ in range(2):
        context.run(program, places - 10, library, 30, timeout=100).check_code(0)
        time.sleep(3)  # so long nobody gets the place of one that is gone
    check_equal(agent.value("hdtrace_agent_targets_refused_total"), 0, "processes without a place")
    job, label = trained(context)
    agent.wait_value("hdtrace_steps_total", lambda steps: steps and steps > 2, "the job", job=label)
    agent.stop()
    job.check_alive()


@test(root="cuda", device="cuda", alone=True, timeout=240)
def test_agent_tells_who_held_the_memory_that_ran_out(context):
    agent = Agent(context)
    process = context.run(*context.command(PYTHON, program_path("leaking"), "--steps", "60"), timeout=120,
                          environment={"STANDIN_CUDA_MEMORY_MB": "1024"})
    process.check_code(0)
    line = json.loads(process.out)
    wait_until(lambda: agent.rows("SELECT 1 FROM oom"), lambda: f"a record of {agent.process}", timeout=30)
    agent.stop()
    check((line["asked"],) in agent.rows("SELECT asked_bytes FROM oom"), "bytes asked for:", agent.rows("SELECT * FROM oom"))
    audit = context.run(context.hdtrace, "audit", "--store", agent.path("audit.db"), "oom")
    check_equal(audit.code, 0, f"exit code of {audit}")
    check("leaking.py" in audit.out, f"the job is not named: {audit}")
    lines = agent.rows(f"SELECT line FROM oom WHERE asked_bytes = {line['asked']}")
    check(any(text.endswith(f"leaking.py:{line['line']}") for text, in lines), f"line {line['line']} is not named:", lines)


@test(alone=True, timeout=180)
def test_agent_follows_the_host_of_a_job_within_its_budget(context):
    """Kept tensors are found though most of them are made while nobody looks; what is held is what the job says."""
    agent = Agent(context, agent="host-cost = 1%")
    name = f"hasty.{os.getpid()}"
    job = context.program("hasty", "--keep", "65536", environment={"TORCHELASTIC_RUN_ID": name, "RANK": "0",
                                                                  "WORLD_SIZE": "1", "LOCAL_RANK": "0"})
    said = re.compile(r"^kept \d+ holds (\d+) ([\d.]+)$", re.M)
    ratios, differences = [], []

    def is_followed_in_windows():
        before = said.findall(job.out)[-1:]
        allocated = agent.value("hdtrace_memory_allocated_bytes", job="job_" + name, device="cpu")
        ratio = agent.value("hdtrace_host_followed_ratio", job="job_" + name)
        if before and allocated and ratio:
            ratios.append(ratio)
            differences.append(allocated - float(before[0][0]))
        return len(ratios) > 40 and ratios[-1] < 0.5
    wait_until(is_followed_in_windows, lambda: f"windows, followed: {ratios[-5:]}; {job}", timeout=90)
    # Each figure is that of a moment in the last seconds: a window and a pause.
    kept_a_second = 65536 / 0.02
    check(all(-8 * kept_a_second < difference < 2 * kept_a_second for difference in differences[10:]),
          "held according to the agent, less what the job says:", differences)
    check(any(abs(difference) < kept_a_second for difference in differences[10:]), "never right:", differences)
    job.check_alive()
    job.stop()
    agent.stop()


def findings_at_rest(agent):
    """How many findings the store has when no more come: those of a capture follow its steps."""
    counts = [-1]

    def at_rest():
        counts.append(len(agent.rows("SELECT 1 FROM finding")))
        time.sleep(3)
        return counts[-1] == counts[-2]
    wait_until(at_rest, lambda: f"findings that do not grow: {counts}", timeout=60)
    return counts[-1]


@test(alone=True, timeout=200)
def test_agent_bears_a_full_disk_a_deaf_store_and_a_reload(context):
    mounts_apart()
    spool = context.path("here", "spool")
    os.makedirs(spool)
    context.run("mount", "-t", "tmpfs", "-o", "size=256k", "none", spool).check_code(0)
    full = os.path.join(spool, "full")
    deaf = socket.create_server(("127.0.0.1", 0))  # it takes connections, and never answers
    url = f"http://127.0.0.1:{deaf.getsockname()[1]}/fleet"
    agent = Agent(context, period="1s", url=url)
    job, label = trained(context)
    agent.wait_value("hdtrace_agent_records_total", lambda records: records and records > 2, "records")
    fill(full)
    agent.wait_value("hdtrace_agent_records_held", lambda held: held > 5, "records that wait for room")
    context.wait_steps(job, 2)
    os.remove(full)
    agent.wait_value("hdtrace_agent_records_held", lambda held: held == 0, "that they have found it")
    check_equal(agent.value("hdtrace_agent_records_lost_total"), 0, "records lost")
    check("No space left on device" in agent.process.err and "kept in" in agent.process.err, f"what was told: {agent.process}")
    # In the midst of a capture it gets another store, though the old one has not answered yet.
    agent.process.send(signal.SIGUSR1)
    wait_until(lambda: "(asked)" in agent.process.err, lambda: f"a capture of {agent.process}")
    waiting = glob.glob(os.path.join(spool, "*", "*.spool"))
    agent.write(period="1s")
    agent.process.send(signal.SIGHUP)
    wait_until(lambda: "was read again" in agent.process.err, lambda: f"another store of {agent.process}", timeout=20)
    wait_until(lambda: glob.glob(agent.path("captures", "*-asked", "rank_0", "rank_0_memory.csv")), "the capture", timeout=60)
    wait_until(lambda: agent.rows(f"SELECT 1 FROM period JOIN run USING (run) WHERE instance = '{label}'"),
               "periods in the new store", timeout=30)
    wait_until(lambda: agent.rows("SELECT 1 FROM step"), "steps of the capture in the new store", timeout=30)
    check(waiting and all(os.path.exists(path) for path in waiting), "what the old store has not got is gone:", waiting)
    # A capture without room says why, and is given to no store.
    findings = findings_at_rest(agent)
    context.run("mount", "-t", "tmpfs", "-o", "size=32k", "none", agent.path("captures")).check_code(0)
    agent.process.send(signal.SIGUSR1)
    wait_until(lambda: "is not whole" in agent.process.err, lambda: f"that a capture found no room: {agent.process}", timeout=60)
    check(agent.process.err.count("No space left on device") >= 2, f"the reason: {agent.process}")
    check_equal(findings_at_rest(agent), findings, "findings")
    # And it ends, though a store hangs.
    agent.write(period="1s", url=url)
    agent.process.send(signal.SIGHUP)
    wait_until(lambda: agent.process.err.count("was read again") == 2, lambda: f"the first store again: {agent.process}", timeout=20)
    agent.stop()
    job.check_alive()


def fill(path):
    with open(path, "wb", buffering=0) as out:
        try:
            while True:
                out.write(bytes(4096))
        except OSError:
            pass
