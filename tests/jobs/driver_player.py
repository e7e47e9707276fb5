"""Calls functions of a library of a device, as a list says; prints what they gave.

    driver_player.py LIBRARY CALLS

CALLS is a JSON list of [name, arguments]; an argument is a number, "result" (a
pointer to where a result goes) or "last" (what the last result was). One JSON
line a call: name, status, result. Waits a second after loading the library and
at the end, so that a tracer can look.
"""
import ctypes
import json
import sys
import time

library = ctypes.CDLL(sys.argv[1])
time.sleep(1)
last = 0
for name, arguments in json.loads(sys.argv[2]):
    result = ctypes.c_uint64(0)
    values = [ctypes.byref(result) if argument == "result" else ctypes.c_uint64(last if argument == "last" else argument)
              for argument in arguments]
    status = getattr(library, name)(*values)
    last = result.value or last
    print(json.dumps([name, status, result.value]), flush=True)
    time.sleep(0.1)
time.sleep(1)
