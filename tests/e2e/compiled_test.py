"""Code that inductor made, against that code itself."""
import collections
import glob
import math
import os
import re

import invariants
from harness import COMPLETE, check, check_equal, test

MODULE = "OptimizedModule._orig_mod"
STEPS = 4
FLOAT_BYTES = 4
BYTES_MIN = 64  # smaller ones are taken for numbers that Python wraps
SAVED = f"saved for backward by compiled code ({MODULE})"


class Graph:
    """A file that inductor wrote: where it makes tensors, and which of them outlive its call."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as source:
            self.lines = source.read().splitlines()
        self.made, owner = {}, {}  # line -> bytes; name -> the line that made its memory
        for number, line in enumerate(self.lines, 1):
            made = re.match(r"\s+(buf\d+) = empty_strided_cpu\(\(([0-9, ]+)\), \(([0-9, ]+)\), torch.float32\)", line)
            alias = re.match(r"\s+(buf\d+) = (?:reinterpret_tensor\()?(buf\d+)[;,]", line)
            if made:
                sizes, strides = (list(map(int, re.findall(r"\d+", text))) for text in made.groups()[1:])
                self.made[number] = FLOAT_BYTES * (1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)))
                owner[made[1]] = number
            elif alias:
                owner[alias[1]] = owner[alias[2]]
        returned, = re.findall(r"^        return \((.*)\)$", "\n".join(self.lines), re.M)
        self.returned = [owner[name] for name in re.findall(r"buf\d+", returned)]


@test(root="latest", timeout=300)
def test_each_tensor_of_compiled_code_is_a_row(context):
    job = context.program("compiled", environment={"TORCHINDUCTOR_CACHE_DIR": context.path("inductor"),
                                                   "TORCHINDUCTOR_COMPILE_THREADS": "1"})
    context.wait_steps(job, 2, timeout=240)
    context.attach(job, "--steps", str(STEPS)).check_code(COMPLETE)
    report = context.report()
    invariants.check_schema(report)
    graphs = {path: Graph(path) for path in glob.glob(context.path("inductor", "*", "*.py"))
              if "def call(" in open(path, encoding="utf-8").read()}
    check_equal(len(graphs), 2, "graphs: one of the forward and one of the backward pass")
    begin = next(int(task["task_index"]) for task in report.tasks if task["task_name"] == "optimizer")
    rows, phases = collections.defaultdict(list), collections.defaultdict(set)
    for block in report.json["memory_blocks"]:
        if block["node_name"].startswith("compiled."):
            rows[block["file_name"], block["line_num"]].append(block)
            phases[block["file_name"]].add(block["task_name"])
            # A backward pass whose forward pass was before the attach has no module.
            if block["start_time_stamp"] > begin or block["task_name"] == "forward":
                check_equal(block["graph_name"], MODULE, f"module of {block['file_name']}:{block['line_num']}")
    check_equal({place: {block["size"] for block in blocks} for place, blocks in rows.items()},
                {(path, line): {size} for path, graph in graphs.items() for line, size in graph.made.items() if size >= BYTES_MIN},
                "lines that make tensors, and their bytes")
    check_equal(sorted(map(sorted, phases.values())), [["backward"], ["forward"]], "phases of the graphs")
    for place, blocks in rows.items():
        check(len(blocks) >= STEPS - 1, f"{place} made {len(blocks)} tensors")
    forward, = [path for path, names in phases.items() if names == {"forward"}]
    # Its result is the first that it returns; the others are for the backward pass.
    saved = set(graphs[forward].returned[1:])
    check(len(saved) > 4, f"it returns {len(saved)} tensors for the backward pass")
    for line in graphs[forward].made:
        owners = {block["owner"] for block in rows[forward, line] if not block["is_persistent"]}
        check_equal(SAVED in owners, line in saved, f"line {line} makes what is saved; owners: {owners}")
    check_equal(report.json["metadata"]["batch_shapes"]["model_inputs"]["0"]["shape"], [16, 32], "shape of the batch")
    job.check_alive()


# Modules, and what of theirs makes memory. Behind the break the model's own code goes on, the head's in it: no frame says so.
MADE_IN = {"": {"aten.addmm.default"},
           ".block.0": {"aten.native_layer_norm.default", "aten.addmm.default", "aten.gelu.default", "aten.add.Tensor"},
           ".block.1": {"aten.addmm.default", "aten.tanh.default", "aten.add.Tensor"}}


def check_broken(context, backend):
    """Graphs that PyTorch's own operators run, with a break: nothing is compiled code, all has its module, in both passes."""
    job = context.program("compiled", backend)
    context.wait_steps(job, 2, timeout=120)
    context.attach(job, "--steps", str(STEPS)).check_code(COMPLETE)
    report = context.report()
    blocks = [block for block in report.json["memory_blocks"] if not block["preexisting"]]
    check(not [block for block in blocks if block["node_name"].startswith("compiled.")], "compiled code, where there is none")
    made, owners = collections.defaultdict(set), collections.defaultdict(set)
    for block in blocks:
        if block["task_name"] == "forward" and block["type"] == "Activation":
            made[block["graph_name"]].add(block["node_name"])
        if block["type"] == "Gradient" and block["graph_name"]:
            owners[block["graph_name"]].add(block["owner"])
    named = {name: made[MODULE + name] for name in MADE_IN}
    check_equal(named, MADE_IN, "operators of the modules that are graphs")
    # A gradient is made by the node of the module that its parameter is in.
    for module, names in owners.items():
        check(all(name.startswith(module + ".") for name in names if name), f"gradients made in {module}: {names}")
    found = {name for names in owners.values() for name in names if name}
    check_equal(len(found), 12, f"parameters with gradients: {found}")
    check_equal({block["task_name"] for block in blocks if block["type"] == "Gradient"}, {"backward"}, "where gradients are made")
    job.check_alive()


@test(root="cuda", timeout=240, each=("eager", "aot_eager"))
def test_a_graph_with_a_break_has_its_modules_in_2_6(context, backend):
    check_broken(context, backend)


@test(root="latest", timeout=240)
def test_a_graph_with_a_break_has_its_modules_in_the_latest_version(context):
    check_broken(context, "aot_eager")
