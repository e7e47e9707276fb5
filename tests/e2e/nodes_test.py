"""Operators of the backward pass: the lines and modules of the forward pass that they belong to."""
import re

import invariants
from harness import COMPLETE, check, check_equal, program_path, test

STEPS = 3
MARKS = re.compile(r"#: (aten.+)$")


def marked_lines():
    """{(operator, line of the job that its backward pass comes from)}"""
    with open(program_path("nodes"), encoding="utf-8") as source:
        return {(name, number) for number, text in enumerate(source, 1) for found in MARKS.finditer(text)
                for name in found.group(1).split()}


def check_lines(report, begin=0):
    """Of the tasks from `begin` on."""
    marks, counts = marked_lines(), {}
    names = {name for name, _ in marks}
    for task in report.tasks:
        name = task["node_name"]
        if name not in names or task["task_name"] != "backward" or int(task["task_index"]) < begin:
            continue
        check_equal(task["forward_file_name"], program_path("nodes"), f"file that {name}, task {task['task_index']}, comes from")
        place = name, int(task["forward_line_num"])
        counts[place] = counts.get(place, 0) + 1
        check(int(task["forward_task"]) < int(task["task_index"]), "comes from a later task:", task)
    check_equal(sorted(counts), sorted(marks), "marked operators and the lines that they come from")
    check(min(counts.values()) >= STEPS, "times that each ran:", counts)


def check_modules(report):
    """The gradient of a parameter is made by work for the module that has the parameter."""
    found = set()
    for block in report.json["memory_blocks"]:
        if block["type"] != "Gradient" or not block["owner"] or "forward_stack" not in block:
            continue
        check_equal(block["graph_name"], block["owner"].rpartition(".")[0], f"module of the gradient of {block['owner']}")
        check_equal(block["task_name"], "backward", f"phase of the gradient of {block['owner']}")
        found.add(block["owner"])
    check(len(found) >= 20, f"gradients of {len(found)} parameters have a forward stack:", sorted(found))


def check_report(report):
    check_lines(report)
    check_modules(report)
    for task in report.tasks:
        if task["task_name"] in ("forward", "optimizer", "recompute"):
            check_equal(task["forward_file_name"], "", f"forward of {task['node_name']} in {task['task_name']}")
    invariants.check_schema(report)


def traced(context, *options):
    """With pauses in which the names of parameters can be read."""
    return context.trace_run(program_path("nodes"), "--steps", str(STEPS), "--device", context.device, "--pause", "0.3",
                             options=options)


@test(each=("sparse", "plain"))
def test_backward_operators_come_from_their_lines(context, hooks):
    check_report(traced(context, "--hooks", hooks))


@test(root="cuda")
def test_backward_operators_come_from_their_lines_in_2_6(context):
    check_report(traced(context))


@test(root="latest")
def test_backward_operators_come_from_their_lines_in_the_latest_version(context):
    check_report(traced(context))


@test(root="cuda", device="cuda")
def test_backward_operators_of_a_devices_thread_come_from_their_lines(context):
    """That thread has no Python stack: only the nodes lead back."""
    report = traced(context)
    check_report(report)
    without = [task for task in report.tasks if task["task_name"] == "backward" and not task["file_name"]]
    check(sum(bool(task["forward_file_name"]) for task in without) > len(without) / 2,
          f"of {len(without)} tasks without a stack too few lead back")


@test
def test_backward_operators_after_an_attach_come_from_their_lines(context):
    """Nodes that were made before the attach lead nowhere, those after it as always."""
    job = context.program("nodes", "--steps", "10000", "--pause", "0.01")
    context.wait_steps(job, 3)
    context.attach(job, "--steps", str(STEPS + 2)).check_code(COMPLETE)
    job.stop()
    report = context.report()
    begin = next(int(task["task_index"]) for task in report.tasks if task["task_name"] == "optimizer")
    for task in report.tasks:
        if int(task["task_index"]) < begin and task["forward_task"]:
            check(int(task["forward_task"]) < int(task["task_index"]), "comes from a later task:", task)
    check_lines(report, begin)
