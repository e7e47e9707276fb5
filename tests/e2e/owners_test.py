"""What holds the memory of a job that has run before hdtrace came, against what the job itself says."""
import re

from harness import COMPLETE, check, check_equal, say, test

ATTACH_SECONDS = 2.0
MANY_BLOCKS = 200  # 1,002 modules
FLAT = {"flat": 1, "views": 1, "sharded": 13}  # storages of each way


def holders(job):
    """Address -> (type, bytes, name), as the job printed it."""
    found = {}
    for kind, address, size, name in re.findall(r"^holds (\S+) (\S+) (\d+) (.*)$", job.out, re.M):
        found.setdefault(int(address, 16), (kind, int(size), name))
    return found


def check_owners(context, *arguments, program="owners"):
    job = context.trained(program, *arguments)
    context.attach(job, "--steps", "3").check_code(COMPLETE)
    wanted, report = holders(job), context.report()
    check(len(wanted) > 30, f"the job lists {len(wanted)} storages")
    older = {int(block["device_addr"], 16): block for block in report.json["memory_blocks"] if block["preexisting"]}
    for address, (kind, size, name) in wanted.items():
        check(address in older, f"no block for {kind} {name} at {address:#x}")
        block = older[address]
        check_equal((block["type"], block["size"], block["owner"] or ""), (kind, size, name), f"block {address:#x}")
        check_equal((block["start_time_stamp"], block["task_name"], block["is_persistent"]), (0, "initialization", 1),
                    f"life of {name}")
    return job, older, wanted


def check_inputs(context):
    inputs = {"0": {"dtype": "float32", "layout": "strided", "shape": [8, 24]}}
    check_equal(context.report().json["metadata"]["batch_shapes"], {"loss_inputs": None, "model_inputs": inputs}, "shapes of the batch")


@test
def test_blocks_older_than_the_attach_have_their_owners(context):
    job, older, wanted = check_owners(context)
    check_inputs(context)
    # What is left is what the step at hand had: less than one step's worth.
    others = [block for address, block in older.items() if address not in wanted]
    check(all(block["type"] not in ("Parameter", "Buffer", "Optstate") for block in others), f"wrong owners: {others}")
    job.check_alive()


@test(root="cuda", timeout=240)
def test_blocks_older_than_the_attach_have_their_owners_in_2_6(context):
    check_owners(context)
    check_inputs(context)


@test(root="cuda", device="cuda", timeout=240)
def test_blocks_of_a_device_older_than_the_attach_have_their_owners(context):
    check_owners(context)
    check_inputs(context)


@test(root="latest", timeout=240)
def test_blocks_older_than_the_attach_have_their_owners_in_the_latest_version(context):
    check_owners(context)
    check_inputs(context)


def check_nasty(context):
    """Names of all that modules and optimizers hold in unusual ways."""
    _, _, wanted = check_owners(context, program="nasty")
    check(len(wanted) > 100, f"the job lists {len(wanted)} storages")
    check({kind for kind, _, _ in wanted.values()} == {"Parameter", "Gradient", "Buffer", "Optstate"}, "kinds are missing")


@test
def test_unusual_ways_to_hold_memory_are_known(context):
    check_nasty(context)


@test(root="latest", timeout=240)
def test_unusual_ways_to_hold_memory_are_known_in_the_latest_version(context):
    check_nasty(context)


@test(root="cuda", device="cuda", timeout=240)
def test_unusual_ways_to_hold_memory_of_a_device_are_known(context):
    check_nasty(context)


@test(timeout=120)
def test_a_model_of_a_thousand_modules_is_read_in_time(context):
    job = context.trained("owners", "--blocks", str(MANY_BLOCKS), "--pause", "0")
    tracer = context.attach(job, "--verbose", "--steps", "2").check_code(COMPLETE)
    took = [float(ms) / 1e3 for ms in re.findall(r"owners of storages read in ([0-9.]+) ms", tracer.err)]
    say(f"read in {took} s")
    check(took and max(took) < ATTACH_SECONDS, f"owners were read in {took} s")
    wanted = holders(job)
    names = {block["owner"] for block in context.report().json["memory_blocks"]}
    missing = [name for kind, _, name in wanted.values() if name and name not in names]
    check(not missing, f"{len(missing)} of {len(wanted)} owners are missing: {missing[:3]}")
    job.check_alive()


@test(root="cuda", device="cuda", timeout=240)
def test_what_is_older_on_a_device_adds_up_to_its_allocators_total(context):
    """What the allocator rounds up, and what Python does not hold (workspaces of libraries), is a row that says so."""
    check_owners(context)
    report = context.report()
    blocks, device = report.json["memory_blocks"], report.live["devices"]["cuda:0"]
    rest, = [block for block in blocks if block.get("remainder")]
    known = [block for block in blocks if block["preexisting"] and not block.get("remainder")]
    check_equal(device["older_known_bytes"], sum(block["size"] for block in known), "bytes of the rows that are older")
    check_equal(rest["size"], device["remainder_bytes"], "the remainder")
    check_equal(rest["size"] + sum(block["allocated_bytes"] or block["size"] for block in known), device["older_bytes"],
                "rows that are older, the remainder among them")
    wanted = {"device_addr": "0x0", "node_name": "hdtrace.remainder", "type": "Other", "task_name": "initialization",
              "is_persistent": 1, "user_tasks": [], "owner": None, "preexisting": True}
    check_equal({key: rest[key] for key in wanted}, wanted, "the remainder")
    rows = [row for row in report.rows if row["node_name"] == "hdtrace.remainder"]
    check_equal([(row["size"], row["type"], row["device_addr"]) for row in rows], [(str(rest["size"]), "Other", "0x0")], "its row")
    check(device["steps"], "no step was seen")
    for row, told in zip(report.steps, device["steps"], strict=True):
        end = int(row["start_time_ns"]) + int(row["duration_ns"])
        alive = [block for block in blocks if block["start_time_ns"] < end and (block["end_time_ns"] or end) >= end]
        if row["complete"] == "1":
            check_equal(told["allocator_bytes"], sum(block["allocated_bytes"] or block["size"] for block in alive), f"rows of {told}")
        check_equal(told["difference_bytes"], told["allocator_bytes"] - told["older_bytes"] - told["traced_bytes"], "difference")
        check_equal(told["difference_bytes"], 0, f"what no block accounts for in step {told['step']}")


@test(root="cuda", device="cuda", timeout=240, each=FLAT)
def test_parameters_that_fsdp_made_flat_or_sharded_have_all_their_names(context, mode):
    job = context.trained("flat", mode)
    context.attach(job, "--duration", "1").check_code(COMPLETE)
    blocks = {int(block["device_addr"], 16): block for block in context.report().json["memory_blocks"]}
    wanted = holders(job)
    check_equal(len(wanted), FLAT[mode], "storages that the job lists")
    for address, want in wanted.items():
        block = blocks.get(address, {"type": None, "size": 0, "owner": None})
        check_equal((block["type"], block["size"], block["owner"]), want, f"block {address:#x}")
