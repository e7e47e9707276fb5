"""Loss is counted, told, and never guessed."""
import json
import os
import signal
import time

from harness import COMPLETE, LOST, PYTHON, check, check_equal, program_path, test

PAGE = os.sysconf("SC_PAGESIZE")


def flooded(context, seconds=2.0):
    """A job that floods a one-page ring while its reader is stopped; gives the finished tracer."""
    job = context.trained("loop", "--pause", "0")
    tracer = context.attached(job, "--ring-size", str(PAGE))
    tracer.send(signal.SIGSTOP)
    time.sleep(seconds)
    tracer.send(signal.SIGCONT)
    context.wait_steps(job, 20)
    tracer.send(signal.SIGINT)
    tracer.wait()
    return tracer


@test
def test_one_page_ring_with_a_stopped_reader_counts_every_loss(context):
    tracer = flooded(context)
    check_equal(tracer.code, LOST, f"exit code of {tracer}")
    produced, received, lost = context.report().event_counts()
    check(lost > 1000, f"{lost} events lost: the ring was not flooded")
    check_equal(received + lost, produced, "received + lost, against produced")


@test
def test_loss_is_told_on_the_terminal_and_in_the_report(context):
    tracer = flooded(context)
    report = context.report()
    check_equal(report.live["complete"], False, "complete")
    check("lost" in tracer.err.lower() or "lost" in tracer.out.lower(), f"nothing about loss: {tracer}")
    check(report.json["limitations"], "no line in limitations")


@test
def test_report_from_a_capture_with_loss_says_so_again(context):
    flooded(context)
    again = context.run(context.hdtrace, "report", context.path("out"), "-o", context.path("again"))
    check_equal(again.code, LOST, f"exit code of {again}")
    check_equal(context.report("again").live["complete"], False, "complete")
    check_equal(context.report("again").event_counts(), context.report().event_counts(), "event counts")


@test(alone=True)
def test_default_ring_loses_nothing_of_a_fast_job(context):
    job = context.trained("loop", "--pause", "0")
    context.attach(job, "-d", "5").check_code(COMPLETE)
    produced, received, lost = context.report().event_counts()
    check_equal((lost, received), (0, produced), "lost, received")


@test(root="cuda", device="cuda", alone=True)
def test_default_ring_loses_nothing_of_allocations_at_full_speed(context):
    """Untraced, an operator with its block, its free and its kernel takes some two microseconds."""
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--",
                          *context.command(PYTHON, program_path("allocating"), "100000"))
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    report, said = context.report(), json.loads(process.out)
    produced, received, lost = report.event_counts()
    check_equal((lost, received), (0, produced), "lost, received")
    blocks = [block for block in report.json["memory_blocks"] if block["device"] == "cuda:0"]
    check_equal(len(blocks), said["blocks"], "blocks")
    check_equal(sum(int(task["launches"]) for task in report.tasks), 100002, "kernels: of ones, and of each addition")


@test(each=("1", "abc", "-4096", "1T", "0", ""), needs_bpf=False)
def test_impossible_ring_size_is_a_usage_error(context, size):
    process = context.run(context.hdtrace, "-p", os.getpid(), "--ring-size", size, "-o", context.path("out"))
    check_equal(process.code, 2, f"exit code of {process}")
    check("ring" in process.err.lower(), f"the message does not name the option: {process}")
