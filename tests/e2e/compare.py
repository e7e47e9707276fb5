#!/usr/bin/python3
"""Score an hdtrace report of one rank against the reference's of the same script.

    compare.py REFERENCE_DIR HDTRACE_DIR [--rank 0] [--show 20] [--json]

Tasks are aligned in order by node_name. Rows are paired within aligned tasks, by
size, then by the closest lifetime and users: the order of several outputs of
one operator is that of heap addresses, which no two runs share. Lifetimes and
users are counted in aligned tasks only, so that one operator that only one side
has does not count against every row around it. Figures are per cent of what
the reference has; exit code 1 means that one is out of BOUNDS:

 tasks        the reference's tasks that have a counterpart
 extra_tasks  hdtrace's tasks that have none
 rows         the reference's rows that have a counterpart
 extra        hdtrace's rows that have none
 lifetime     number of aligned tasks from start to end; persistent equals persistent
 users        the aligned tasks that used the block, the whole list
 plot         start_plot_time_stamp - start_time_stamp; the set of them, for outputs of one operator
 phase        task_name
 leaf         file_name and line_num
 stack        python_stack, whole
 module       graph_name, where the reference has one
 type         type, of rows that are persistent in the reference
 peak         hdtrace's largest sum of live bytes / the reference's, a ratio

detach is left out: a dispatch mode causes some of them and hides others. Rows
of type Workspace, and rows and tasks of phase initialization, have no
counterpart by design and are left out too.
"""
import argparse
import bisect
import csv
import difflib
import json
import os
import sys

PERSISTENT_END = 2**63 - 1
UNALIGNED_NODES = ("aten.detach.default", "aten.detach_.default")
IGNORED_TYPES = ("Workspace",)
FIELD_BYTES_MAX = 1 << 24
PLOT_DIGITS = 9

# figure: (least, most)
BOUNDS = {
    "tasks": (99.5, 100), "extra_tasks": (0, 3), "rows": (99.5, 100), "extra": (0, 5), "lifetime": (99, 100),
    "users": (99, 100), "plot": (98, 100), "phase": (99.5, 100), "leaf": (99.5, 100), "stack": (99, 100),
    "module": (99, 100), "type": (99.5, 100), "peak": (0.99, 1.01),
}

csv.field_size_limit(FIELD_BYTES_MAX)


def read_csv(folder, rank, kind):
    path = os.path.join(folder, f"rank_{rank}", f"rank_{rank}_{kind}.csv")
    with open(path, newline="", encoding="utf-8") as source:
        return list(csv.DictReader(source))


def align(a, b):
    """Index pairs of two sequences that match in order."""
    pairs = []
    for i, j, length in difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
        pairs += [(i + k, j + k) for k in range(length)]
    return pairs


def alignable_tasks(tasks):
    return [task for task in tasks
            if task["node_name"] not in UNALIGNED_NODES and task["task_name"] != "initialization"]


def live_peak(rows):
    """The largest sum of sizes of rows that are alive at the same task."""
    changes = {}
    for row in rows:
        size = int(row["size"])
        start, end = int(row["start_time_stamp"]), int(row["end_time_stamp"])
        changes[start] = changes.get(start, 0) + size
        changes[end] = changes.get(end, 0) - size
    live = peak = 0
    for task in sorted(changes):
        live += changes[task]
        peak = max(peak, live)
    return peak


class Side:
    """One report; task indices are translated to numbers of aligned tasks."""

    def __init__(self, folder, rank):
        self.rows = [row for row in read_csv(folder, rank, "memory")
                     if row["type"] not in IGNORED_TYPES and row["task_name"] != "initialization"]
        self.tasks = alignable_tasks(read_csv(folder, rank, "tasks"))
        self.aligned, self.aligned_set = [], set()

    def set_aligned(self, places):
        self.aligned = [int(self.tasks[place]["task_index"]) for place in places]
        self.aligned_set = set(self.aligned)

    def ordinal(self, task):
        return bisect.bisect_left(self.aligned, task)

    def users(self, row):
        text = row["user_tasks"].strip("{}")
        tasks = [int(task) for task in text.split("-")] if text else []
        return tuple(self.ordinal(task) for task in tasks if task in self.aligned_set)

    def lifetime(self, row):
        end = int(row["end_time_stamp"])
        return "persistent" if end == PERSISTENT_END else \
            self.ordinal(end) - self.ordinal(int(row["start_time_stamp"]))

    def rows_by_task(self):
        """Task index -> rows that it made, in order of size, lifetime and users."""
        made = {}
        for row in self.rows:
            made.setdefault(int(row["start_time_stamp"]), []).append(row)
        for rows in made.values():
            rows.sort(key=lambda row: (int(row["size"]), str(self.lifetime(row)), self.users(row)))
        return made

    def nodes(self):
        return [task["node_name"] for task in self.tasks]


def pair_rows(want, got):
    """Pairs of rows of aligned tasks that have the same size, the most alike first."""
    pairs, want_made, got_made = [], want.rows_by_task(), got.rows_by_task()
    for want_task, got_task in zip(want.aligned, got.aligned):
        free = list(got_made.get(got_task, ()))
        for alike in (lambda a, b: a["size"] == b["size"] and want.lifetime(a) == got.lifetime(b)
                      and want.users(a) == got.users(b),
                      lambda a, b: a["size"] == b["size"]):
            for row in list(want_made.get(want_task, ())):
                other = next((candidate for candidate in free if alike(row, candidate)), None)
                if other is not None:
                    pairs.append((row, other))
                    free.remove(other)
                    want_made[want_task].remove(row)
    return pairs


def plot_places(rows):
    """Task index -> the places in the task at which its blocks start."""
    places = {}
    for row in rows:
        place = float(row["start_plot_time_stamp"]) - int(row["start_time_stamp"])
        places.setdefault(row["start_time_stamp"], []).append(round(place, PLOT_DIGITS))
    return {task: sorted(listed) for task, listed in places.items()}


def row_checks(want, got):
    """figure: (field of a reference row, field of an hdtrace row, which rows count)."""
    def both(field):
        return field, field

    def every(_row):
        return True

    want_places, got_places = plot_places(want.rows), plot_places(got.rows)
    return {
        "lifetime": (want.lifetime, got.lifetime, every),
        "users": (want.users, got.users, every),
        "plot": (lambda row: want_places[row["start_time_stamp"]],
                 lambda row: got_places[row["start_time_stamp"]], every),
        "phase": (*both(lambda row: row["task_name"]), every),
        "leaf": (*both(lambda row: (row["file_name"], row["line_num"])), every),
        "stack": (*both(lambda row: row["python_stack"]), every),
        "module": (*both(lambda row: row["graph_name"]), lambda row: row["graph_name"]),
        "type": (*both(lambda row: row["type"]), lambda row: row["is_persistent"] == "1"),
    }


def shown(want, got):
    """Two values as text; of stacks only the first frames that differ."""
    if not (isinstance(want, str) and "|" in want):
        return f"want {want!r}, got {got!r}"
    frames, others = want.split("|"), got.split("|")
    place = next((i for i, pair in enumerate(zip(frames, others)) if pair[0] != pair[1]),
                 min(len(frames), len(others)))
    return f"frame {place} of {len(frames)}: want {frames[place:place + 1]}, got {others[place:place + 1]} " \
           f"of {len(others)}"


def place_of(item):
    return f"{item['task_name']} {os.path.basename(item['file_name'])}:{item['line_num']}"


def unmatched_lines(want, got, row_pairs, show):
    """What only one side has, the first `show` of each kind."""
    lines = []
    for label, side, column in (("lost", want, 0), ("extra", got, 1)):
        matched = {id(pair[column]) for pair in row_pairs}
        tasks = [task for task in side.tasks if int(task["task_index"]) not in side.aligned_set]
        rows = [row for row in side.rows if id(row) not in matched]
        lines += [f"task {label}: {task['node_name']} at {task['task_index']} {place_of(task)}"
                  for task in tasks[:show]]
        lines += [f"row {label}: {row['node_name']} {row['size']} B at {row['start_time_stamp']} {place_of(row)}"
                  for row in rows[:show]]
    return lines


def field_figures(want, got, row_pairs, show):
    """The figures of row_checks, and lines for the first `show` rows that differ in each."""
    figures, lines = {}, []
    for name, (want_field, got_field, counts) in row_checks(want, got).items():
        fields = [(a, want_field(a), got_field(b)) for a, b in row_pairs if counts(a)]
        wrong = [triple for triple in fields if triple[1] != triple[2]]
        total = sum(1 for row in want.rows if counts(row))
        figures[name] = 100.0 * (len(fields) - len(wrong)) / total if total else 100.0
        lines += [f"{name}: {row['node_name']} {row['size']} B at task {row['start_time_stamp']}: {shown(a, b)}"
                  for row, a, b in wrong[:show]]
    return figures, lines


def compare(reference, hdtrace, rank="0", show=0, reference_rank=None):
    """Figures of the comparison, and lines that describe the first `show` differences of each kind."""
    want, got = Side(reference, rank if reference_rank is None else reference_rank), Side(hdtrace, rank)
    if not want.rows or not want.tasks:
        raise ValueError(f"{reference}: the reference's report is empty")
    task_pairs = align(want.nodes(), got.nodes())
    want.set_aligned(i for i, _ in task_pairs)
    got.set_aligned(j for _, j in task_pairs)
    row_pairs = pair_rows(want, got)
    figures = {
        "tasks": 100.0 * len(task_pairs) / len(want.tasks),
        "extra_tasks": 100.0 * (len(got.tasks) - len(task_pairs)) / len(want.tasks),
        "rows": 100.0 * len(row_pairs) / len(want.rows),
        "extra": 100.0 * (len(got.rows) - len(row_pairs)) / len(want.rows),
    }
    more, lines = field_figures(want, got, row_pairs, show)
    figures.update(more)
    figures["peak"] = live_peak(got.rows) / live_peak(want.rows)
    figures["reference_rows"], figures["hdtrace_rows"] = len(want.rows), len(got.rows)
    return figures, lines + unmatched_lines(want, got, row_pairs, show)


def out_of_bounds(figures, bounds=None):
    """Names of the figures that leave their bounds."""
    return [name for name, (least, most) in (bounds or BOUNDS).items() if not least <= figures[name] <= most]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("reference")
    parser.add_argument("hdtrace")
    parser.add_argument("--rank", default="0")
    parser.add_argument("--reference-rank", default=None)
    parser.add_argument("--show", type=int, default=0, help="describe so many differences of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures, lines = compare(options.reference, options.hdtrace, options.rank, options.show, options.reference_rank)
    print(json.dumps(figures) if options.json else "  ".join(f"{k} {v:.4g}" for k, v in figures.items()))
    print("".join(line + "\n" for line in lines), end="")
    wrong = out_of_bounds(figures)
    if wrong:
        print("out of bounds: " + ", ".join(wrong))
        sys.exit(1)


if __name__ == "__main__":
    main()
