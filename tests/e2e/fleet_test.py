"""A small fleet: three machines with an agent and a job each, one Prometheus, and stores of both kinds.

One job leaks, one runs out of memory, one is imbalanced: whoever is asked has to name the right one, its rank, and its line.
"""
import json
import os
import re
import shutil
import signal

from agents import Agent, Secrets
from clickhouse import Server
from harness import PYTHON, PROGRAMS, TOP, check, check_equal, program_path, root_path, test, wait_until
from machines import Machine, isolate
from prometheus import Prometheus
from store_test import audit

PACKAGED = os.path.join(TOP, "packaging", "agent")
KINDS = {"leaky": "leaks", "full": "exhausted", "uneven": "uneven"}
GIGABYTE = 1 << 30
LEAK_BYTES = 1 << 18  # of troubled.py
DEVICE_BYTES = 4 * GIGABYTE


class Job:
    """Two ranks on a machine; the name of its program is its own."""

    def __init__(self, context, name, machine):
        self.name, self.machine, self.label = name, machine, f"job_{name}"
        self.program = context.path(name + ".py")
        shutil.copy(program_path("troubled"), self.program)
        command = [PYTHON, self.program, KINDS[name]]
        on_device = name != "leaky"
        self.process = machine.start(*(context.command(*command) if on_device else command), environment={
            "PYTHONPATH": PROGRAMS, "TORCHELASTIC_RUN_ID": name, "JOB_DEVICE": "cuda" if on_device else "cpu",
            "STANDIN_CUDA_MEMORY_MB": str(DEVICE_BYTES >> 20)})

    def line(self, what):
        """Where rank 1 does it, as it says itself: the last part of the path and the number."""
        told = next(line for line in self.process.out.splitlines() if line.startswith("{"))
        return f"/{self.name}.py:{json.loads(told)[what]}"


def quick_rules(context):
    """What waits a quarter of an hour for certainty waits a second."""
    with open(os.path.join(PACKAGED, "hdtrace.rules.yml"), encoding="utf-8") as source:
        text = re.sub(r"(?m)^( *for:) 15m$", r"\1 1s", source.read())
    with open(context.path("rules.yml"), "w", encoding="utf-8") as out:
        out.write(text)
    return out.name


def fired(prometheus):
    """(alert, job, rank, device, node) of each that fires."""
    return {tuple(alert["labels"].get(name) for name in ("alertname", "job", "rank", "device", "node"))
            for alert in prometheus.alerts() if alert["state"] == "firing"}


def wait_rows(context, url, name, *parameters):
    """What a question says, as soon as it says something."""
    return wait_until(lambda: audit(context, name, *parameters, url=url), lambda: f"an answer to {name} of {url}", timeout=120)


def check_leak(context, url, job):
    row, = wait_until(lambda: [row for row in audit(context, "leaks", url=url) if row["line"]],
                      lambda: f"a leak with a line: {audit(context, 'leaks', url=url)}", timeout=120)
    check_equal((row["job"], row["rank"]), ("leaky.py", 1), "who leaks")
    check(row["line"].endswith(job.line("leak")), f"line that leaks, {job.line('leak')}:", row)
    check(0.9 * LEAK_BYTES < row["growth_bytes_per_step"] < 1.1 * LEAK_BYTES, "bytes that leak in a step:", row)
    row, = wait_rows(context, url, "growth", "bytes=2M", "periods=3")
    check_equal((row["job"], row["rank"], row["device"]), ("leaky.py", 1, "cpu"), "who grows")


def check_exhaustion(context, url, job):
    rows = wait_rows(context, url, "oom")
    check_equal({(row["job"], row["rank"], row["node"], row["device"], row["asked_bytes"]) for row in rows},
                {("full.py", 1, "node-full", "cuda:0", DEVICE_BYTES * 3 // 4)}, "who ran out of memory")
    check(all(row["line"].endswith(job.line("exhaust")) for row in rows), f"line that asked, {job.line('exhaust')}:", rows)
    # Half of the device, and little else.
    check(all(DEVICE_BYTES / 2 <= row["allocated_bytes"] < DEVICE_BYTES * 0.6 for row in rows), "allocated then:", rows)


def check_imbalance(context, url):
    row = next(row for row in wait_rows(context, url, "imbalance") if row["job"] != "leaky.py")
    check_equal((row["job"], row["highest_rank"], row["highest_node"], row["spread_bytes"] >= DEVICE_BYTES // 2),
                ("uneven.py", 1, "node-uneven", True), "who differs")


def check_stores(context, jobs, urls):
    """Each question in the store that its job's records are in: the stores of three machines, or one for all."""
    check_leak(context, urls["leaky"], jobs["leaky"])
    check_exhaustion(context, urls["full"], jobs["full"])
    check_imbalance(context, urls["uneven"])
    for name, url in urls.items():
        wanted = {"leaky.py", "full.py", "uneven.py"} if len(set(urls.values())) == 1 else {name + ".py"}
        check_equal({row["job"] for row in audit(context, "runs", url=url)}, wanted, f"jobs in {url}")
        check(audit(context, "headroom", url=url) or name == "leaky", f"no headroom in {url}")


def panels():
    """(title, expression) of each query of the dashboard, variables in it."""
    with open(os.path.join(PACKAGED, "hdtrace.dashboard.json"), encoding="utf-8") as source:
        dashboard = json.load(source)
    return [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]


def check_dashboard(prometheus, jobs):
    """Each panel has something to show, and shows the trouble of the job that is chosen, and of no other."""
    check_equal(set(prometheus.label_values("node", "hdtrace_agent_build_info")), {f"node-{name}" for name in KINDS}, "nodes")
    check_equal(set(prometheus.label_values("job", "hdtrace_memory_allocated_bytes")), {job.label for job in jobs.values()}, "jobs")

    def ask(title, node=".*", job=".*"):
        expression, = [text for name, text in panels() if name == title]
        return prometheus.query(expression.replace("$node", node).replace("$job", job))

    for title, expression in panels():
        check(prometheus.query(expression.replace("$node", ".*").replace("$job", ".*")), f"nothing in the panel {title}")
    for name, job in jobs.items():
        (_, times), = ask("Out of memory, last day", job=job.label)
        check_equal(times > 0, name == "full", f"does {name} run out of memory: {times}")
    growth = {name: ask("Largest growth an hour", node="node-" + name)[0][1] for name in jobs}
    check(growth["leaky"] == max(growth.values()) > GIGABYTE, "growth of the jobs:", growth)
    peaks = {labels["rank"]: value for labels, value in ask("Peak since the start", job="job_uneven") if labels["device"] != "cpu"}
    check(peaks["1"] - peaks["0"] >= DEVICE_BYTES // 2, "peaks of the uneven job:", peaks)
    (_, left), = ask("Least headroom")
    check(0 < left <= DEVICE_BYTES / 2, "least headroom:", left)


@test(root="cuda", device="cuda", alone=True, timeout=400)
def test_a_fleet_names_the_job_that_leaks_the_one_that_is_full_and_the_one_that_is_uneven(context):
    for name in ("prometheus", "clickhouse"):
        root_path(name)  # from the network, if it is not there
    isolate()
    machines = [Machine(context, "node-" + name, number) for number, name in enumerate(KINDS)]
    secrets = Secrets(context, [machine.address for machine in machines])
    settings = {"period": "1s", "steps": 10, "pause": "1h", "agent": f"growth-interval = 1s\ndevice-memory = {DEVICE_BYTES}",
                "captures": "on-growth = 1G"}
    agents = {machine.name[5:]: Agent(context, machine.name, machine, secrets, **settings) for machine in machines}
    jobs = {name: Job(context, name, machine) for name, machine in zip(KINDS, machines)}
    prometheus = Prometheus(context, quick_rules(context),
                            [f"{agent.machine.address}:{agent.port}" for agent in agents.values()], secrets)
    server = Server(context, listen="0.0.0.0")
    expected = {("TrainingMemoryGrows", "job_leaky", "1", "cpu", "node-leaky"),
                ("TrainingOutOfMemory", "job_full", "1", "cuda:0", "node-full"),
                ("TrainingRanksDiffer", "job_uneven", None, None, "node-uneven")}
    # With such an interval the beginning of a job is growth, for some seconds.
    wait_until(lambda: fired(prometheus) == expected,
               lambda: f"alerts: want {expected}, got {fired(prometheus)}; "
               + "\n".join(str(agent.process) for agent in agents.values()), timeout=150)
    check_stores(context, jobs, {name: agent.path("audit.db") for name, agent in agents.items()})
    # The fleet outgrows files: the same agents go on with a server, of a machine that is none of theirs.
    context.run(context.hdtrace, "store", "init", server.url()).check_code(0)
    for agent in agents.values():
        agent.write(**settings, url=f"http://{agent.machine.middle}:{server.port}/fleet")
        agent.process.send(signal.SIGHUP)
    wait_until(lambda: all("was read again" in agent.process.err for agent in agents.values()), "new configurations")
    agents["leaky"].process.send(signal.SIGUSR1)
    check_stores(context, jobs, dict.fromkeys(KINDS, server.url()))
    check_dashboard(prometheus, jobs)
    check(prometheus.query("max_over_time(job:hdtrace_memory_allocated_bytes:sum[5m])"), "no values of recording rules")
    wait_until(lambda: len(prometheus.remote_series("hdtrace_out_of_memory_total")) >= len(KINDS), "series in VictoriaMetrics")
    for agent in agents.values():
        agent.stop()
    for job in jobs.values():
        job.process.check_alive()
