#!/usr/bin/python3
"""In-process reference tracer: what hdtrace must reconstruct from outside.

    reference.py [--device DEVICE] -o DIR script.py [script arguments]

Runs a script unchanged under a TorchDispatchMode and writes, by the rules of
docs/report-format.md, DIR/rank_N/rank_N_memory.csv and rank_N_tasks.csv for the
process that it runs in; N is RANK, else 0. Only the tensors of one device are
followed: the CPU, or cuda, or cuda:1.

A dispatch mode changes what it observes. Module names are read from Python
frames, because forward hooks would move every module to another line of
nn.Module._call_impl. What cannot be avoided is listed in accuracy_test.py with
the jobs that meet it.

Not seen, by design: operators of other processes, allocations outside
operators other than storage resizes, and the order in which two storages died
between the same two operators.
"""
import argparse
import csv
import gc
import os
import runpy
import sys
import threading
import weakref
from decimal import Decimal

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

MEMORY_FIELDS = (
    "start_time_stamp", "end_time_stamp", "start_plot_time_stamp", "end_plot_time_stamp", "device_addr",
    "stream_id", "pool_type", "size", "actual_used_memory", "actual_peak_memory", "file_name", "line_num",
    "type", "producer_task", "task_name", "node_name", "graph_name", "user_tasks", "last_user_task",
    "python_stack", "is_persistent", "is_small",
)
TASK_FIELDS = ("task_index", "thread_id", "task_name", "node_name", "graph_name", "file_name", "line_num")
PERSISTENT_END = 2**63 - 1
SMALL_BYTES = 2**20
STACK_FRAMES_MAX = 64
NO_GRAPH_TASK = -1
RESIZE_NODE = "torch.UntypedStorage.resize_"

# Frames that exist only because this tracer runs, and those that no report shows: by end of file name.
OWN_FILES = ("/runpy.py", "/torch/utils/_python_dispatch.py", "/torch/_compile.py", "/torch/_dynamo/eval_frame.py")

# Namespaces of custom operators whose kernels call others, which are what runs.
MADE_OF_OTHERS = ("fsdp",)

# How they are entered again from here.
REDISPATCH = getattr(getattr(torch._ops.OpOverload, "redispatch", None), "__code__", None)


# --- what a moment looks like -------------------------------------------------

def untyped_storage(tensor):
    """The tensor's storage in bytes, under every torch version."""
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    return tensor.storage()._storage


def strided_parts(tensor):
    """The tensors with storages that a tensor consists of: itself, or the indices and values of a sparse one."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    return []


def is_on(device, tensor):
    """Whether a tensor or storage is on a device; a device without an index stands for all of its kind."""
    return tensor.device.type == device.type and device.index in (None, tensor.device.index)


def storages_of(values, device):
    """Map storage identity to (storage, bytes) for the tensors of a device in a pytree."""
    found = {}
    for value in tree_flatten(values)[0]:
        if not isinstance(value, torch.Tensor) or not is_on(device, value):
            continue
        try:
            for part in strided_parts(value):
                storage = untyped_storage(part)
                if not is_on(device, storage):
                    continue  # a tensor that only says so (FakeTensor): it has no memory
                found[storage._cdata] = (storage, storage.nbytes())
        except (NotImplementedError, RuntimeError):
            continue
    return found


class ModuleNames:
    """Names of modules: class of the outermost one called, then attribute path."""

    def __init__(self):
        self.names = weakref.WeakKeyDictionary()

    def name(self, module):
        if module not in self.names:
            root = type(module).__name__
            for path, child in module.named_modules():
                self.names.setdefault(child, f"{root}.{path}" if path else root)
        return self.names[module]

    def deepest(self, modules):
        """Name of the deepest module of a list that is ordered outermost first."""
        deepest, depth = "", (-1, -1)
        for name in map(self.name, modules):
            if (name.count("."), len(name)) >= depth:
                deepest, depth = name, (name.count("."), len(name))
        return deepest


def is_own_frame(code):
    return (code.co_filename == __file__ or code is REDISPATCH or code.co_filename.startswith("<frozen")
            or code.co_filename.endswith(OWN_FILES))


def python_frames():
    """The script's frames (file, line, function) and active modules, outermost first."""
    frames, modules, frame = [], [], sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_own_frame(code):
            if len(frames) < STACK_FRAMES_MAX:
                frames.append((code.co_filename, frame.f_lineno, code.co_name))
            if code.co_name == "_call_impl" and code.co_filename.endswith("/torch/nn/modules/module.py"):
                modules.append(frame.f_locals["self"])
        frame = frame.f_back
    return frames[::-1], modules[::-1]


# The backward pass that runs on this thread. PyTorch 1.13 does not tell; it is traced on the CPU only.
current_graph_task = getattr(torch._C, "_current_graph_task_id", lambda: NO_GRAPH_TASK)


def phase_of(frames):
    """optimizer, recompute, backward or forward, in that order of precedence.

    Recompute is a checkpoint frame inside a backward pass, unless that frame
    itself started a backward pass further in, as the reentrant checkpoint does.
    """
    # A device's backward runs on a thread of its own, which has no frame of backward().
    in_backward = current_graph_task() != NO_GRAPH_TASK
    innermost = "backward" if in_backward else "forward"
    for file, _, name in frames:
        if file.endswith("/torch/optim/optimizer.py") and name in ("wrapper", "profile_hook_step"):
            return "optimizer"
        if file.endswith(("/torch/autograd/__init__.py", "/torch/autograd/graph.py")) and name in (
                "backward", "grad", "_engine_run_backward"):
            innermost, in_backward = "backward", True
        elif file.endswith("/torch/utils/checkpoint.py") and in_backward:
            innermost = "recompute"
    return innermost


# --- the lifecycle --------------------------------------------------------------

class Recorder:
    """Numbers operators and follows the storages that they make."""

    def __init__(self, device):
        self.device = device
        self.lock = threading.RLock()
        self.module_names = ModuleNames()
        self.blocks, self.tasks = [], []
        self.live = {}     # storage identity -> open block
        self.emptied = {}  # storage identity -> weak reference, of storages resized to nothing
        self.next_task = self.next_event = 0
        self.used_bytes = self.peak_bytes = 0

    def take_event(self):
        self.next_event += 1
        return self.next_event - 1

    def close(self, key, task):
        block = self.live.pop(key)
        self.used_bytes -= block["size"]
        block["end_time_stamp"] = task
        block["end_event"] = self.take_event()

    def close_expired(self):
        for key in sorted(key for key, block in self.live.items() if block["storage"].expired()):
            self.close(key, self.next_task)

    def operator(self, func, args, kwargs):
        """Run one operator and record it; returns its result."""
        with self.lock:
            self.close_expired()
            frames, modules = python_frames()
            inputs = storages_of((args, kwargs), self.device)
            users = [key for key in inputs if key in self.live]
            bytes_before = {key: size for key, (_, size) in inputs.items()}
        result = func(*args, **kwargs)
        with self.lock:
            outputs = storages_of(result, self.device)
            resized = [key for key in users if key in outputs and outputs[key][1] != self.live[key]["size"]]
            created = [key for key, (_, size) in outputs.items()
                       if size > 0 and (key in resized or (key not in self.live and bytes_before.get(key, 0) == 0))]
            if str(func).startswith("aten.set_."):
                created = []  # takes over a storage that was made elsewhere
            self.close_expired()
            if not users and not created and not resized:
                return result
            task = self.take_task(str(func), frames, modules)
            for key in users:
                if key in self.live:
                    self.live[key]["users"].append(task)
            for key in sorted(resized):
                self.close(key, task)
            for key in sorted(created):
                self.open(key, *outputs[key], task, frames)
        return result

    def take_task(self, node, frames, modules):
        task, self.next_task = self.next_task, self.next_task + 1
        leaf = frames[-1] if frames else ("", 0, "")
        self.tasks.append((task, threading.get_native_id(), phase_of(frames), node,
                           self.module_names.deepest(modules), leaf[0], leaf[1]))
        return task

    def open(self, key, storage, size, task, frames):
        """A block begins, made by `task`, the last one taken."""
        _, _, phase, node, graph, file, line = self.tasks[-1]
        self.used_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        block = {
            "start_time_stamp": task, "end_time_stamp": PERSISTENT_END, "start_event": self.take_event(),
            "device_addr": hex(storage.data_ptr()), "stream_id": 0, "pool_type": "reference", "size": size,
            "actual_used_memory": self.used_bytes, "actual_peak_memory": self.peak_bytes,
            "file_name": file, "line_num": line, "producer_task": task, "task_name": phase, "node_name": node,
            "type": {"optimizer": "Optstate", "backward": "Temp"}.get(phase, "Activation"), "graph_name": graph,
            "python_stack": "|".join(f"File:{f};Line:{n};Function:{name}" for f, n, name in frames),
            "is_persistent": 0, "is_small": int(size < SMALL_BYTES),
            "users": [], "storage": StorageWeakRef(storage),
        }
        self.blocks.append(block)
        self.live[key] = block

    def resize(self, storage, size, resize):
        """A storage changes its bytes outside operators (report-format, storage resizes)."""
        with self.lock:
            key, before = storage._cdata, storage.nbytes()
            result = resize(storage, size)
            known = key in self.live or (key in self.emptied and not self.emptied[key].expired())
            if size == before or not known:
                return result
            if key in self.live:
                self.close(key, self.next_task)
            self.emptied.pop(key, None)
            if size == 0:
                self.emptied[key] = StorageWeakRef(storage)
                return result
            frames, modules = python_frames()
            self.open(key, storage, size, self.take_task(RESIZE_NODE, frames, modules), frames)
            return result

    def finish(self, types):
        """Close what died, mark the rest persistent, give plot coordinates."""
        self.close_expired()
        for key, block in self.live.items():
            block["is_persistent"] = 1
            block["type"] = types.get(key, block["type"])
        events = {}
        for block in self.blocks:
            for side in ("start", "end"):
                if f"{side}_event" in block:
                    listed = events.setdefault(block[f"{side}_time_stamp"], [])
                    listed.append((block[f"{side}_event"], block, f"{side}_plot_time_stamp"))
        for task, listed in events.items():
            for place, (_, block, field) in enumerate(sorted(listed, key=lambda event: event[0]), 1):
                block[field] = format(Decimal(task) + Decimal(place) / (len(listed) + 1), ".12f")


class Tracer(TorchDispatchMode):
    """The dispatch mode of one thread."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            return NotImplemented  # such a class calls operators of its own, which come here again
        if str(func).split(".")[0] in MADE_OF_OTHERS:
            backend = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, self.recorder.device.type.upper()))
            with self:
                return func.redispatch(backend, *args, **(kwargs or {}))
        return self.recorder.operator(func, args, kwargs or {})


def trace_threads(recorder):
    """Dispatch modes belong to a thread: give each new thread one of its own."""
    bootstrap = threading.Thread._bootstrap_inner

    def traced_bootstrap(self):
        with Tracer(recorder):
            bootstrap(self)

    threading.Thread._bootstrap_inner = traced_bootstrap


def trace_resizes(recorder):
    resize = torch.UntypedStorage.resize_
    torch.UntypedStorage.resize_ = lambda self, size: recorder.resize(self, size, resize)


# --- the end --------------------------------------------------------------------

def final_types():
    """Category of every storage that a module or an optimizer still owns."""
    types = {}

    def note(tensor, category):
        tensor = getattr(tensor, "_local_tensor", tensor)  # a DTensor's own storage is empty
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
            types[untyped_storage(tensor)._cdata] = category

    for owner in gc.get_objects():
        try:
            if isinstance(owner, torch.optim.Optimizer):
                for parameter in (parameter for group in owner.param_groups for parameter in group["params"]):
                    note(parameter, "Parameter")  # of scripted modules, which keep theirs in C++, too
                    note(parameter.grad, "Gradient")
                for state in owner.state.values():
                    for value in state.values():
                        note(value, "Optstate")
            elif isinstance(owner, torch.nn.Module):
                for buffer in owner._buffers.values():
                    note(buffer, "Buffer")
                for parameter in owner._parameters.values():
                    note(parameter, "Parameter")
                    note(getattr(parameter, "grad", None), "Gradient")
        except (AttributeError, NotImplementedError, ReferenceError, RuntimeError):
            continue
    return types


def write_report(recorder, folder, rank):
    stem = os.path.join(folder, f"rank_{rank}", f"rank_{rank}_")
    os.makedirs(os.path.dirname(stem), exist_ok=True)
    with open(stem + "tasks.csv", "w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([TASK_FIELDS, *recorder.tasks])
    with open(stem + "memory.csv", "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, MEMORY_FIELDS, restval="", extrasaction="ignore")
        writer.writeheader()
        for block in recorder.blocks:
            users = block["users"]
            writer.writerow({**block, "user_tasks": "{" + "-".join(map(str, users)) + "}",
                             "last_user_task": users[-1] if users else ""})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", required=True, metavar="DIR")
    parser.add_argument("--device", default="cpu", type=torch.device, help="follow the tensors on it (cpu)")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    sys.argv = [options.script] + options.arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    recorder = Recorder(options.device)
    trace_threads(recorder)
    trace_resizes(recorder)
    status = 0
    with Tracer(recorder):
        # The returned namespace keeps the script's globals alive until the end,
        # as they are in a process that is still running when tracing stops.
        try:
            namespace = runpy.run_path(options.script, run_name="__main__")
        except SystemExit as leaving:
            namespace, status = {}, leaving.code
        recorder.finish(final_types())
    write_report(recorder, options.output, os.environ.get("RANK", "0"))
    del namespace
    sys.exit(status)


if __name__ == "__main__":
    main()
