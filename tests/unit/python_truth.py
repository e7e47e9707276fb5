# SPDX-License-Identifier: BSD-2-Clause
"""What CPython itself says about its frames and code objects, for python_test.c to compare.

Prints one fact a line, then "." and waits for a byte on stdin, so that everything stays alive:

  V major minor
  R addresses of _PyRuntime, of PyCode_Type
  T address of a thread's state, its pthread_self()   (the main thread first)
  C address first-line file name qualified-name   (texts in hexadecimal UTF-8)
  L lines of the code units of that code object, - for none
  F code line self                                (innermost first)
"""
import ctypes
import importlib
import sys
import threading
import types

MODULES = ["argparse", "ast", "asyncio.base_events", "dataclasses", "inspect", "typing", "tarfile", "traceback"]
MADE = [
    ("plain.py", "x = 1\n\n\ndef f(a,\n      b):\n    return (a +\n            b)\n"),
    ("latin-\u00e9\u00ff.py", "def \u00e9t\u00e9():\n    return 1\n"),
    ("cyrillic-\u0444.py", "class \u041a:\n    def \u0444(self):\n        yield self\n"),
    ("deseret-\U00010400.py", "def \U00010428():\n    return [i for i in range(3) if i]\n"),
    ("surrogate-\udcff.py", "def f(): pass\n"),
    ("far.py", "\n" * 100000 + "def far():\n    return 1\n"),
    ("", ""),
]


def text(value):
    return value.encode("utf-8", "replace").replace(b"?", b"\xef\xbf\xbd").hex() or "-"


def code_objects(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def sources():
    for name, source in MADE:
        yield compile(source, name, "exec")
    for name in MODULES:
        module = importlib.import_module(name)
        with open(module.__file__, encoding="utf-8") as file:
            yield compile(file.read(), module.__file__, "exec")


def show_code(code):
    qualified_name = getattr(code, "co_qualname", code.co_name)  # since 3.11
    print("C", hex(id(code)), code.co_firstlineno, text(code.co_filename), text(code.co_name), text(qualified_name))
    # What a frame's f_lineno is made by; -1: no line.
    lines = (ctypes.pythonapi.PyCode_Addr2Line(ctypes.py_object(code), at) for at in range(0, len(code.co_code), 2))
    print("L", *("-" if line < 0 else line for line in lines))


def show_frames(frame):
    while frame:
        locals_ = list(frame.f_locals.values())
        # Where an inner function uses self, it lies in a cell.
        is_method = frame.f_code.co_varnames[:1] == ("self",) and "self" not in frame.f_code.co_cellvars
        print("F", hex(id(frame.f_code)), frame.f_lineno, hex(id(locals_[0])) if is_method else 0)
        frame = frame.f_back


class Waiter:
    def wait(self):
        show_frames(sys._getframe()), print(".", flush=True), sys.stdin.read(1)

    def outer(self, inner=None):
        if inner is None:
            return [*map(self.outer, [0])]  # a C frame between Python frames
        return (lambda wait: wait())(self.wait)


def show_thread():
    state = ctypes.pythonapi.PyThreadState_Get
    state.restype = ctypes.c_size_t
    print("T", hex(state()), hex(threading.get_ident()))
    return state()


def address_of(name):
    return hex(ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name)))


def misleading_keys(state):
    """Other keys with the main thread's state, as extension modules have them."""
    libc, key = ctypes.CDLL(None), ctypes.c_uint()
    for _ in range(2):
        libc.pthread_key_create(ctypes.byref(key), None)
        libc.pthread_setspecific(key, ctypes.c_void_p(state))


def other_thread(shown, ending):
    show_thread()
    shown.set()
    ending.wait()


def main():
    print("V", sys.version_info.major, sys.version_info.minor)
    print("R", address_of("_PyRuntime"), address_of("PyCode_Type"))
    misleading_keys(show_thread())
    shown, ending = threading.Event(), threading.Event()
    threading.Thread(target=other_thread, args=(shown, ending), daemon=True).start()
    shown.wait()
    kept = [code for module in sources() for code in code_objects(module)]
    kept.append(Waiter.wait.__code__)
    for code in kept:
        show_code(code)
    Waiter().outer()


main()
