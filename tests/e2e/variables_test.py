"""The variables of a running program that hold its tensors, against what the program itself says."""
import re

from harness import COMPLETE, PYTHON, check, check_equal, program_path, test

ROUNDS = 3


def check_variables(context):
    job = context.trained("variables")
    context.attach(job, "--duration", "1").check_code(COMPLETE)
    wanted = {int(address, 16): (int(size), name)
              for address, size, name in re.findall(r"^holds (\S+) (\d+) (.*)$", job.out, re.M)}
    check(len(wanted) == 17, f"the job lists {len(wanted)} storages")
    found = {int(block["device_addr"], 16): (block["size"], block["owner"])
             for block in context.report().json["memory_blocks"] if block["is_persistent"]}
    for address, want in wanted.items():
        check_equal(found.get(address), want, f"block {address:#x}")
    # What nothing of these leads to has no name, rather than a wrong one.
    others = {owner for address, (_, owner) in found.items() if address not in wanted and owner}
    check(not others, f"names of what the job does not hold: {others}")
    job.check_alive()


@test
def test_variables_that_hold_tensors_have_their_names(context):
    check_variables(context)


@test(root="cuda", device="cuda", timeout=240)
def test_variables_that_hold_tensors_of_a_device_have_their_names(context):
    check_variables(context)


@test(root="latest", timeout=240)
def test_variables_that_hold_tensors_have_their_names_in_the_latest_version(context):
    check_variables(context)


def check_peaks(context):
    """Each round is a new peak; all objects are looked at every few seconds only, fifty times what that takes."""
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--",
                          *context.command(PYTHON, program_path("passing"), str(ROUNDS), "2"))
    check_equal(process.code, COMPLETE, f"exit code: {process}")
    held = re.findall(r"^held (\S+) (\d+) (.*)$", process.out, re.M)
    check_equal(len(held), ROUNDS, "rounds")
    owners = {block["size"]: block["owner"] for block in context.report().json["memory_blocks"]}
    for _, size, name in held:
        check_equal(owners.get(int(size)), name, f"owner of the {size} bytes of a new peak")


@test
def test_a_new_peak_is_looked_at_while_it_lasts(context):
    check_peaks(context)


@test(root="cuda", device="cuda", timeout=240)
def test_a_new_peak_of_a_device_is_looked_at_while_it_lasts(context):
    check_peaks(context)


@test(root="cuda", device="cuda", timeout=240, each=(False, True))
def test_who_holds_the_memory_is_known_when_it_is_out(context, until_oom):
    """The names of what the function held that ran out of it, which ends with the exception."""
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), *(["--until-oom"] if until_oom else []),
                          "--", *context.command(PYTHON, program_path("exhausted")))
    check_equal(process.code, COMPLETE, f"exit code: {process}")
    wanted = dict(re.findall(r"^held (\d+) (.*)$", process.out, re.M))
    check_equal(len(wanted), 3, "storages that the job holds")
    report = context.report().json
    check_equal(len(report["live"]["out_of_memory"]), 1, "times that memory was out")
    owners = {block["size"]: block["owner"] for block in report["memory_blocks"]}
    for size, name in wanted.items():
        check_equal(owners.get(int(size)), name, f"owner of {size} bytes")
