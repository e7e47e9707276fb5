"""hdtrace top: its figures are the job's own, its screen is drawn and left as it should be."""
import contextlib
import json
import os
import signal

import jsonschema

from harness import (COMPLETE, FAILED, PROGRAMS, PYTHON, TOP, USAGE, check, check_equal, program_path, test,
                     wait_until)
from terminal import Terminal

PAUSE_SECONDS = 1.0
DEVICE_MIB = 4096
TWO_DEVICES = {"STANDIN_CUDA_DEVICES": "2", "STANDIN_CLOCK": "waits", "STANDIN_CUDA_MEMORY_MB": str(DEVICE_MIB)}
STANDIN = os.path.join(TOP, "build", "standin")
SCHEMA = os.path.join(TOP, "docs", "top.schema.json")
INTERRUPT = b"\x03"


def looks_of(text):
    """The objects that were written one behind the other."""
    decoder, looks, at = json.JSONDecoder(), [], 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        try:
            look, at = decoder.raw_decode(text, at)
        except ValueError:
            break  # being written
        looks.append(look)
    return looks


def check_schema(look):
    with open(SCHEMA, encoding="utf-8") as source:
        jsonschema.validate(look, json.load(source))


def device_of(look, name, rank=0):
    return next((device for device in look["ranks"][rank]["devices"] if device["name"] == name), None)


@contextlib.contextmanager
def terminal(context, *options, **arguments):
    opened = Terminal([context.hdtrace, "top", *options], **arguments)
    try:
        yield opened
    finally:
        opened.stop()


@test(root="cuda", device="cuda")
def test_figures_are_those_of_the_jobs_own_allocator(context):
    job = context.program("device_blocks", "--rounds", "2", "--pause", PAUSE_SECONDS, "caching", "devices", "emptying",
                          environment=TWO_DEVICES)
    wait_until(lambda: "step of" in job.out, lambda: f"a step of {job}", 40)
    top = context.start(context.hdtrace, "top", "-p", job.pid, "--json", "--interval", "0.2",
                        environment={**TWO_DEVICES, "LD_LIBRARY_PATH": STANDIN})
    top.check_code(COMPLETE)
    steps = [json.loads(line) for line in job.out.splitlines() if line.startswith("{")]
    compared, highest = set(), {}
    for look in looks_of(top.out):
        check_schema(look)
        for number, step in enumerate(steps):
            # All until then was taken, and the job did nothing since.
            quiet = 0 <= look["monotonic_ns"] - step["time_ns"] < PAUSE_SECONDS * 0.5e9
            for index, own in enumerate(step["devices"] if quiet and look["ranks"] else ()):
                device = device_of(look, f"cuda:{index}")
                if device is None or device["reserved_bytes"] is None:
                    continue  # its allocator has told nothing since the attach; what Python holds there may be known
                check_equal((device["bytes"], device["reserved_bytes"]), (own["allocated"], own["reserved"]),
                            f"bytes and reserved of cuda:{index} after step {number}")
                check_equal(device["size_bytes"], DEVICE_MIB << 20, "size of the device, by NVML")
                check(device["headroom_bytes"] <= device["size_bytes"] - own["reserved"], "headroom:", device)
                compared.add((number, index))
                if (number, index) not in highest:
                    highest[number, index] = device["peak_bytes"]
    check(len(compared) >= 5, "few steps could be compared:", sorted(compared))
    for number, index in highest:
        before = [first for first, other in highest if other == index and first < number]
        if before and max(before) == number - 1:
            check_equal(highest[number, index],
                        max(highest[number - 1, index], steps[number]["devices"][index]["peak"]),
                        f"peak of cuda:{index} after step {number}")
    check_equal(sum(looks_of(top.out)[-1]["ranks"][0]["lost"].values()), 0, "losses")


@test
def test_the_end_is_that_of_the_report(context):
    job = context.program("loop", "--steps", "60", "--pause", "0.2", "--optimizer", "adamw")
    wait_until(lambda: "ready" in job.out, lambda: f"the model of {job}")
    tracer = context.attach(job)
    full = context.start(context.hdtrace, "top", "-p", job.pid, "--level", "full", "--json", "--interval", "0.1")
    lite = context.start(context.hdtrace, "top", "-p", job.pid, "--json", "--interval", "0.1")
    tracer.check_code(COMPLETE)
    full.check_code(COMPLETE)
    lite.check_code(COMPLETE)
    totals = context.report().json["summary"]
    last, last_lite = looks_of(full.out)[-1], looks_of(lite.out)[-1]
    check_schema(last)
    check_schema(last_lite)
    cpu, cpu_lite = device_of(last, "cpu"), device_of(last_lite, "cpu")
    for category in ("Parameter", "Optstate"):
        check_equal(cpu["categories"][category], totals["current_breakdown_bytes"][category], category)
        check_equal(cpu_lite["categories"][category], totals["current_breakdown_bytes"][category], category + " at lite")
    check_equal(sum(cpu["categories"].values()), cpu["bytes"], "sum of the categories")
    check_equal(sum(value or 0 for value in cpu_lite["categories"].values()), cpu_lite["bytes"], "sum at lite")
    check_equal(cpu_lite["categories"]["Activation"], None, "what lite cannot know")
    steps = len(context.report().steps)
    for look in (last, last_lite):
        rank = look["ranks"][0]
        check(0 < rank["steps"] <= 60 and abs(rank["steps"] - steps) < 30, "steps:", rank["steps"], "report:", steps)
        check(0.02 < rank["step_seconds"] < 5, "seconds of a step:", rank["step_seconds"])
        check(any(place["name"] == "Sequential.0" for place in rank["modules"]), "modules:", rank["modules"])
    check(all(device["bytes"] > 0 for device in last_lite["ranks"][0]["devices"]), last_lite)
    check_equal(last_lite["ranks"][0]["lines"], None, "lines at lite")
    with open(program_path("loop"), encoding="utf-8") as source:
        line, = (number for number, text in enumerate(source, 1) if "torch.randn(" in text)
    check(any(place["name"].endswith(f"loop.py:{line}") for look in looks_of(full.out) for place in look["ranks"][0]["lines"]),
          "no line of the job:", last["ranks"][0]["lines"])


@test
def test_who_waits_is_told_of_ranks_that_are_found_by_their_launcher(context):
    job = context.start(PYTHON, os.path.join(PROGRAMS, "ranks_waiting.py"), "gloo", "2")
    wait_until(lambda: "round 20" in job.out, lambda: f"collectives of {job}")
    top = context.start(context.hdtrace, "top", "-p", job.pid, "--json", "--interval", "0.2")
    wait_until(lambda: looks_of(top.out) and all(rank["collectives"] > 20 for rank in looks_of(top.out)[-1]["ranks"]),
               lambda: f"collectives in {top}")
    with open(context.path("stop"), "w", encoding="utf-8"):
        pass
    wait_until(lambda: any(rank["waits"] and rank["waits"]["seconds"] > 1 for rank in looks_of(top.out)[-1]["ranks"]),
               lambda: f"one that waits in {top}")
    look = looks_of(top.out)[-1]
    check_schema(look)
    waits = {rank["rank"]: rank["waits"] for rank in look["ranks"]}
    check_equal(sorted(waits), [0, 1], "ranks, without their launcher")
    check_equal(waits[1], None, "the one that is late does not wait")
    check_equal((waits[0]["kind"], waits[0]["absent_ranks"]), ("all_reduce", [1]), "who is absent")
    top.send(signal.SIGINT)
    top.check_code(COMPLETE)


def check_head(text):
    for word in ("hdtrace top", "RANK", "NOW", "PEAK", "RESERV", "HEAD", "WAITS", "MODULES", "LINES", "q quit"):
        check(word in text, "no", word, "on the screen:\n" + text)


@test
def test_the_screen_is_drawn_at_every_size_and_given_back(context):
    job = context.trained("loop", "--optimizer", "adamw")
    with terminal(context, "-p", job.pid, "--level", "full", "--interval", "0.3") as screen:
        check_head(screen.wait_screen(r"Sequential\.0"))
        text = screen.wait_screen(r"^ +0 +%d cpu +[0-9.]+K" % job.pid)
        check("Parameter" in text and "Optstate" in text and "lost nothing" in text, "the screen:\n" + text)
        check(screen.colours(), "there is no colour")
        screen.resize(132, 50)
        screen.wait_screen(r"PHASE +STEP +WAITS")
        screen.resize(50, 10)
        screen.wait_screen(r"MODULES|last 5 min")
        screen.resize(30, 5)
        screen.wait_screen("too small")
        screen.resize(80, 24)
        check_head(screen.wait_screen("MODULES"))
        screen.send(b"h")
        screen.wait_screen("allocation rate, step time")
        screen.send(b"hm")
        screen.wait_screen("sort: memory")
        screen.send(b" ")
        screen.wait_screen("PAUSED")
        screen.send(b"q")
        check_equal(screen.wait(), COMPLETE, "exit code after q")
        check(screen.is_restored(), "the terminal is not as it was")
    with terminal(context, "-p", job.pid, environment={"NO_COLOR": "1", "LC_ALL": "C"}) as screen:
        screen.wait_screen(r"MODULES")
        screen.send(INTERRUPT)
        check_equal(screen.wait(), COMPLETE, "exit code after Ctrl-C")
        check(screen.is_restored(), "the terminal is not as it was")
        check_equal(screen.colours(), [], "colours with NO_COLOR")
        check(screen.output.isascii(), "more than ASCII in the C locale")
    with terminal(context, "-p", job.pid) as screen:
        screen.wait_screen("MODULES")
        screen.hang_up()
        check_equal(screen.wait(), COMPLETE, "exit code after the terminal went")
    with terminal(context, "-p", job.pid, environment={"TERM": "dumb"}) as screen:
        check_equal(screen.wait(), FAILED, "exit code on a dumb terminal")
        check(b"TERM=dumb" in screen.output, "no reason:", screen.output)
    with terminal(context, "-p", job.pid) as screen:
        screen.wait_screen("MODULES")
        context.wait_steps(job, 2)  # nothing of all this has disturbed it
        job.stop()
        check_equal(screen.wait(), COMPLETE, "exit code after the job's end")
        check(screen.is_restored(), "the terminal is not as it was")
        check(b"all processes have ended" in screen.output, "no reason:", screen.output[-300:])


@test
def test_wrong_uses_of_top_say_what_to_do(context):
    for options, code, words in ((("--once", "--json"), USAGE, "-p PID"), (("-p", "1", "--once"), USAGE, "--json"),
                                 (("-p", "1", "--json", "--interval", "0"), USAGE, "--interval"),
                                 (("-p", os.getpid(), "--interval", "1"), FAILED, "--once --json")):
        process = context.run(context.hdtrace, "top", *options)
        process.check_code(code)
        check(words in process.err, words, "is not in", process)
