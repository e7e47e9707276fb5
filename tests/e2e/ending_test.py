"""Every way in which a trace can end leaves the target as it was and a readable capture."""
import os
import signal
import time

from harness import (COMPLETE, FAILED, LOST, PYTHON, check, check_equal, find_capture, kill, program_path, test,
                     wait_until)


@test(each=("SIGINT", "SIGTERM"))
def test_signal_ends_the_trace_and_writes_the_reports(context, name):
    job = context.trained("loop")
    tracer = context.attached(job)
    kill(tracer, getattr(signal, name))
    tracer.check_code(COMPLETE)
    check(context.report().exists() and context.report().tasks, f"no report after {name}: {tracer}")
    context.wait_steps(job, 3)


@test
def test_target_that_ends_ends_the_trace(context):
    job = context.trained("loop", "--steps", "150", "--status", "4")
    tracer = context.attached(job)
    check_equal(job.wait(), 4, "exit code of the job")
    tracer.check_code(COMPLETE)
    check(context.report().tasks, f"no task in the report: {tracer}")


@test
def test_killed_target_ends_the_trace(context):
    job = context.trained("loop")
    tracer = context.attached(job)
    kill(job)
    tracer.check_code(COMPLETE)
    check(context.report().tasks, f"no task in the report: {tracer}")


@test
def test_killed_tracer_leaves_the_target_and_a_readable_capture(context):
    job = context.trained("loop", "--pause", "0.002")
    tracer = context.attached(job, job_steps=200)
    kill(tracer)
    tracer.wait()
    context.wait_steps(job, 5)
    capture = find_capture(context.path("out"))
    check(capture, "no capture is left")
    again = context.run(context.hdtrace, "report", capture, "-o", context.path("again"))
    check(again.code in (COMPLETE, LOST), f"exit code {again.code}: {again}")
    report = context.report("again")
    check(report.tasks, f"no task in the report: {again}")
    check_equal(report.live["complete"], False, "complete, of a capture that was cut off")


@test
def test_target_that_replaces_itself_is_left_alone(context):
    job = context.trained("replace")
    tracer = context.attached(job)
    job.send(signal.SIGUSR1)
    check_equal(job.wait(), 5, "exit code of the program that the job became")
    check("replaced" in job.out, f"the new program did not run: {job}")
    tracer.check_code(COMPLETE)
    check(context.report().tasks, f"no task from before the exec: {tracer}")


@test(each=(0, 1, 42, 255))
def test_run_exits_with_the_commands_status(context, status):
    traced = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", PYTHON, program_path("loop"),
                         "--steps", "1", "--status", status)
    check_equal(traced.code, status, f"exit code of {traced}")
    check(context.report().exists(), f"no report: {traced}")


@test(each=("SIGKILL", "SIGSEGV", "SIGTERM"))
def test_run_tells_when_a_signal_ended_the_command(context, name):
    number = getattr(signal, name)
    script = f"import torch, os, signal; torch.ones(3) + 1; os.kill(os.getpid(), {int(number)})"
    traced = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", PYTHON, "-c", script)
    check_equal(traced.code, 128 + number, f"exit code of {traced}")
    check(context.report().exists(), f"no report: {traced}")


@test(each=("does-not-exist", "/does/not/exist", "/etc/passwd"))
def test_run_of_a_command_that_cannot_be_run_fails_as_in_a_shell(context, command):
    traced = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", command)
    check_equal(traced.code, 126 if command == "/etc/passwd" else 127, f"exit code of {traced}")
    check(command in traced.err, f"the message does not name the command: {traced}")
    check(not os.path.exists(context.path("out")), "an output folder was left behind")


@test
def test_run_of_a_command_without_pytorch_has_its_output_and_status(context):
    traced = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", "/bin/sh", "-c", "echo mine; exit 6")
    check_equal((traced.code, traced.out), (6, "mine\n"), f"exit code and output of {traced}")
    check("nothing was traced" in traced.err, f"that nothing was traced is not told: {traced}")
    check(not os.path.exists(context.path("out")), "an output folder was left behind")


@test(each=("SIGTERM", "SIGINT"))
def test_signal_to_run_during_the_import(context, name):
    """SIGTERM goes on to the command; SIGINT ends the trace only, as the terminal gives it to both."""
    tracer = context.start(context.hdtrace, "run", "-o", context.path("out"), "--", "/bin/sh", "-c",
                           f"echo started; exec {PYTHON} {program_path('loop')} --steps 3 --pause 0")
    wait_until(lambda: "started" in tracer.out, lambda: f"the start of {tracer}")
    time.sleep(0.3)
    kill(tracer, getattr(signal, name))
    check_equal(tracer.wait(), 128 + signal.SIGTERM if name == "SIGTERM" else 0, f"exit code of {tracer}")


@test
def test_reader_of_the_summary_that_goes_away_ends_no_report(context):
    job = context.trained("loop")
    context.run("/bin/sh", "-c", f'"$0" "$@" -o "{context.path("out")}" | true', context.hdtrace, "-p", job.pid,
                "-d", "1").check_code(0)
    check(context.report().exists(), "the report is not complete")
    full = context.run("/bin/sh", "-c", '"$0" "$@" >/dev/full', context.hdtrace, "report", context.path("out"))
    check_equal(full.code, FAILED, f"exit code of {full}")
    check("standard output" in full.err, f"not told: {full}")
    before = context.report().files()
    context.run("/bin/sh", "-c", '"$0" "$@" >&- 2>&-', context.hdtrace, "report", context.path("out")).check_code(COMPLETE)
    check(context.report().files() == before, "without standard output the report is another one")


@test
def test_interrupt_of_run_leaves_the_command_running_to_its_end(context):
    marker = context.path("finished")
    script = ("import torch, time\nfor i in range(60):\n    torch.ones(3) + 1\n    time.sleep(0.05)\n"
              "    print('ten' if i == 10 else '', flush=True)\n"
              f"open({marker!r}, 'w').close()")
    tracer = context.start(context.hdtrace, "run", "-o", context.path("out"), "--", PYTHON, "-c", script)
    wait_until(lambda: "ten" in tracer.out, lambda: f"the tenth turn below {tracer}")
    kill(tracer, signal.SIGINT)
    tracer.wait()
    check(context.report().exists(), f"no report after SIGINT: {tracer}")
    wait_until(lambda: os.path.exists(marker), "the command did not run to its end")
