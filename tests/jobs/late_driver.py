"""Maps memory by a driver that is loaded only then: the target of segment_test.py.

    late_driver.py [OTHER]      OTHER: a driver that is loaded a while before, by its path

Prints the bytes that the allocator has reserved. No kernel runs.
"""
import ctypes
import sys
import time

import torch

if sys.argv[1:]:
    torch.cuda.init()
    ctypes.CDLL(sys.argv[1])
    time.sleep(2)  # its probes are set meanwhile
held = [torch.empty(megabytes << 20, dtype=torch.uint8, device="cuda") for megabytes in (30, 50)]
print("reserved", torch.cuda.memory_reserved())
