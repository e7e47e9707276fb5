"""Allocates at many kinds of places in Python, and writes down what stack each has.

    frames.py FOLDER [--wait] [--torch] [--few]

FOLDER has libc10.so and libtorch_cpu.so, made from frames.c; with --torch the allocations are PyTorch's. Every
allocation has a size of its own; stacks.json in FOLDER tells for each size the frames, outermost first, as
sys._getframe shows them. With --wait the allocations begin when the file `go` is in FOLDER; with --few there are
only those of the module itself. Then the process is gone at once. Runs in CPython 3.9 and later.
"""
import asyncio
import collections
import contextlib
import ctypes
import functools
import json
import os
import sys
import threading
import time

FOLDER = sys.argv[1]
FIRST_SIZE = 1 << 20  # smaller ones outside operators are no rows
DEPTH = 100           # more than a record takes
HOT = 2000            # calls after which every interpreter has specialised its code
stacks, lock = {}, threading.Lock()  # size -> frames, and what was allocated
if "--torch" in sys.argv:
    import torch
else:
    torch = None
    ctypes.CDLL(os.path.join(FOLDER, "libtorch_cpu.so"))
    new = ctypes.CDLL(os.path.join(FOLDER, "libc10.so"))["_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm"]
    new.argtypes = [ctypes.c_void_p] * 3
print("ready", flush=True)
while "--wait" in sys.argv and not os.path.exists(os.path.join(FOLDER, "go")):
    time.sleep(0.05)
time.sleep(1)  # probes are set while nothing is allocated


def frames_of(frame):
    frames = []
    while frame:
        frames.insert(0, [frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name])
        frame = frame.f_back
    return [entry for entry in frames if not entry[0].startswith("<frozen")]


def allocate(*ignored):
    with lock:
        size = FIRST_SIZE + len(stacks)
        stacks[size] = ()
    stacks[size] = frames_of(sys._getframe()), torch.empty(size, dtype=torch.uint8) if torch else new(None, size << 24, size)
    return 1


# --- calls ------------------------------------------------------------------------

def recursion(depth):
    return allocate() if depth == 0 else recursion(depth - 1)


def lines():
    allocate(); allocate()
    total = (allocate() +
             allocate(
                 1,
                 allocate()) +
             sum([
                 allocate(),
             ]))
    if total and \
            allocate():
        pass
    for _ in range(
            allocate()):
        allocate()
    while allocate() and total > 0:
        total = 0
    with contextlib.suppress(
            ValueError), contextlib.ExitStack() as exits:
        exits.callback(allocate)
        raise ValueError(
            allocate())
    try:
        allocate()
        raise KeyError
    except KeyError:
        allocate()
    finally:
        allocate()
    assert allocate(), \
        allocate()
    return {
        "a": allocate(),
        "b": [
            allocate()],
    }


def far_lines():
    """Lines far apart, both ways, and more code than a byte counts."""
    gap = "\n" * 300
    filler = "    x = " + " + ".join(["1"] + ["y"] * 60) + "\n"
    source = ("def far(y):\n    allocate()\n" + gap + filler + "    allocate()\n" + filler * 3 + gap +
              "    z = [allocate(),\n" + gap + "        allocate()]; allocate()\n" + gap +
              "    return (lambda:\n" + gap + "        allocate())()\n")
    exec_in("far.py", source + "far(1)\n")


def exec_in(name, source):
    exec(compile(source, name, "exec"), {"allocate": allocate, "__name__": "made"})


def arguments(first=None, *rest, key=None, **others):
    return allocate(first, rest, key, others)


# --- callables --------------------------------------------------------------------

class Base:
    count = allocate()

    def __init__(self):
        allocate()

    def __call__(self, *ignored):
        return allocate()

    def __eq__(self, other):
        allocate()
        return NotImplemented

    def __lt__(self, other):
        return bool(allocate())

    def __hash__(self):
        return allocate()

    def __getattr__(self, name):
        if name.startswith("missing"):
            return allocate()
        raise AttributeError(name)

    def __del__(self):
        allocate()

    @property
    def value(self):
        return allocate()

    @classmethod
    def of_class(cls):
        return allocate()

    @staticmethod
    def of_none():
        return allocate()

    def __enter__(self):
        return allocate()

    def __exit__(self, *error):
        allocate()


class Derived(Base):
    def __new__(cls, *arguments):
        allocate()
        return super().__new__(cls)

    def __init__(self, nested=True):
        super().__init__()
        self.inner = Derived(False) if nested else None
        allocate()

    def captured(self):
        return (lambda: self and allocate())()


class Meta(type):
    def __call__(cls, *arguments):
        allocate()
        return super().__call__(*arguments)


class Made(metaclass=Meta):
    def __init__(self):
        allocate()


def objects():
    thing = Derived()
    thing()
    thing.value, thing.missing_one
    thing.of_class(), thing.of_none(), thing.captured()
    [Base(), Base()].count(thing)
    {thing: 1}
    with thing:
        allocate()
    del thing
    Made()
    min(Base(), Base())


def decorated(function):
    allocate()

    @functools.wraps(function)
    def inner(*arguments):
        return function(*arguments)
    return inner


@decorated
@functools.lru_cache(None)
def cached(number):
    return allocate(number)


def callbacks():
    sorted([3, 1, 2], key=allocate)
    sorted([2, 1], key=lambda number: allocate() and number)
    functools.partial(arguments, 1, key=2)(3)
    functools.reduce(lambda left, right: allocate(), range(3))
    list(map(allocate, range(2))), list(filter(recursion, range(2)))
    cached(1), cached(1), cached(2)
    collections.defaultdict(allocate)[1]
    getattr(Base(), "of_none")()
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda left, right: allocate())
    ctypes.CDLL(None).qsort((ctypes.c_int * 3)(3, 1, 2), 3, ctypes.sizeof(ctypes.c_int), compare)
    max("ab", "b", key=lambda text: recursion(len(text)))
    eval("allocate()"), eval("[allocate() for _ in range(2)]")
    exec_in("__init__", "def __init__():\n    return allocate()\n\n__init__()\n")
    exec_in("class.py", "class Body:\n    a = allocate()\n    b = [allocate() for _ in range(2)]\n")
    for gap in range(3):  # code objects that die, and others that take their place
        exec_in("again.py", "\n" * gap + f"allocate({'1,' * gap})\n(lambda: allocate())()\n")
    arguments(*[1, 2], **{"key": allocate()})


# --- suspended code -----------------------------------------------------------------

def generator(count):
    for _ in range(count):
        allocate()
        yield allocate()
    return allocate()


def delegating():
    yield from generator(1)
    result = yield from generator(1)
    yield allocate(result)


def closing():
    try:
        yield 1
    finally:
        allocate()


def comprehensions():
    [allocate() for _ in range(2) if allocate()]
    {allocate(): allocate() for _ in range(1)}
    {allocate() for _ in range(1)}
    [[allocate() for _ in range(1)] for _ in range(
        allocate())]
    sum(allocate() for _ in range(2))
    list(delegating()), list(generator(2)), next(generator(1)), sum(generator(1))
    running = closing()
    next(running)
    running.close()
    any(allocate() and (lambda: allocate())() for _ in [1])


async def asynchronous():
    async def inner(depth):
        await asyncio.sleep(0)
        return allocate() if depth == 0 else await inner(depth - 1)

    async def generated():
        for _ in range(2):
            yield allocate()

    async def task():
        async with Context():
            allocate()

    class Context:
        async def __aenter__(self):
            allocate()

        async def __aexit__(self, *error):
            await asyncio.sleep(0)
            allocate()

    await inner(3)
    [value async for value in generated() if allocate()]
    await asyncio.gather(inner(1), task(), inner(2))
    asyncio.get_running_loop().call_soon(allocate)
    await asyncio.sleep(0)


# --- the rest -----------------------------------------------------------------------

def hot():
    """The same code before and after the interpreter has specialised it."""
    def callee(number, wanted):
        return allocate() if number == wanted else number

    for number in range(HOT):
        callee(number, 0), callee(number, HOT - 1)
    [callee(number, HOT - 1) for number in range(HOT)]


def watched():
    """With the interpreter's events on, which rewrites code that runs."""
    sys.setprofile(lambda *ignored: None)
    try:
        lines(), comprehensions()
    finally:
        sys.setprofile(None)
    lines()


def threads():
    def inside(number):
        return recursion(number), [allocate() for _ in range(1)]

    started = [threading.Thread(target=inside, args=(number,)) for number in range(3)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def main():
    recursion(3), recursion(DEPTH)
    for run in (lines, far_lines, arguments, objects, callbacks, comprehensions, hot, threads, watched):
        run()
    asyncio.run(asynchronous())


allocate()
if "--few" not in sys.argv:
    main()
with open(os.path.join(FOLDER, "stacks.json"), "w", encoding="utf-8") as out:
    json.dump({size: frames for size, (frames, _) in stacks.items()}, out)
os._exit(0)  # no time is left for what was not read yet
