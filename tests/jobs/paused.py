"""Runs another script, and stands still in the midst of it until a file is there.

    paused.py COUNT FILE SCRIPT

COUNT is of calls and returns of Python: at the COUNT-th it prints `waiting`; 0 is before the script begins.
With -1 it does not wait, but prints at the end how many there were.
"""
import os
import sys
import time

import torch  # noqa: F401  what is there before the script begins


class Pause:
    def __init__(self, count, path):
        self.count, self.path, self.seen = count, path, 0

    def wait(self):
        print("waiting", flush=True)
        while not os.path.exists(self.path):
            time.sleep(0.01)

    def step(self, _frame, _event, _argument):
        self.seen += 1
        if self.seen == self.count:
            sys.setprofile(None)
            self.wait()


paused_ = Pause(int(sys.argv[1]), sys.argv[2])
sys.argv = sys.argv[3:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
with open(sys.argv[0], encoding="utf-8") as source_:
    paused_code_ = compile(source_.read(), sys.argv[0], "exec")
if paused_.count == 0:
    paused_.wait()
else:
    sys.setprofile(paused_.step)
# In the module that is run, so that its variables live to the end, as they do in a script of their own.
exec(paused_code_)
sys.setprofile(None)
if paused_.count < 0:
    print("events", paused_.seen, flush=True)
