#!/usr/bin/python3
"""Demand that an hdtrace report equals the reference's, but for what the reference itself changes.

    exact.py REFERENCE_DIR HDTRACE_DIR [--rank 0] [--reference-rank N] [--hooks]

compare.py gives figures and allows a few per cent. This check first undoes, in the
reference, what running under a dispatch mode does to a job (the tables below,
each entry with its reason), and then wants every task and every row equal. Its
figures are those of compare.py, counted after that. What it undoes:

 pairs   the mode makes a kernel take its functional form where it works in place
         without one. The row that the functional operator makes is joined to the
         block that is really worked on: its users are that block's users and its
         end is that block's end.
 conj    the mode sees the clone by which the fallback for conjugated tensors prepares
         an argument, inside the operator; in hdtrace it is that operator's
         Workspace. It goes, and what it read is read by the operator.
 group   what a process group does for itself inside a collective, copies and scratch, on its
         own threads too: for the mode that is the inside of one operator. A barrier of
         it has a tensor that hdtrace, which sees the group's method, does not have.
 detach  the mode shows a detach for each saved variable that is unpacked, and
         hides those of nn.Parameter. They are no anchors of the alignment, and
         every index is counted without them. An hdtrace detach that the
         reference does not have between the same two tasks is still a fault.

Indices become numbers of aligned tasks. Plot coordinates are made again from the
order of events among these, on both sides by the same rule, so that a detach
more or less moves nothing. Which of several blocks died first between the same
two tasks is not compared (the reference cannot know it).

With --hooks both folders are hdtrace's, of the plain and of the sparse hooks: no
mode, so no pairs and every detach counts; only INNER tasks are dropped.
"""
import argparse
import bisect
import collections
import itertools
import re
import sys
from decimal import Decimal

from compare import (BOUNDS, IGNORED_TYPES, PERSISTENT_END, UNALIGNED_NODES, align, live_peak, out_of_bounds, place_of,
                     read_csv, shown)

# --- what a dispatch mode changes -------------------------------------------------

Pair = collections.namedtuple("Pair", "reference hdtrace phases place why")

LINEAR = r"/torch/nn/|/jobs/"
BACKWARD = r"/torch/autograd/"

# A pair is allowed one way round, in these phases, at lines of files whose name matches.
PAIRS = (
    # at::linear with a bias where addmm does not fit (three dimensions and not contiguous): matmul, then
    # `if (isTensorSubclassLike(bias)) add else add_` (Linear.cpp); under a mode everything is subclass-like.
    Pair("aten.add.Tensor", "aten.add_.Tensor", ("forward", "recompute"), LINEAR, "bias of linear"),
    # Gradients that meet in one node (2.0 and later): add_ unless subclass-like (input_buffer.cpp).
    Pair("aten.add.Tensor", "aten.add_.Tensor", ("backward",), BACKWARD + "|^$", "gradients that meet"),
    # Derivative of binary_cross_entropy_with_logits: sub_ and mul_ of a temporary unless subclass-like.
    Pair("aten.sub.Tensor", "aten.sub_.Tensor", ("backward",), BACKWARD, "binary_cross_entropy_with_logits"),
    Pair("aten.mul.Tensor", "aten.mul_.Tensor", ("backward",), BACKWARD, "binary_cross_entropy_with_logits"),
    # index_backward: zeros, then _index_put_impl_ on them, or index_put under a mode (FunctionsManual.cpp).
    Pair("aten.index_put.default", "aten._index_put_impl_.default", ("backward",), BACKWARD, "derivative of index"),
    # The same of gather, index_select and masked_select: zeros, then in place unless subclass-like.
    Pair("aten.scatter_add.default", "aten.scatter_add_.default", ("backward",), BACKWARD, "derivative of gather"),
    Pair("aten.index_add.default", "aten.index_add_.default", ("backward",), BACKWARD, "derivative of index_select"),
    Pair("aten.masked_scatter.default", "aten.masked_scatter_.default", ("backward",), BACKWARD,
         "derivative of masked_select"),
    # The same of take, in 2.0 and later.
    Pair("aten.put.default", "aten.put_.default", ("backward",), BACKWARD, "derivative of take"),
    # reshape of 2.0 and later: _reshape_alias, or view where an argument is subclass-like (TensorShape.cpp): no row.
    Pair("aten.view.default", "aten._reshape_alias.default", ("forward", "recompute", "backward", "optimizer"), r"",
         "reshape"),
    # Below autograd, as in the kernel of an operator, the mode is shown narrow, which is only made of slice: no row.
    Pair("aten.narrow.default", "aten.slice.Tensor", ("forward", "backward"), r"/fsdp/", "narrow in a kernel"),
    # _embedding_bag_sparse_backward cuts offset2bag by resize_, or by narrow under a mode (EmbeddingBag.cpp): no row.
    Pair("aten.slice.Tensor", "aten.resize_.default", ("backward",), BACKWARD, "derivative of embedding_bag"),
)
PAIR_NAMES = {(pair.reference, pair.hdtrace) for pair in PAIRS}
CANONICAL = {pair.reference: pair.hdtrace for pair in PAIRS}


def canonical(name):
    while name in CANONICAL:
        name = CANONICAL[name]
    return name


# Resolves a conjugated argument inside the operator that stands next (ConjugateFallback.cpp).
RESOLVING = "aten.clone.default"

# Detaches of hdtrace's that the reference cannot have, since modes are off there: (name, file).
HIDDEN_DETACHES = (
    ("aten.detach.default", r"/torch/nn/parameter\.py$"),  # nn.Parameter(tensor)
    ("aten.detach_.default", r""),                         # torch.tensor(array), Optimizer.zero_grad
)

# Tasks that only the plain hooks show, right behind the operator that they are the inside of: it calls them
# by at::_ops, past the dispatcher's table.
INNER = {
    "aten._index_put_impl_.default": "aten.index_put_.default",
    "aten.logical_and.out": "aten.logical_and_.default",
    "aten.add.out": "aten.add_.Tensor",
}

# What process groups do with tensors inside a collective, beside sending them (ProcessGroupGloo.cpp, ProcessGroupNCCL.cpp).
GROUP_INNER = {f"aten.{name}" for name in (
    "empty.memory_format", "empty_strided.default", "empty_like.default", "clone.default", "copy_.default", "view.default",
    "split.Tensor", "slice.Tensor", "select.int", "as_strided.default", "div_.Scalar", "div_.Tensor", "detach.default",
    "is_same_size.default", "_reshape_alias.default", "reshape.default", "zeros.default", "zero_.default", "fill_.Scalar")}
BARRIER = "c10d.barrier.default"

# Tasks that the reference cannot have, since the mode is off there: (name, file).
HIDDEN = (("aten.record_stream.default", r"/torch/distributed/fsdp/_common_utils\.py$"),)

EXACT = {name: (100, 100) for name in BOUNDS} | {"extra_tasks": (0, 0), "extra": (0, 0), "peak": (1, 1)}


# --- one report ---------------------------------------------------------------------

class Row:
    """A block in numbers of kept tasks."""

    def __init__(self, fields, report):
        self.fields = fields
        self.size = int(fields["size"])
        self.start = report.place(int(fields["start_time_stamp"]))
        end = int(fields["end_time_stamp"])
        self.end = None if end == PERSISTENT_END else report.place(end)
        text = fields["user_tasks"].strip("{}")
        users = [int(task) for task in text.split("-")] if text else []
        self.users = [report.place(task) for task in users if task in report.kept]
        self.start_event = Decimal(fields["start_plot_time_stamp"])
        self.end_event = Decimal(fields["end_plot_time_stamp"]) if self.end is not None else None

    def take_over(self, other):
        """The row of a functional operator, whose block is in truth this one."""
        self.users += other.users
        self.end, self.end_event = other.end, other.end_event

    def identity(self):
        return self.size, -1 if self.end is None else self.end, tuple(self.users)

    def __str__(self):
        return f"{self.fields['node_name']} {self.size} B made at {self.fields['start_time_stamp']}, " \
               f"{place_of(self.fields)}"


def same_place(a, b):
    return all(a[field] == b[field] for field in ("thread_id", "task_name", "file_name", "line_num"))


def without_inner(tasks):
    return [task for before, task in itertools.pairwise([None, *tasks])
            if not (before and INNER.get(task["node_name"]) == before["node_name"] and same_place(before, task))]


class Report:
    """One side; `hooks`: it is compared with another of hdtrace's."""

    def __init__(self, folder, rank, hooks=False):
        tasks = [task for task in read_csv(folder, rank, "tasks") if task["task_name"] != "initialization"]
        self.barriers = {place_of(task) for task in tasks if task["node_name"] == BARRIER}
        tasks = [task for task in tasks if task["node_name"] != BARRIER]
        self.detaches = [task for task in tasks if task["node_name"] in UNALIGNED_NODES and not hooks]
        self.tasks = without_inner(tasks) if hooks else \
            [task for task in tasks if task["node_name"] not in UNALIGNED_NODES]
        self.indices = [int(task["task_index"]) for task in self.tasks]
        self.kept = set(self.indices)
        rows = [row for row in read_csv(folder, rank, "memory") if row["task_name"] != "initialization"]
        self.rows = [Row(row, self) for row in rows if row["type"] not in IGNORED_TYPES]
        self.scratch = {(self.place(int(row["start_time_stamp"])), int(row["size"]))
                        for row in rows if row["type"] in IGNORED_TYPES}

    def place(self, task):
        """How many kept tasks come before this index."""
        return bisect.bisect_left(self.indices, task)

    def renumber(self, places):
        """Count by aligned tasks: `places` of the kept ones, in order."""
        kept = set(places)
        for row in self.rows:
            row.start = bisect.bisect_left(places, row.start)
            row.end = None if row.end is None else bisect.bisect_left(places, row.end)
            row.users = [bisect.bisect_left(places, user) for user in row.users if user in kept]

    def fold(self, place):
        """Make the task at this place, with its row, a part of the next one."""
        self.rows = [row for row in self.rows if row.start != place]
        for row in self.rows:
            row.users = sorted({place + 1 if user == place else user for user in row.users})
        self.renumber([other for other in range(len(self.tasks)) if other != place])
        del self.tasks[place], self.indices[place]

    def drop(self, places):
        """Take tasks out, with the rows that they make."""
        self.rows = [row for row in self.rows if row.start not in places]
        self.renumber([place for place in range(len(self.tasks)) if place not in places])
        self.tasks = [task for place, task in enumerate(self.tasks) if place not in places]
        self.indices = [index for place, index in enumerate(self.indices) if place not in places]

    def detaches_before(self, places):
        """Number of aligned tasks -> detach tasks that stand there."""
        found = collections.defaultdict(collections.Counter)
        for task in self.detaches:
            place = bisect.bisect_left(places, self.place(int(task["task_index"])))
            found[place][tuple(task[field] for field in ("node_name", "task_name", "file_name", "line_num"))] += 1
        return found

    def event_orders(self):
        """Aligned task -> its starts and ends as one word in the order of their coordinates, as "eess"."""
        events = collections.defaultdict(list)
        for row in self.rows:
            events[row.start].append((row.start_event, "s"))
            if row.end is not None:
                events[row.end].append((row.end_event, "e"))
        return {task: "".join(kind for _, kind in sorted(listed)) for task, listed in events.items()}

    def rows_by_task(self):
        made = collections.defaultdict(list)
        for row in self.rows:
            made[row.start].append(row)
        return made


# --- undoing --------------------------------------------------------------------------

def worked_on(row, want, got):
    """The reference's block that the in-place form of row's operator works on, or None.

    It is replaced by the result: the operator is its last user and it is dead at
    the next task. Of several such, the one that lives on in hdtrace.
    """
    found = [block for block in want.rows
             if block is not row and block.size == row.size and block.start < row.start and block.users
             and block.users[-1] == row.start and block.end is not None and row.start <= block.end <= row.start + 1]
    alive = [block for block in found if any(
        other.size == block.size and other.start == block.start and other.users[:len(block.users)] == block.users
        and (other.end is None or other.end > block.end) for other in got.rows)]
    return (alive or found or [None])[0]


def align_tasks(want, got, hooks):
    return align(*([task["node_name"] if hooks else canonical(task["node_name"]) for task in side.tasks]
                   for side in (want, got)))


def undo_fallbacks(want, got, aligned):
    """Fold the clones of the conjugate fallback into the operators that they are inside of."""
    counterpart = dict(aligned)
    for place in sorted(set(range(len(want.tasks) - 1)) - set(counterpart), reverse=True):
        made = [row for row in want.rows if row.start == place]
        if want.tasks[place]["node_name"] == RESOLVING and len(made) == 1 and made[0].users == [place + 1] \
                and made[0].end == place + 2 and (counterpart.get(place + 1), made[0].size) in got.scratch:
            want.fold(place)


def group_inner(tasks, barriers):
    """Places of the tasks that may be the inside of a collective: behind it at its place, or where no Python is."""
    collectives = {}
    for place, task in enumerate(tasks):
        behind = collectives.get(task["thread_id"])
        if task["node_name"].startswith("c10d."):
            collectives[task["thread_id"]] = task
        elif task["node_name"] not in GROUP_INNER:
            collectives.pop(task["thread_id"], None)
        elif not task["file_name"] or place_of(task) in barriers or (
                behind and all(behind[field] == task[field] for field in ("task_name", "file_name"))):
            yield place


def undo_groups(want, got, aligned):
    """Drop what the reference does not have of the inside of collectives, and what is hidden from the mode."""
    found = {j for _, j in aligned}
    hidden = {place for place, task in enumerate(got.tasks) if any(
        task["node_name"] == name and re.search(file, task["file_name"]) for name, file in HIDDEN)}
    got.drop((set(group_inner(got.tasks, want.barriers)) | hidden) - found)


def undo_pairs(want, got, aligned):
    """Join the rows that only the functional forms make; faults where that cannot be."""
    faults = []
    for place, (i, j) in enumerate(aligned):
        names = want.tasks[i]["node_name"], got.tasks[j]["node_name"]
        if names[0] == names[1]:
            continue
        task = want.tasks[i]
        if not any((pair.reference, pair.hdtrace) == names and task["task_name"] in pair.phases
                   and re.search(pair.place, task["file_name"]) for pair in PAIRS):
            faults.append(("tasks", f"task {task['task_index']}: want {names[0]}, got {names[1]}, {place_of(task)}"))
            continue
        for row in [row for row in want.rows if row.start == place]:
            block = worked_on(row, want, got)
            if block:
                block.take_over(row)
                want.rows.remove(row)
    return faults


# --- comparing -------------------------------------------------------------------------

def pair_rows(want, got):
    """(pairs, rows of want without one, rows of got without one), in each task the most alike first."""
    pairs, lost, got_made = [], [], got.rows_by_task()
    for task, rows in sorted(want.rows_by_task().items()):
        left, free = rows, got_made.pop(task, [])
        for alike in (lambda a, b: a.identity() == b.identity(), lambda a, b: a.size == b.size):
            rows, left = left, []
            for row in rows:
                other = next((candidate for candidate in free if alike(row, candidate)), None)
                if other is None:
                    left.append(row)
                else:
                    free.remove(other)
                    pairs.append((row, other))
        lost += left
        got_made[task] = free
    return pairs, lost, [row for rows in got_made.values() for row in rows]


def task_faults(want, got, aligned):
    """Tasks without a counterpart; threads, phases and lines of those that have one."""
    for column, side, label in ((0, want, "lost"), (1, got, "extra")):
        found = {pair[column] for pair in aligned}
        for place, task in enumerate(side.tasks):
            if place not in found:
                yield "tasks" if label == "lost" else "extra_tasks", \
                    f"task {label}: {task['node_name']} at {task['task_index']} {place_of(task)}"
    threads, back = {}, {}
    for i, j in aligned:
        a, b = want.tasks[i], got.tasks[j]
        fields = ("task_name", "file_name", "line_num") + (("graph_name",) if a["graph_name"] else ())
        values = [[task[field] for field in fields] for task in (a, b)]
        if values[0] != values[1]:
            yield "tasks", f"task {a['task_index']} {a['node_name']}: want {values[0]}, got {values[1]}"
        elif threads.setdefault(a["thread_id"], b["thread_id"]) != b["thread_id"] \
                or back.setdefault(b["thread_id"], a["thread_id"]) != a["thread_id"]:
            yield "tasks", f"task {a['task_index']} {a['node_name']} is on another thread"


def detach_faults(want, got, aligned):
    wanted = want.detaches_before([i for i, _ in aligned])
    for place, found in got.detaches_before([j for _, j in aligned]).items():
        for (name, phase, file, line), count in (found - wanted.get(place, collections.Counter())).items():
            if not any(name == hidden and re.search(place, file) for hidden, place in HIDDEN_DETACHES):
                yield "extra_tasks", f"{count} {name} that the reference has not: {phase} {file}:{line}"


def row_faults(want, got):
    pairs, lost, extra = pair_rows(want, got)
    for row in lost:
        yield "rows", f"row lost: {row}"
    for row in extra:
        yield "extra", f"row extra: {row}"
    orders = want.event_orders(), got.event_orders()
    checks = {
        "lifetime": lambda row, _: (row.start, row.end),
        "users": lambda row, _: row.users,
        "plot": lambda row, order: (order[row.start], order.get(row.end)),
        "phase": lambda row, _: row.fields["task_name"],
        "leaf": lambda row, _: (row.fields["file_name"], row.fields["line_num"]),
        "stack": lambda row, _: row.fields["python_stack"],
        "module": lambda row, _: row.fields["graph_name"],
        "type": lambda row, _: row.fields["type"],
    }
    # The reference has no module for what the engine of autograd runs.
    counts = {"module": lambda row: row.fields["graph_name"], "type": lambda row: row.fields["is_persistent"] == "1"}
    for a, b in pairs:
        for figure, value in checks.items():
            values = value(a, orders[0]), value(b, orders[1])
            if values[0] != values[1] and counts.get(figure, lambda _: True)(a):
                yield figure, f"{figure} of {a}: {shown(*values)}"
        if a.fields["node_name"] != b.fields["node_name"] \
                and (a.fields["node_name"], b.fields["node_name"]) not in PAIR_NAMES:
            yield "rows", f"made by {b.fields['node_name']}: {a}"


def peak_of(report):
    return live_peak([{"size": row.size, "start_time_stamp": row.start,
                       "end_time_stamp": PERSISTENT_END if row.end is None else row.end} for row in report.rows])


def compare_exactly(reference, hdtrace, rank="0", reference_rank=None, hooks=False):
    """Figures as those of compare.compare, and every difference that no table explains as (figure, text)."""
    want = Report(reference, rank if reference_rank is None else reference_rank, hooks)
    got = Report(hdtrace, rank, hooks)
    if not want.rows or not want.tasks:
        raise ValueError(f"{reference}: the reference's report is empty")
    if not hooks:
        undo_fallbacks(want, got, align_tasks(want, got, hooks))
        undo_groups(want, got, align_tasks(want, got, hooks))
    aligned = align_tasks(want, got, hooks)
    want.renumber([i for i, _ in aligned])
    got.renumber([j for _, j in aligned])
    faults = undo_pairs(want, got, aligned)
    faults += task_faults(want, got, aligned)
    faults += detach_faults(want, got, aligned)
    faults += row_faults(want, got)
    peaks = peak_of(want), peak_of(got)
    if peaks[0] != peaks[1]:
        faults.append(("peak", f"peak: want {peaks[0]} B, got {peaks[1]} B"))
    return figures_of(faults, len(want.tasks), len(want.rows), peaks[1] / peaks[0]), faults


def figures_of(faults, task_count, row_count, peak):
    counts = collections.Counter(figure for figure, _ in faults)
    figures = {}
    for name in BOUNDS:
        share = 100 * counts[name] / (task_count if name in ("tasks", "extra_tasks") else row_count)
        figures[name] = share if name in ("extra", "extra_tasks") else 100 - share
    return figures | {"peak": peak, "reference_rows": row_count}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("reference")
    parser.add_argument("hdtrace")
    parser.add_argument("--rank", default="0")
    parser.add_argument("--reference-rank", default=None)
    parser.add_argument("--hooks", action="store_true", help="both are hdtrace's, of the plain and the sparse hooks")
    options = parser.parse_args()
    figures, faults = compare_exactly(options.reference, options.hdtrace, options.rank, options.reference_rank,
                                      options.hooks)
    print("  ".join(f"{name} {value:.4g}" for name, value in figures.items()))
    for figure, text in faults:
        print(f"{figure}: {text}")
    sys.exit(1 if out_of_bounds(figures, EXACT) else 0)


if __name__ == "__main__":
    main()
