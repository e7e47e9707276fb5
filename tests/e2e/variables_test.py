"""The variables of a running program that hold its tensors, against what the program itself says."""
import re

from harness import COMPLETE, check, check_equal, test


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
