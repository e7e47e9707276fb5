#!/usr/bin/python3
"""How much slower is a traced job? Interleaved runs, medians, ratios.

    overhead.py [--hdtrace PATH] [--quick] [--repeats N] [--stats]

Each repeat runs every configuration once, one after the other, so that what
else the machine does meets all of them: untraced, followed by the agent or by hdtrace
top, hdtrace --level lite, hdtrace --level full, torch.profiler with memory, stacks and shapes. The job prints the
median time of its own steps (tests/jobs/step_time.py). A ratio is the median
over repeats of the time divided by the untraced time of the same repeat. Of
the agent, which follows such a job in windows, it is that of the processor time of
all steps, of a job that goes on for some windows.
"""
import argparse
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = "/usr/bin/python3"
TEST_ROOT = os.path.join(TOP, "scripts", "test-root")
JOB = os.path.join(TOP, "tests", "jobs", "step_time.py")
RUN_TIMEOUT_SECONDS = 300

# model: (steps, steps with --quick, what the operators are like)
MODELS = {"small": (3000, 400, "about 100 operators of a few us a step"),
          "large": (60, 15, "operators of 100 us and more"),
          "device": (1000, 200, "the small one in the root cuda, on a stand-in GPU whose kernels take no time of the CPU")}
# (model, configuration): highest ratio that the project promises.
PROMISES = {("small", "agent"): 1.2, ("large", "agent"): 1.03, ("small", "full"): 1.8, ("small", "lite"): 1.35, ("large", "full"): 1.03, ("large", "lite"): 1.03}
CONFIGURATIONS = ("untraced", "agent", "top", "lite", "full", "torch.profiler")


AGENT_STEPS = 6  # times as many as of the others


def command(configuration, model, steps, options, folder):
    if configuration == "agent":
        steps *= AGENT_STEPS
    job = [PYTHON, JOB, "--model", "small" if model == "device" else model, "--steps", str(steps)]
    if model == "device":
        job = [TEST_ROOT, "enter", root_of("cuda"), *job]
    if configuration in ("untraced", "agent", "top"):
        return job
    if configuration == "torch.profiler":
        return job + ["--profile"]
    tracer = [options.hdtrace, "run", "-q", "-o", folder, "--level", configuration]
    return tracer + (["--stats"] if options.stats else []) + ["--"] + job


def root_of(name):
    """Path of a test root; the bench ends where it cannot be made."""
    done = subprocess.run([TEST_ROOT, name], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"the root {name} cannot be made here; --model leaves it out")
    return done.stdout.strip()


def wait_for(condition):
    while not condition():
        time.sleep(0.05)


@contextlib.contextmanager
def following(configuration, options, folder):
    """What follows all jobs of the machine, while one runs."""
    if configuration == "top":
        with open(os.path.join(folder, "looks"), "wb") as looks:
            top = subprocess.Popen([options.hdtrace, "top", "-p", "all", "--json"], stdout=looks)
        try:
            wait_for(lambda: os.path.getsize(looks.name) or top.poll() is not None)
            yield
        finally:
            top.send_signal(signal.SIGINT)
            top.wait()
        return
    if configuration != "agent":
        yield
        return
    path, port = os.path.join(folder, "agent.conf"), os.path.join(folder, "port")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"[metrics]\nport = 0\n[store]\nurl = {folder}/audit.db\nspool = {folder}/spool\n[captures]\nfolder =\n")
    agent = subprocess.Popen([options.hdtrace, "agent", "--config", path, "--port-file", port])
    try:
        wait_for(lambda: os.path.exists(port) or agent.poll() is not None)
        yield
    finally:
        agent.terminate()
        if agent.wait() != 0:
            sys.exit(f"the agent failed with {agent.returncode}")


def step_time(configuration, model, steps, options):
    """Step times in microseconds as {"median": .., "processor": ..}, and what else the run said."""
    folder = tempfile.mkdtemp(prefix="hdtrace-bench-")
    try:
        with following(configuration, options, folder):
            done = subprocess.run(command(configuration, model, steps, options, folder), capture_output=True, text=True,
                                  timeout=RUN_TIMEOUT_SECONDS, env={**os.environ, "PYTHONWARNINGS": "ignore",
                                       "JOB_DEVICE": "cuda" if model == "device" else "cpu"})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    values = [line.split() for line in done.stdout.splitlines() if line.startswith("median_us ")]
    if done.returncode != 0 or not values:
        sys.exit(f"{configuration} on {model} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("median_us ")]
    return {"median": float(values[0][1]), "processor": float(values[0][3])}, said


def measure(model, options):
    """Configuration -> step times, one a repeat; and the last --stats text of each."""
    steps = MODELS[model][1 if options.quick else 0]
    # torch.profiler has nothing to ask a GPU that is not there.
    configurations = [name for name in options.configurations if model != "device" or name != "torch.profiler"]
    times = {configuration: [] for configuration in configurations}
    said = {}
    for repeat in range(options.repeats):
        for configuration in configurations:
            value, said[configuration] = step_time(configuration, model, steps, options)
            times[configuration].append(value)
            print(f"  {model} {repeat + 1}/{options.repeats} {configuration}: {value[average(configuration)]:.0f} us",
                  file=sys.stderr)
    return times, said


def average(configuration):
    return "processor" if configuration == "agent" else "median"


def print_table(model, times):
    """True when every promise was kept."""
    print(f"\n{model}: {MODELS[model][2]}")
    print(f"  {'':16}{'step us':>10}{'ratio':>8}{'from':>7}{'to':>7}{'promised':>10}")
    kept = True
    for configuration, values in times.items():
        kind = average(configuration)
        ratios = [value[kind] / plain[kind] for value, plain in zip(values, times["untraced"])]
        values = [value[kind] for value in values]
        ratio, promise = statistics.median(ratios), PROMISES.get((model, configuration))
        note = "" if promise is None else f"{promise:10.2f}"
        if promise is not None and ratio > promise:
            kept, note = False, note + "  over"
        print(f"  {configuration:16}{statistics.median(values):10.0f}{ratio:8.3f}{min(ratios):7.2f}{max(ratios):7.2f}{note}")
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hdtrace", default=os.path.join(TOP, "build", "hdtrace"), metavar="PATH")
    parser.add_argument("--quick", action="store_true", help="fewer steps and repeats")
    parser.add_argument("--repeats", type=int, default=0, help="default 5, with --quick 3")
    parser.add_argument("--model", action="append", choices=sorted(MODELS), help="default: both")
    parser.add_argument("--without", action="append", default=[], choices=CONFIGURATIONS[1:], help="leave this out")
    parser.add_argument("--stats", action="store_true", help="also print what hdtrace --stats says of the last run")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a ratio is over what is promised")
    options = parser.parse_args()
    options.hdtrace = os.path.abspath(options.hdtrace)
    options.repeats = options.repeats or (3 if options.quick else 5)
    options.configurations = [name for name in CONFIGURATIONS if name not in options.without]
    if os.geteuid() != 0 or not os.access(options.hdtrace, os.X_OK):
        sys.exit(f"root and an executable {options.hdtrace} are needed")
    kept = True
    for model in options.model or sorted(MODELS, reverse=True):
        times, said = measure(model, options)
        kept = print_table(model, times) and kept
        for configuration in said if options.stats else ():
            print("".join(f"  {configuration}: {line}\n" for line in said[configuration]), end="")
    return 0 if kept or not options.strict else 1


if __name__ == "__main__":
    sys.exit(main())
