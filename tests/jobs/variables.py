"""A job that holds tensors by variables of all kinds, and says by which: the target of variables_test.py.

Prints a line `holds ADDRESS BYTES NAME` for each storage, then `ready`, and goes on until it is ended.
JOB_DEVICE: where its tensors are.
"""
import os
import time

import torch
from torch import nn

device = os.environ.get("JOB_DEVICE", "cpu")
torch.set_num_threads(1)


def make(count):
    """Every storage has a size of its own."""
    return torch.zeros(count, device=device)


def say(tensor, name):
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()._storage
    print("holds", hex(tensor.data_ptr()), storage.nbytes(), name, flush=True)


class Slots:
    __slots__ = ("hidden",)


class Plain:
    def __init__(self):
        self.average = {"decoder.weight": make(1001), "list": [make(1002)]}
        self.direct = make(1003)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(make(1004))
        self.cache = [make(1005), (make(1006),)]
        self.mask = make(1007)

    def forward(self, x):
        return x * self.weight[:8]


single = make(1008)
table = {"a": make(1009), "b": {"c": make(1010)}}
rows = [make(1011), make(1012)]
plain = Plain()
model = Model()


def inner(captured):
    shared = make(1013)
    alone = make(1014)
    view = make(1015).reshape(5, 203)
    pair = (make(1016), None)
    line = inner.__code__.co_firstlineno

    def closure():
        return shared

    where = f" in {{}} (variables.py:{line})"
    function = "inner"
    say(captured, "local kept in outer (variables.py:{})".format(outer.__code__.co_firstlineno))
    for tensor, name in ((alone, "alone"), (view, "view"), (pair[0], "pair[0]"), (shared, "shared")):
        say(tensor, f"local {name}" + where.format(function))
    del tensor, name
    print("ready", flush=True)
    step = 0
    while True:
        model(make(8))
        step += 1
        print("step", step, time.perf_counter(), flush=True)
        time.sleep(0.02)
        closure()


def outer():
    kept = make(1017)
    inner(kept)


for tensor, name in ((single, "global single in __main__"), (table["a"], 'global table["a"] in __main__'),
                     (table["b"]["c"], 'global table["b"]["c"] in __main__'),
                     (rows[0], "global rows[0] in __main__"), (rows[1], "global rows[1] in __main__"),
                     (plain.average["decoder.weight"], 'Plain.average["decoder.weight"]'),
                     (plain.average["list"][0], 'Plain.average["list"][0]'), (plain.direct, "Plain.direct"),
                     (model.cache[0], "Model.cache[0]"), (model.cache[1][0], "Model.cache[1][0]"),
                     (model.mask, "Model.mask"), (model.weight, "Model.weight")):
    say(tensor, name)
del tensor, name
outer()
