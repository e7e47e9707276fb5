"""Memory of devices: its blocks and totals are what PyTorch's allocator says of itself in the same run."""
import json
import os

import invariants
from harness import COMPLETE, JOBS, PYTHON, Report, check, check_equal, program_path, test

KINDS = ("caching", "splitting", "streams", "graphs", "emptying", "devices", "resizing", "pinning", "sharing", "pools",
         "threads", "retrying")
SETTINGS = {"plain": {}, "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            "limits": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:21,roundup_power2_divisions:4"}}
# A block that another stream uses is not free yet when the next one is asked for: nothing waited for that stream.
TWO_DEVICES = {"STANDIN_CUDA_DEVICES": "2", "STANDIN_CLOCK": "waits", "STANDIN_CUDA_MEMORY_MB": "4096"}
ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
PINNED_BYTES = 20_000  # of the job's step of this name


def trace(context, *arguments, options=("--all-blocks",), out="out", environment=None):
    """Trace the job with these arguments from its start: (report, the lines that it printed)."""
    process = context.run(context.hdtrace, "run", "-o", context.path(out), *options, "--",
                          *context.command(PYTHON, program_path("device_blocks"), *arguments),
                          environment={**TWO_DEVICES, **(environment or {})})
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    return context.report(out), lines_of(process)


def lines_of(process):
    return [json.loads(line) for line in process.out.splitlines() if line.startswith("{")]


def events_of(report, device):
    """(time, bytes more, block) of a device, in order of time, frees first."""
    events = []
    for block in report.json["memory_blocks"]:
        if block["device"] == device:
            allocated = block["allocated_bytes"] or block["size"]
            events.append((block["start_time_ns"], 1, allocated, block))
            if block["end_time_ns"] is not None:
                events.append((block["end_time_ns"], 0, -allocated, block))
    return sorted(events, key=lambda event: event[:2])


def states_of(report, device, lines):
    """(live bytes, their peak since the line before, live blocks, all until then) at each line."""
    events, live, count, counted, states = events_of(report, device)[::-1], 0, 0, 0, []
    for line in lines:
        peak = live
        while events and events[-1][0] < line["time_ns"]:
            _, is_start, more, block = events.pop()
            live += more
            is_block = not block.get("remainder")
            count += is_block if is_start else -1
            counted += is_block and is_start
            peak = max(peak, live)
        states.append((live, peak, count, counted))
    return states


def numbered(numbers, value):
    return numbers.setdefault(value, len(numbers))


@test(root="cuda", device="cuda", each=SETTINGS)
def test_totals_are_the_allocators_own_after_every_step(context, settings):
    report, lines = trace(context, *KINDS, environment=SETTINGS[settings])
    check_equal(len(lines), 2 * len(KINDS), "steps")
    for index in range(2):
        device = f"cuda:{index}"
        want = [tuple(line["devices"][index][name] for name in ("allocated", "peak", "count", "counted")) for line in lines]
        check_equal(states_of(report, device, lines), want, f"bytes, peak and numbers of blocks of {device} after each step")
        exhausted = sum(event["device"] == device for event in report.live["out_of_memory"])
        check_equal(exhausted, lines[-1]["devices"][index]["exhausted"], f"times that {device} was exhausted")
        facts = report.live["devices"][device]
        check_equal(facts["unexplained_totals"], 0, f"unexplained totals of {device}")
        reserved = [line["devices"][index]["reserved"] for line in lines]
        check(facts["reserved_peak_bytes"] >= max(reserved), f"{device} reserved {facts}, the job said {reserved}")
    check_equal(report.live["target"]["device_allocator"], "native", "allocator of devices")
    check_equal(report.live["target"]["environment"], SETTINGS[settings], "environment of the target")
    invariants.check_schema(report)


@test(root="cuda", device="cuda", each=SETTINGS)
def test_blocks_are_those_of_the_allocators_history(context, settings):
    """Of another run, which was not traced: sizes as asked for, streams, and which addresses are the same."""
    environment, history = {**TWO_DEVICES, **SETTINGS[settings]}, context.path("history.json")
    report, lines = trace(context, *KINDS, environment=SETTINGS[settings])
    context.program("device_blocks", "--history", history, *KINDS, environment=environment).check_code(0)
    with open(history, encoding="utf-8") as source:
        want = json.load(source)
    for index in range(2):
        addresses, got = {}, []
        for time_ns, is_start, _, block in events_of(report, f"cuda:{index}"):
            if time_ns < lines[-1]["time_ns"]:
                got.append(["alloc" if is_start else "free_requested", block["size"], block["stream_id"],
                            numbered(addresses, block["device_addr"])])
        different = next((place for place, pair in enumerate(zip(got, want[index])) if pair[0] != pair[1]), None)
        check(got == want[index], f"{len(got)} events of cuda:{index}, want {len(want[index])}; the first that differs is",
              different, different is not None and (got[different], want[index][different]))


@test(root="cuda", device="cuda")
def test_totals_are_right_when_attached_in_the_middle(context):
    """What was there before is in the totals from the first block on, and a row where it is freed or used."""
    kinds = ("caching", "splitting", "streams", "devices", "threads")
    job = context.program("device_blocks", "--rounds", "1000", "--pause", "0.02", *kinds,
                          environment=TWO_DEVICES)
    context.wait_steps(job, 12)
    tracer = context.attach(job, "-d", "2", "--all-blocks")
    check_equal(tracer.wait(), COMPLETE, f"exit code of {tracer}")
    report, lines = context.report(), lines_of(job)
    job.stop()
    begin, end = report.live["first_time_ns"], report.live["last_time_ns"]
    inside = [line for line in lines if begin < line["time_ns"] < end]
    check(len(inside) > 2 * len(kinds), f"{len(inside)} steps inside the trace")
    for index in range(2):
        states = states_of(report, f"cuda:{index}", inside)
        check_equal({line["devices"][index]["allocated"] - state[0] for line, state in zip(inside, states)}, {0},
                    f"bytes of cuda:{index} that no row accounts for")
        unseen = {line["devices"][index]["count"] - state[2] for line, state in zip(inside, states)}
        check(len(unseen) == 1 and min(unseen) >= 0, f"blocks of cuda:{index} that are missing: {unseen}")
        check_equal(report.live["devices"][f"cuda:{index}"]["unexplained_totals"], 0, "unexplained totals")
        current = report.json["devices"][f"cuda:{index}"]["current"]
        check_equal(sum(bytes_ for name, bytes_ in current.items() if name != "Total"), current["Total"], "sum of categories")
    check(any(block["preexisting"] for block in report.json["memory_blocks"]), "no block is older than the trace")


@test(root="cuda", device="cuda")
def test_device_option_chooses_what_is_reported(context):
    trace(context, "devices", "pinning", options=())
    capture, found = context.path("out", "capture.hdt"), {}
    for choice in ("auto", "cuda", "cuda:1", "cpu", "cuda:0,cpu", "all"):
        process = context.run(context.hdtrace, "report", capture, "-o", context.path(choice), "--device", choice)
        check_equal(process.code, COMPLETE, f"exit code of {process}")
        report = context.report(choice)
        invariants.check_tasks(report.tasks)
        devices = {block["device"] for block in report.json["memory_blocks"]}
        check_equal(devices, set(report.json["devices"]) - {"pinned"}, f"devices of blocks with {choice}")
        found[choice] = devices
    both = {"cuda:0", "cuda:1"}
    check_equal(found, {"auto": both, "cuda": both, "cuda:1": {"cuda:1"}, "cpu": {"cpu"}, "cuda:0,cpu": {"cuda:0", "cpu"},
                        "all": both | {"cpu"}}, "devices")


@test
def test_devices_without_memory_are_told_with_those_that_have_some(context):
    context.trace_run(os.path.join(JOBS, "inplace_out.py"))
    process = context.run(context.hdtrace, "report", context.path("out"), "-o", context.path("again"), "--device", "cuda")
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    check("no memory was seen on the devices of --device, only on cpu" in process.err, process)
    check(not os.path.exists(context.report("again").path("memory.csv")), "there is a CSV without a row")


@test(root="cuda", device="cuda")
def test_device_option_of_run_leaves_the_cpus_allocator_alone(context):
    report, _ = trace(context, "caching", "pinning", options=("--device", "cuda"))
    check_equal(report.live["devices"].get("cpu", {}).get("reported"), False, "cpu reported")
    again = context.run(context.hdtrace, "report", context.path("out"), "-o", context.path("again"), "--device", "all")
    check_equal(again.code, COMPLETE, f"exit code of {again}")
    devices = {block["device"] for block in context.report("again").json["memory_blocks"]}
    check_equal(devices, {"cuda:0"}, "devices of blocks in the capture")


@test(needs_bpf=False, each=("gpu", "cuda:x", "cuda:256", "cpu:0", "", "cuda,", "cuda:"))
def test_what_is_no_device_is_refused(context, name):
    process = context.run(context.hdtrace, "report", context.folder, "--device", name)
    check(process.code == 2 and "--device is auto, all or a list" in process.err, process)


@test(root="cuda", device="cuda")
def test_pinned_memory_is_told_from_pageable_memory(context):
    report, _ = trace(context, "pinning", options=())
    pinned = [entry["bytes"] for entry in report.live["externals"] if entry["device"] == "pinned"]
    check_equal(pinned, [PINNED_BYTES] * len(pinned), "pinned storages")
    check(pinned, f"no pinned storage among {report.live['externals']}")


@test(root="cuda", device="cuda")
def test_lite_level_sees_the_same_blocks_of_devices(context):
    full, _ = trace(context, *KINDS)
    lite, _ = trace(context, *KINDS, options=("--all-blocks", "--level", "lite"), out="lite")
    counts = [{device: sorted(block["allocated_bytes"] for block in report.json["memory_blocks"]
                              if block["device"] == device) for device in ("cuda:0", "cuda:1")}
              for report in (full, lite)]
    check_equal(counts[1], counts[0], "blocks by device")


@test(root="cuda", device="cuda")
def test_the_asynchronous_back_end_is_told_and_its_memory_is_external(context):
    script = context.path("async.py")
    with open(script, "w", encoding="utf-8") as out:
        out.write("import torch\nkept = torch.ones(1000, device='cuda') + 1\n")
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", *context.command(PYTHON, script),
                          environment=ASYNC)
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    report = context.report()
    check_equal(report.live["target"]["environment"], ASYNC, "environment of the target")
    check_equal(report.live["target"]["device_allocator"], "cudaMallocAsync", "allocator of devices")
    check(any("cudaMallocAsync" in line for line in report.json["limitations"]), report.json["limitations"])


@test
def test_a_profiler_makes_no_block_of_the_cpu_count_twice(context):
    """With one, PyTorch calls the function that reports blocks of devices for those of the CPU too."""
    text = "import torch\n{}\nkept = [torch.ones(1000 + n) + 1 for n in range(20)]\n"
    counts = {}
    for name, more in (("without", ""), ("with", "torch.profiler.profile(profile_memory=True).__enter__()")):
        with open(context.path(name + ".py"), "w", encoding="utf-8") as out:
            out.write(text.format(more))
        report = context.trace_run(context.path(name + ".py"), out=name)
        counts[name] = sorted(int(row["size"]) for row in report.rows if int(row["size"]) >= 4000)
        check_equal(list(report.live["devices"]), ["cpu"], "devices")
    check_equal(counts["with"], counts["without"], "sizes of blocks")
    check_equal(len(counts["with"]), 40, "blocks")


@test(root="cuda", device="cuda")
def test_backward_runs_on_a_thread_of_its_own(context):
    """Its tasks have the phase, and no stack rather than an invented one; steps are counted on."""
    report = context.traced(os.path.join(JOBS, "mlp_adamw.py"))
    tasks = report.tasks
    threads = {task["thread_id"] for task in tasks if task["task_name"] in ("forward", "optimizer")}
    check_equal(len(threads), 1, "threads of forward and optimizer")
    here = [task for task in tasks if task["task_name"] == "backward" and task["thread_id"] in threads]
    there = [task for task in tasks if task["task_name"] == "backward" and task["thread_id"] not in threads]
    check_equal({task["node_name"] for task in here}, {"aten.ones_like.default"}, "what backward() itself does")
    check(len(there) > 10 * len(here) and len({task["thread_id"] for task in there}) == 1, f"{len(there)} tasks")
    check(all(not task["file_name"] for task in there), "a task of the engine's thread has a line")
    check_equal(report.live["counts"]["steps"], 3, "steps")
    gradients = [row for row in report.rows if row["type"] == "Gradient"]
    check(gradients and all(row["task_name"] == "backward" for row in gradients), f"{len(gradients)} gradients")
    invariants.check_report(report)


@test(root="cuda", device="cuda")
def test_workspace_that_a_library_keeps_is_no_activation(context):
    report = Report(context.traced(os.path.join(JOBS, "mlp_adamw.py")).folder)
    kept = [row for row in report.rows if row["type"] == "Workspace" and row["is_persistent"] == "1"]
    check(kept and all(int(row["size"]) > 4 << 20 for row in kept), f"{len(kept)} workspaces are persistent")
