"""A job under a seccomp filter that kills it for the system calls of return probes.

335 is uretprobe, 336 uprobe (x86_64): the kernel makes a process do the first
when a return probe fires. A tracer that uses entry probes only never causes it.
Linux 6.18 lets 335 pass whatever the filter says (measured); older kernels may not.
"""
import ctypes
import struct
import sys
import time

import torch

FORBIDDEN = (335, 336)
PR_SET_NO_NEW_PRIVS, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC = 38, 1, 1
SECCOMP_CALL = 317
LOAD_WORD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
KILL_PROCESS, ALLOW = 0x80000000, 0x7FFF0000


def instruction(code, if_true, if_false, value):
    return struct.pack("=HBBI", code, if_true, if_false, value)


def install_filter():
    code = instruction(LOAD_WORD, 0, 0, 0)  # the number of the call
    for place, number in enumerate(FORBIDDEN):
        code += instruction(JUMP_EQUAL, len(FORBIDDEN) - place, 0, number)
    code += instruction(RETURN, 0, 0, ALLOW) + instruction(RETURN, 0, 0, KILL_PROCESS)
    instructions = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(instructions)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit("prctl failed")
    if libc.syscall(SECCOMP_CALL, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, program) != 0:
        sys.exit(f"seccomp failed: {ctypes.get_errno()}")


torch.manual_seed(0)
torch.set_num_threads(1)
install_filter()
model = torch.nn.Linear(8, 8)
print("ready", flush=True)
steps = int(sys.argv[1])
for step in range(1, steps + 1):
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError:
        pass
    model(torch.randn(4, 8)).sum().backward()
    print(f"step {step}", flush=True)
    time.sleep(0.02)
print("alive", flush=True)
