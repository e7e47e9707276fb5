"""What nodes of autograd's graph hold for the backward pass, against what the job itself says."""
import re

import invariants
from harness import COMPLETE, PYTHON, check, check_equal, program_path, test, wait_until

PREFIX = "saved for backward by "
STEPS = 3
# The operator of the forward pass that makes a node; a Python function is known by the first one in its forward.
OPERATORS = {
    "AddmmBackward0": "aten.addmm.default", "CubedBackward": "aten.mul.Tensor", "ExpBackward0": "aten.exp.default",
    "GeluBackward0": "aten.gelu.default", "MulBackward0": "aten.mul.Tensor", "PowBackward0": "aten.pow.Tensor_Scalar",
    "NativeLayerNormBackward0": "aten.native_layer_norm.default", "SigmoidBackward0": "aten.sigmoid.default",
    "SoftmaxBackward0": "aten._softmax.default", "TanhBackward0": "aten.tanh.default",
}


def listed(text):
    """{address: (bytes, classes of its nodes, the one that is evaluated first at the head)} of one step."""
    found = {}
    for node, address, size in re.findall(r"^saves (\S+) (\S+) (\d+)$", text, re.M):
        found.setdefault(int(address, 16), (int(size), []))[1].append(node)
    return found


def check_older(context):
    """Attached between a forward and a backward pass: all that is saved is older, and Python holds none of it."""
    job = context.program("saved", "--pause", "60", "--steps", "1")
    wait_until(lambda: "between 0" in job.out, lambda: f"the first step of {job}", timeout=60)
    context.attach(job, "--duration", "0.2").check_code(COMPLETE)
    report = context.report()
    blocks = {int(block["device_addr"], 16): block for block in report.json["memory_blocks"]}
    wanted = listed(job.out)
    check(len(wanted) > 20, f"the job lists {len(wanted)} storages")
    for address, (size, nodes) in wanted.items():
        block = blocks.get(address)
        check(block, f"no block for what {nodes} saved at {address:#x}")
        check(block["owner"] in [PREFIX + node for node in nodes], f"{block['owner']} is none of {nodes}")
        check_equal((block["size"], block["type"], block["owner_source"], block["preexisting"]),
                    (size, "Activation", "memory", True), f"block that {nodes} saved")
    others = [block["owner"] for address, block in blocks.items()
              if (block["owner"] or "").startswith(PREFIX) and address not in wanted]
    check(not others, f"saved by no node: {others}")
    invariants.check_schema(report)
    job.check_alive()


def check_released(context):
    """Each block that a node let go in the backward pass is called by it, the last one of several."""
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", *context.command(
        PYTHON, program_path("saved"), "--pause", "0.1", "--steps", str(STEPS)))
    check_equal(process.code, COMPLETE, f"exit code: {process}")
    steps = [listed(text) for text in process.out.split("between")[:STEPS]]
    wanted, found = {}, {}
    for step in steps:
        for address, (size, nodes) in step.items():
            wanted.setdefault(address, []).append((size, OPERATORS[nodes[-1]]))
    report = context.report()
    for block in report.json["memory_blocks"]:
        owner = block["owner"] or ""
        if not owner.startswith(PREFIX):
            continue
        node, _, module = owner[len(PREFIX):].partition(" ")
        check_equal((block["type"], block["task_name"]), ("Activation", "forward"), f"block that {owner}")
        check(re.fullmatch(r"(\(Model\S*\))?", module), f"module of {owner}")
        found.setdefault(int(block["device_addr"], 16), []).append((block["size"], OPERATORS.get(node, node)))
    check_equal(found, wanted, "blocks that nodes let go, by address")
    sources = {block["owner_source"] for block in report.json["memory_blocks"] if (block["owner"] or "").startswith(PREFIX)}
    check("operators" in sources, f"known by {sources}")


@test
def test_what_nodes_saved_before_the_attach_is_theirs(context):
    check_older(context)


@test(root="cuda", device="cuda", timeout=240)
def test_what_nodes_saved_on_a_device_before_the_attach_is_theirs(context):
    check_older(context)


@test(root="latest", timeout=240)
def test_what_nodes_saved_before_the_attach_is_theirs_in_the_latest_version(context):
    check_older(context)


@test
def test_what_nodes_let_go_was_theirs(context):
    check_released(context)


@test(root="cuda", device="cuda", timeout=240)
def test_what_nodes_let_go_on_a_device_was_theirs(context):
    check_released(context)
