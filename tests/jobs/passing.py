"""Holds ever more memory, each time for a moment, by names that are soon gone: the target of variables_test.py.

    passing.py ROUNDS SECONDS

Prints `held ADDRESS NAME` for each round; JOB_DEVICE: where the memory is.
"""
import os
import sys
import time

import torch

device = os.environ.get("JOB_DEVICE", "cpu")
MEBIBYTE = 1 << 20


def hold(round_, seconds):
    passing = torch.zeros((round_ + 2) * MEBIBYTE, dtype=torch.uint8, device=device)
    print("held", hex(passing.data_ptr()), passing.numel(), "local passing in hold "
          f"(passing.py:{hold.__code__.co_firstlineno})", flush=True)
    time.sleep(seconds)


# Objects enough that looking at all of them, and so the pause until that is done again, takes long.
ballast = [[] for _ in range(600_000)]
torch.zeros(1, device=device)
time.sleep(1.5)  # the first look at all objects is over
for round_ in range(int(sys.argv[1])):
    hold(round_, float(sys.argv[2]))
    time.sleep(0.1)
