"""What drivers give: segments, calls that fail, exhausted memory, programs without PyTorch, other accelerators."""
import collections
import csv
import json
import os
import re
import shutil

import invariants
from device_test import KINDS, SETTINGS, TWO_DEVICES, lines_of, trace
from harness import COMPLETE, JOBS, PROGRAMS, PYTHON, TOP, Report, check, check_equal, program_path, test

MEBIBYTE = 1 << 20
STANDINS = os.path.join(TOP, "build", "standin")
REFUSED = 77  # of tests/jobs/driver_stub.c


def script(name):
    return os.path.join(JOBS, name + ".py")


def segments_of(report, rank=0):
    with open(os.path.join(report.folder, f"rank_{rank}", f"rank_{rank}_segments.csv"), newline="", encoding="utf-8") as source:
        return list(csv.DictReader(source))


def held(segments, device, time_ns):
    """(bytes, number) of the allocator's segments of a device at a time."""
    sizes = [int(row["size"]) for row in segments
             if row["device"] == device and row["allocator"] == "1" and int(row["start_time_ns"]) < time_ns
             and (not row["end_time_ns"] or int(row["end_time_ns"]) >= time_ns)]
    return sum(sizes), len(sizes)


@test(root="cuda", device="cuda", each=SETTINGS)
def test_segments_are_what_the_allocator_holds_after_every_step(context, settings):
    report, lines = trace(context, *KINDS, environment=SETTINGS[settings])
    segments = segments_of(report)
    for index in range(2):
        got = [held(segments, f"cuda:{index}", line["time_ns"]) for line in lines]
        want = [(line["devices"][index]["reserved"], line["devices"][index]["segments"]) for line in lines]
        if settings == "expandable":  # the allocator counts an expandable segment once, whatever is mapped of it
            got, want = [[size for size, _ in side] for side in (got, want)]
        check_equal(got, want, f"bytes and number of segments of cuda:{index} after each step")
        facts = report.live["devices"][f"cuda:{index}"]
        check_equal(facts["outside_peak_bytes"], 0, "bytes outside the allocator")
    releases = {release["in_operator"] for release in report.live["segments"]["releases"]}
    check_equal(releases, {True, False}, "releases inside operators, which found no memory, and by empty_cache")
    # Twice in each round: before what is cached goes back, and when that was of no use.
    refused = {failure["function"] for failure in report.live["segments"]["failures"]}
    check_equal(refused, {"cuMemCreate" if settings == "expandable" else "cudaMalloc"}, "failed calls")


def driver_apart(folder):
    """Copies of the stand-ins in which only PyTorch itself wants the driver: the others have it by another name."""
    os.makedirs(folder)
    for name in "libcuda.so.1", "libcudart.so.12", "libnccl.so.2":
        with open(os.path.join(STANDINS, name), "rb") as source:
            library = source.read()
        if name == "libcuda.so.1":
            shutil.copy(os.path.join(STANDINS, name), folder)
            name = "libcuDa.so.1"
        with open(os.path.join(folder, name), "wb") as target:
            target.write(library.replace(b"\0libcuda.so.1\0", b"\0libcuDa.so.1\0"))


@test(root="cuda", device="cuda", each=("found", "another"))
def test_a_driver_that_pytorch_loads_late_is_there_with_its_first_mapping(context, which):
    folder, other = context.path("apart"), context.path("other")
    driver_apart(folder)
    os.makedirs(other)
    other = shutil.copy(os.path.join(STANDINS, "libcuda.so.1"), other)
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", *context.command(
        "sh", "-c", 'LD_LIBRARY_PATH="$0:$LD_LIBRARY_PATH" exec "$@"', folder, PYTHON, program_path("late_driver"),
        *([other] if which == "another" else [])), environment=SETTINGS["expandable"])
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    segments = segments_of(context.report())
    check_equal({row["function"] for row in segments}, {"cuMemMap"}, "what mapped")
    reserved = int(re.search(r"^reserved (\d+)$", process.out, re.MULTILINE).group(1))
    check_equal(sum(int(row["size"]) for row in segments if not row["end_time_ns"]), reserved, "bytes that stay mapped")


@test(root="cuda", device="cuda")
def test_kernels_are_named_and_counted_by_task(context):
    report = context.trace_run(script("mlp_adamw"))
    kernels = report.live["kernels"]
    check(kernels and all(kernel["launches"] > 0 for kernel in kernels), "no kernels:", kernels)
    check(all(kernel["name"] for kernel in kernels), "kernels without a name:", kernels)
    check(any("softmax" in kernel["name"] for kernel in kernels), "no kernel of softmax:", kernels)
    by_task = sum(int(task["launches"]) for task in report.tasks)
    check(0 < by_task <= sum(kernel["launches"] for kernel in kernels), f"{by_task} launches by tasks")


@test(root="cuda", device="cuda", each=("plain", "expandable"))
def test_exhausted_memory_has_its_holders(context, settings):
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--",
                          *context.command(PYTHON, program_path("exhausting"), "--times", "2"),
                          environment={"STANDIN_CUDA_MEMORY_MB": "1024", **SETTINGS[settings]})
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    report, lines = context.report(), lines_of(process)
    check_equal(len(lines), 2, f"times that the job ran out of memory: {process}")
    events = report.live["out_of_memory"]
    check_equal(len(events), 2, "times in the report")
    for event, line in zip(events, lines):
        check_equal((event["requested_bytes"], event["allocated_bytes"], event["reserved_bytes"]),
                    (line["asked"], line["allocated"], line["reserved"]), "asked, allocated and reserved")
        check_equal([block["bytes"] for block in event["blocks"][:3]], [300 * MEBIBYTE, 100 * MEBIBYTE, 6 * MEBIBYTE],
                    "the largest blocks")
        check(event["file_name"].endswith("exhausting.py"), "where it happened:", event["file_name"])
        check_equal(sum(event["categories"].values()), event["allocated_bytes"], "sum of categories")
        check_equal(event["lines"][0]["bytes"], 300 * MEBIBYTE, "bytes of the line that holds most")
        check_equal([(module["graph_name"], module["bytes"]) for module in event["modules"] if module["graph_name"]],
                    [("Cache", 300 * MEBIBYTE)], "modules")
        # Every third block of 6 MiB went: that is the largest piece, or two or three of them where the ends meet free ones.
        gap = event["largest_gap_bytes"]
        check(6 * MEBIBYTE <= gap <= 20 * MEBIBYTE, f"largest gap {gap}")
        check_equal(event["missing_bytes"], 600 * MEBIBYTE - gap, "missing bytes")
    check("out of memory" in process.err, f"the summary does not say it: {process}")
    check(report.live["segments"]["failure_count"] >= 2, "refused calls of the driver")
    invariants.check_schema(report)


@test(root="cuda", device="cuda")
def test_pools_of_the_driver_give_the_blocks_of_cudaMallocAsync(context):
    """The same blocks as those of the allocator's own back end, in the same operators."""
    reports = {}
    for name, environment in (("native", {}), ("pools", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})):
        process = context.run(context.hdtrace, "run", "-o", context.path(name), "--", *context.command(PYTHON, script("mlp_adamw")),
                              environment=environment)
        check_equal(process.code, COMPLETE, f"exit code of {process}")
        reports[name] = [(row["node_name"], row["size"], row["producer_task"], row["is_persistent"], row["user_tasks"])
                         for row in Report(context.path(name)).rows]
    check(len(reports["native"]) > 100, "the job has few blocks")
    different = [pair for pair in zip(reports["native"], reports["pools"]) if pair[0] != pair[1]]
    check(len(reports["native"]) == len(reports["pools"]) and not different,
          f"{len(reports['native'])} blocks, {len(reports['pools'])} from pools; different:", different[:3])


# --- without PyTorch ------------------------------------------------------------------

def build(context, source, out, *options):
    process = context.run("gcc", "-O2", "-o", out, os.path.join(PROGRAMS, source), *options)
    check_equal(process.code, 0, f"exit code of {process}")
    return out


@test(root="cuda", each=("runtime", "driver"))
def test_program_without_pytorch_has_its_segments_as_blocks(context, interface):
    """From its first call on, whether or not it does anything before; refused calls are no memory."""
    context.run(*context.command("true")).check_code(0)  # the stand-ins are there
    program = build(context, "device_program.c", context.path("program"), f"-L{STANDINS}", "-l:libcudart.so.12",
                    "-l:libcuda.so.1")
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", program, interface,
                          environment={"LD_LIBRARY_PATH": STANDINS, **TWO_DEVICES})
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    report, words = context.report(), [line.split() for line in process.out.splitlines()]
    given = [(name, address, size) for name, address, size in (word for word in words if len(word) == 3)
             if name.startswith("cu")]
    refused = [(word[1], int(word[2])) for word in words if word[:1] == ["refused"]]
    segments = segments_of(report)
    check_equal([(row["function"], row["device_addr"], row["size"]) for row in segments], given, "segments")
    check_equal([(row["function"], row["bytes"]) for row in report.live["segments"]["failures"]], refused, "refused calls")
    freed = sum(word[0] == "freed" for word in words if word)
    check_equal(sum(bool(row["end_time_ns"]) for row in segments), freed, "segments that ended")
    callers = {row["caller"].split("+")[0] for row in segments}
    check(callers <= {"program!weights_allocate", "program!main"}, "callers:", callers)
    names = {block["node_name"] for block in report.json["memory_blocks"]}
    check(names <= {"native.weights_allocate", "native.main"} and names, "names of blocks:", names)
    blocks = [(block["device_addr"], str(block["size"])) for block in report.json["memory_blocks"]]
    check_equal(blocks, [pair[1:] for pair, row in zip(given, segments) if row["device"] != "pinned"], "blocks")
    check_equal({row["device"] for row in segments if row["function"] == "cudaMalloc"} - {"cuda:0", "cuda:1"}, set(), "devices")
    invariants.check_schema(report)


STATIC = {"symbols": (), "stripped": ("-s",), "threads": (), "stripped_threads": ("-s",)}


@test(root="cuda", each=STATIC)
def test_program_with_a_static_runtime_has_its_segments_from_its_first_call_on(context, kind):
    """That loads the driver by name, calls it at once, and hands it variables in which something else stands soon after."""
    context.run(*context.command("true")).check_code(0)  # the stand-ins are there
    program, threads = build(context, "static_runtime.c", context.path("program"), "-pthread", *STATIC[kind]), "threads" in kind
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", program, *(["4"] if threads else []),
                          environment={"LD_LIBRARY_PATH": STANDINS})
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    order = sorted if threads else list
    words = [line.split() for line in process.out.splitlines()]
    report, is_stripped = context.report(), "stripped" in kind
    segments, functions = segments_of(report), ("cuMemAlloc_v2", "cuMemFree_v2") if is_stripped else ("cudaMalloc", "cudaFree")
    check_equal(order((row["device_addr"], row["size"]) for row in segments),
                order(tuple(word[1:]) for word in words if word[0] == "cudaMalloc"), "segments")
    check_equal({(row["function"], row["certain"]) for row in segments}, {(functions[0], "1")}, "functions and certainty")
    check_equal(sorted(row["device_addr"] for row in segments if row["end_time_ns"]),
                sorted(word[1] for word in words if word[0] == "freed"), "freed")
    refused = [(functions[0], int(word[1])) if word[0] == "refused" else (functions[1], 0) for word in words if "refused" in word[0]]
    check_equal(order((row["function"], row["bytes"]) for row in report.live["segments"]["failures"]), order(refused), "refused calls")
    check_equal(report.live["segments"]["unknown_frees"], 0, "unknown frees")
    callers = {row["caller"].split("+")[0] for row in segments}
    check_equal(callers, {"program" if is_stripped else "program!weights_allocate"}, "callers")
    names = collections.Counter(line.removeprefix("launched ") for line in process.out.splitlines() if line.startswith("launched"))
    if is_stripped:
        names[None] = names.pop("scale_kernel")  # its stub has no name
    check_equal({kernel["name"]: kernel["launches"] for kernel in report.live["kernels"]}, dict(names), "kernels")
    invariants.check_schema(report)


def trace_program(context, *arguments):
    """Segments, report and the words of each line that a plain program printed."""
    context.run(*context.command("true")).check_code(0)  # the stand-ins are there
    program = build(context, "device_program.c", context.path("program"), f"-L{STANDINS}", "-l:libcudart.so.12",
                    "-l:libcuda.so.1")
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", program, *arguments,
                          environment={"LD_LIBRARY_PATH": STANDINS, **TWO_DEVICES})
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    report = context.report()
    invariants.check_schema(report)
    return segments_of(report), report, [line.split() for line in process.out.splitlines()]


STARTERS = {"env": ["env", f"LD_LIBRARY_PATH={STANDINS}", "nice", "-n", "1", "PROGRAM", "runtime"],
            "exec": ["sh", "-c", f"LD_LIBRARY_PATH={STANDINS} exec PROGRAM runtime"],
            "child": ["bash", "-c", f"export LD_LIBRARY_PATH={STANDINS}; PROGRAM runtime; PROGRAM runtime; true"],
            "script": ["SCRIPT"]}


@test(root="cuda", each=STARTERS)
def test_program_that_a_command_starts_is_seen_from_its_first_call_on(context, kind):
    """By exec or as a child; the same program that somebody else runs meanwhile is not."""
    context.run(*context.command("true")).check_code(0)
    program = build(context, "device_program.c", context.path("program"), f"-L{STANDINS}", "-l:libcudart.so.12",
                    "-l:libcuda.so.1")
    with open(context.path("script.sh"), "w", encoding="utf-8") as script:
        script.write(f"#!/bin/sh\nexport LD_LIBRARY_PATH={STANDINS}\ntrue\n{program} runtime\ntrue\n")
    os.chmod(context.path("script.sh"), 0o755)
    other = context.start(program, "loop", environment={"LD_LIBRARY_PATH": STANDINS})
    context.wait_steps(other, 2)
    command = [word.replace("PROGRAM", program).replace("SCRIPT", script.name) for word in STARTERS[kind]]
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", *command, environment=TWO_DEVICES)
    other.check_alive()
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    words = [line.split() for line in process.out.splitlines()]
    given = [(word[0], word[1], word[2], "1") for word in words if word[0].startswith("cu")]
    got = []
    for rank in range(kind == "child" and 2 or 1):
        report = context.report(rank=rank)
        segments = segments_of(report, rank)
        got += [(row["function"], row["device_addr"], row["size"], row["certain"]) for row in segments]
        callers = {row["caller"].split("+")[0] for row in segments}
        check_equal(callers, {"program!weights_allocate", "program!main"}, "callers")
        names = {block["node_name"] for block in report.json["memory_blocks"]}
        check_equal(names, {"native.weights_allocate", "native.main"}, "names of blocks")
        invariants.check_schema(report)
    check_equal(got, given, "segments")
    freed = sum(word[0] == "freed" for word in words)
    check_equal(context.report().live["segments"]["failure_count"], 1, "refused calls")
    check(freed, "nothing was freed")


@test(root="cuda")
def test_memory_of_other_shapes_has_its_size(context):
    """Rows with a pitch, arrays by their elements, imported memory, which is in no total."""
    segments, report, words = trace_program(context, "shapes")
    check_equal([(row["function"], row["device_addr"], row["size"]) for row in segments],
                [tuple(word) for word in words if word[0].startswith("cu")], "segments")
    check_equal([(row["function"], str(row["bytes"])) for row in report.live["segments"]["failures"]],
                [tuple(word[1:]) for word in words if word[0] == "refused"], "refused calls")
    check_equal({row["device_addr"] for row in segments if row["end_time_ns"]}, {word[1] for word in words if word[0] == "freed"},
                "segments that ended")
    kinds = {row["function"]: row["memory"] for row in segments}
    check_equal({name for name, kind in kinds.items() if kind == "array"}, {name for name in kinds if "Array" in name}, "arrays")
    check_equal({name for name, kind in kinds.items() if kind == "imported"}, {name for name in kinds if "Import" in name},
                "imported memory")
    held = sum(int(row["size"]) for row in segments if not row["end_time_ns"] and row["memory"] != "imported")
    check_equal(report.live["devices"]["cuda:0"]["outside_bytes"], held, "bytes held at the end")
    check_equal(report.live["segments"]["unsized"], 1, "memory of no known size")
    blocks = [block["size"] for block in report.json["memory_blocks"]]
    check_equal(sorted(blocks), sorted(int(row["size"]) for row in segments if row["memory"] != "imported"), "blocks")
    check_equal([sum(word in line for line in report.json["limitations"]) for word in ("imported", "Arrays", "unsized")], [1, 1, 1],
                "limitations")


@test(root="cuda")
def test_devices_of_segments_follow_contexts_pools_and_properties(context):
    segments, _, words = trace_program(context, "contexts")
    want = ["cuda:" + word[1] if word[0] == "device" else word[0] for word in words if not word[0].startswith("cu")]
    got = [row["memory"] if row["memory"] in ("imported", "pinned") else row["device"] for row in segments]
    check_equal(got, want, f"devices of {segments}")
    check_equal([(row["device_addr"], row["size"]) for row in segments],
                [tuple(word[1:]) for word in words if word[0].startswith("cu")], "addresses and sizes")


ATTACHED = {"shared": ("device_program.c", f"-L{STANDINS}", "-l:libcudart.so.12", "-l:libcuda.so.1"),
            "static": ("static_runtime.c", "-pthread"), "stripped": ("static_runtime.c", "-pthread", "-s")}


@test(root="cuda", each=ATTACHED)
def test_program_without_pytorch_is_attached_to(context, kind):
    """What it has is not known, what it takes and gives back from then on is."""
    context.run(*context.command("true")).check_code(0)
    source, *options = ATTACHED[kind]
    program = build(context, source, context.path("program"), *options)
    job = context.start(program, "loop", environment={"LD_LIBRARY_PATH": STANDINS})
    context.wait_steps(job, 3)
    tracer = context.attach(job, "-d", "2")
    check_equal(tracer.wait(), COMPLETE, f"exit code of {tracer}")
    job.check_alive()
    report = context.report()
    segments = segments_of(report)
    check(len(segments) > 50, f"{len(segments)} segments in two seconds")
    check_equal({(row["size"], row["device"], row["certain"]) for row in segments}, {(str(2 * MEBIBYTE), "cuda:0", "1")},
                "size, device and certainty of all segments")
    caller = "program" if kind == "stripped" else "program!weights_allocate"
    check_equal({row["caller"].split("+")[0] for row in segments}, {caller}, "callers")
    check(sum(not row["end_time_ns"] for row in segments) <= 1, "segments that did not end")
    check(report.live["segments"]["unknown_frees"] <= 1, "unknown frees", report.live["segments"])
    check_equal(report.live["segments"]["failures"], [], "failed calls")


# --- accelerators that are known from their documents only ---------------------------------

GIVES = {"hip": ("libamdhip64.so.6", "cuda:0", {"hipMalloc": (0, 1), "hipExtMallocWithFlags": (0, 1), "hipMallocAsync": (0, 1),
                                               "hipMallocFromPoolAsync": (0, 1), "hipMallocManaged": (0, 1),
                                               "hipHostMalloc": (0, 1), "hipHostAlloc": (0, 1), "hipMallocHost": (0, 1),
                                               "hipMemCreate": (0, 1)},
                 ("hipFree", "hipFreeAsync", "hipHostFree", "hipHostRegister", "hipHostUnregister", "hipMemMap",
                  "hipMemUnmap", "hipMemRelease", "hipSetDevice", "hipLaunchKernel", "hipModuleLaunchKernel",
                  "hipGraphLaunch", "hipFreeHost", "hipLaunchCooperativeKernel", "hipExtModuleLaunchKernel",
                  "hipModuleGetFunction")),
         "ascend": ("libascendcl.so", "npu:0", {"aclrtMalloc": (0, 1), "aclrtMallocAlign32": (0, 1),
                                                "aclrtMallocCached": (0, 1), "aclrtMallocHost": (0, 1),
                                                "aclrtMallocWithCfg": (0, 1), "aclrtMallocHostWithCfg": (0, 1),
                                                "aclrtMallocPhysical": (0, 1)},
                    ("aclrtFree", "aclrtFreeHost", "aclrtFreePhysical", "aclrtMapMem", "aclrtUnmapMem", "aclrtSetDevice")),
         "xpu": ("libze_loader.so.1", "xpu:0", {"zeMemAllocDevice": (5, 2), "zeMemAllocShared": (6, 3),
                                                "zeMemAllocHost": (4, 2)},
                 ("zeMemFree", "zeMemFreeExt", "zeVirtualMemMap", "zeVirtualMemUnmap"))}
# Names, and the place of the address.
FREES = {"hip": (("hipFree", 0), ("hipFreeAsync", 0)), "ascend": (("aclrtFree", 0),), "xpu": (("zeMemFree", 1), ("zeMemFreeExt", 2))}
MAPPINGS = {"hip": ("hipMemMap", "hipMemUnmap", 0), "ascend": ("aclrtMapMem", "aclrtUnmapMem", 0),
            "xpu": ("zeVirtualMemMap", "zeVirtualMemUnmap", 1)}
PHYSICAL = ("hipMemCreate", "aclrtMallocPhysical")  # memory without an address


def arguments_of(places):
    """Eight arguments of a call: a result pointer and a size at these places."""
    result, size = places
    return ["result" if place == result else 4 * MEBIBYTE if place == size else 0 for place in range(8)]


@test(each=GIVES)
def test_catalogue_of_accelerators_reads_every_call(context, kind):
    library, device, gives, takes = GIVES[kind]
    with open(context.path("names.h"), "w", encoding="ascii") as out:
        out.writelines(f"GIVE({name}, {result}, {size})\n" for name, (result, size) in gives.items())
        out.writelines(f"TAKE({name})\n" for name in takes)
    stub = build(context, "driver_stub.c", context.path(library), "-shared", "-fPIC",
                 f"-DNAMES=\"{context.path('names.h')}\"")
    calls = [[name, arguments_of(places)] for name, places in gives.items()]
    # What was given last is given back, and a refusal is none.
    first = next(iter(gives))
    for free, place in FREES[kind]:
        calls += [[first, arguments_of(gives[first])], [free, ["last" if at == place else 0 for at in range(8)]]]
    calls.append([first, [1 << 40 if argument == 4 * MEBIBYTE else argument for argument in arguments_of(gives[first])]])
    map_name, unmap_name, place = MAPPINGS[kind]
    calls += [[name, ([0] * place + [0x700000000000, 2 * MEBIBYTE] + [0] * 6)[:8]] for name in (map_name, unmap_name)]
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", PYTHON, program_path("driver_player"),
                          stub, json.dumps(calls))
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    report = context.report()
    played = [json.loads(line) for line in process.out.splitlines() if line.startswith("[")]
    check_equal(len(played), len(calls), f"calls of {process}")
    want = [(name, f"{result:#x}", str(4 * MEBIBYTE)) for name, status, result in played
            if name in gives and name not in PHYSICAL and not status]
    want.append((map_name, "0x700000000000", str(2 * MEBIBYTE)))
    segments = segments_of(report)
    check_equal([(row["function"], row["device_addr"], row["size"]) for row in segments], want, "segments")
    ended = {row["device_addr"] for row in segments if row["end_time_ns"]}
    check_equal(len(ended), len(FREES[kind]) + 1, f"segments that ended: {segments}")
    hosts = [row["device"] for row in segments if "Host" in row["function"]]
    check(hosts and set(hosts) == {"pinned"}, "host memory:", hosts)
    check_equal({row["device"] for row in segments} - {"pinned"}, {device}, "devices")
    failures = report.live["segments"]["failures"]
    check_equal([(failure["function"], failure["bytes"], failure["code"]) for failure in failures], [(first, 1 << 40, REFUSED)],
                "refused calls")
