"""Calls functions of a library of collectives, as a list says.

    library_player.py LIBRARY CALLS COUNTS

CALLS is a JSON list of [name, arguments]; an argument is a number, "result" (a
pointer to where a result goes) or "counts" (a pointer to the numbers of the JSON list COUNTS).
Waits a second after loading the library and at the end, so that a tracer can look.
"""
import ctypes
import json
import sys
import time

library = ctypes.CDLL(sys.argv[1])
time.sleep(1)
numbers = json.loads(sys.argv[3])
counts = (ctypes.c_uint64 * len(numbers))(*numbers)
result = ctypes.c_uint64(0)
special = {"result": ctypes.byref(result), "counts": counts}
for name, arguments in json.loads(sys.argv[2]):
    values = [special[argument] if argument in special else ctypes.c_uint64(argument) for argument in arguments]
    values += [ctypes.c_uint64(0)] * (10 - len(values))
    getattr(library, name)(*values)
time.sleep(1)
