"""Runs out of a device's memory in a function that holds some of it for a moment: the target of variables_test.py.

Prints `held BYTES NAME` of what is held then.
"""
import time

import torch

MEBIBYTE = 1 << 20


def make(mebibytes):
    return torch.empty(mebibytes * MEBIBYTE, dtype=torch.uint8, device="cuda")


def exhaust():
    mine = make(101)
    parts = {"first": make(102)}
    for tensor, name in ((cache[0], "global cache[0] in __main__"), (mine, "local mine"),
                         (parts["first"], 'local parts["first"]')):
        tail = f" in exhaust (exhausted.py:{exhaust.__code__.co_firstlineno})" if name.startswith("local") else ""
        print("held", tensor.numel(), name + tail, flush=True)
    del tensor
    make(1 << 20)


make(1)
time.sleep(1.2)
cache = [make(100)]
try:
    exhaust()
except torch.cuda.OutOfMemoryError:
    time.sleep(0.5)  # the traceback holds the function's frame
