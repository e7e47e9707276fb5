"""The line of progress while reports are made: there on a terminal when it takes long, and gone at the end."""
import os
import re
import time

from harness import COMPLETE, JOBS, check, check_equal, test
from terminal import Terminal

LINE = re.compile(rb"hdtrace: reports +([0-9]+) %(?:, about ([0-9]+) s left)?")
CAPTURES, CAPTURES_MAX = 100, 3200  # twice as many until reports of all of them take so long:
SECONDS_LEAST = 3


@test(needs_bpf=True)
def test_progress_is_told_on_a_terminal_and_nowhere_else(context):
    capture = os.path.join(context.traced(os.path.join(JOBS, "mlp_adamw.py")).folder, "capture.hdt")
    count, seconds = CAPTURES, 0
    while seconds < SECONDS_LEAST and count <= CAPTURES_MAX:
        command = [context.hdtrace, "report", *[capture] * count, "-o", context.path("out")]
        begin = time.monotonic()
        check(b"hdtrace: reports" not in context.run(*command).err.encode(), "it is told to a file")
        seconds, count = time.monotonic() - begin, 2 * count
    shown = Terminal(command)
    try:
        check_equal(shown.wait(60), COMPLETE, "exit code")
    finally:
        shown.stop()
    told = [int(percent) for percent, _ in LINE.findall(shown.output)]
    check(len(told) > 1 and told == sorted(told) and 0 < told[-1] <= 100, "percents:", told)
    check(any(left for _, left in LINE.findall(shown.output)), "no time that is left")
    check("hdtrace: reports" not in shown.screen(), "it is still there:\n" + shown.screen())
    # Whatever is printed has a line of its own.
    check(not re.search(rb"reports +[0-9]+ %[^\r]*\n", shown.output), "something was printed behind it")
    quiet = Terminal([*command, "-q"])
    try:
        check_equal(quiet.wait(60), COMPLETE, "exit code with -q")
    finally:
        quiet.stop()
    check_equal(quiet.output, b"", "output with -q")
